"use strict";
// Keeps the parts of the page that are marked data-live as they are on the server. What has not changed is left alone, and so
// are the focus and the fields that somebody types in, which are in no such part.
(() => {
  const every = 2000;
  const look = async () => {
    const parts = document.querySelectorAll("[data-live]");
    if (parts.length === 0) return;
    if (!document.hidden) {
      try {
        const answer = await fetch(location.href, { headers: { "Fairslice-Live": "1" }, redirect: "manual", signal: AbortSignal.timeout(20000) });
        if (answer.type === "opaqueredirect") { location.reload(); return; } // logged out
        if (answer.ok) update(parts, new DOMParser().parseFromString(await answer.text(), "text/html"));
      } catch { /* away for a moment: the next look may do */ }
    }
    setTimeout(look, every);
  };
  const update = (parts, fresh) => {
    for (const part of parts) {
      const now = fresh.getElementById(part.id);
      if (!now || now.innerHTML === part.innerHTML) continue;
      const focused = part.contains(document.activeElement) ? document.activeElement.id : "";
      part.replaceChildren(...document.adoptNode(now).childNodes);
      if (focused) document.getElementById(focused)?.focus();
    }
  };
  setTimeout(look, every);
})();
