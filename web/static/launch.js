"use strict";
// A slider and the field beside it show the same. Only the field is sent: without this script it is enough.
for (const slider of document.querySelectorAll("input[type=range][data-for]")) {
  const field = document.getElementById(slider.dataset.for);
  slider.value = field.value;
  slider.addEventListener("input", () => { field.value = slider.value; });
  field.addEventListener("input", () => { slider.value = field.value; });
}
