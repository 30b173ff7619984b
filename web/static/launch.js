"use strict";
// A slider and the field beside it show the same. Only the field is sent: without this script it is enough.
for (const slider of document.querySelectorAll("input[type=range][data-for]")) {
  const field = document.getElementById(slider.dataset.for);
  slider.value = field.value;
  slider.addEventListener("input", () => { field.value = slider.value; });
  field.addEventListener("input", () => { slider.value = field.value; });
}
// Apps that the chosen image does not name are out of the way. Without an image the queue's is used, of which nothing is known here.
const image = document.getElementById("image");
const fit = () => {
  for (const label of document.querySelectorAll("#apps label[data-of]")) {
    label.hidden = image.value !== "" && !label.dataset.of.split(" ").includes(image.value);
    if (label.hidden) label.querySelector("input").checked = false;
  }
};
image.addEventListener("input", fit);
fit();
