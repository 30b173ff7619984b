"use strict";
// A terminal: bytes both ways as binary messages, the size as text; the one text from the server is why it is over.
(() => {
  const place = document.getElementById("terminal");
  const status = document.getElementById("status");
  const again = document.getElementById("again");
  // xterm.js makes style elements, which the page's policy allows with its nonce only.
  const create = document.createElement.bind(document);
  document.createElement = (name, options) => {
    const e = create(name, options);
    if (String(name).toLowerCase() === "style") e.nonce = place.dataset.nonce;
    return e;
  };
  const terminal = new Terminal({ scrollback: 5000, fontSize: 15, screenReaderMode: false });
  const fit = new FitAddon.FitAddon();
  terminal.loadAddon(fit);
  terminal.open(place);
  // Not to a place that has no room, as it may be for a moment when a window changes: programs would draw for two columns.
  const fill = () => { if (place.clientWidth > 100 && place.clientHeight > 40) fit.fit(); };
  fill();
  window.terminal = terminal; // for tests
  const bytes = new TextEncoder();
  let socket = null;
  let first = true; // no output has come yet
  let quiet = false; // nothing is sent
  const open = () => socket !== null && socket.readyState === WebSocket.OPEN;
  const size = () => { if (open()) socket.send(JSON.stringify({ Rows: terminal.rows, Cols: terminal.cols })); };
  const connect = () => {
    again.hidden = true;
    status.textContent = "";
    first = true;
    let why = place.dataset.closed;
    socket = new WebSocket(place.dataset.console);
    socket.binaryType = "arraybuffer";
    socket.onopen = () => { size(); terminal.focus(); };
    socket.onmessage = (m) => {
      if (typeof m.data === "string") { why = m.data || why; return; }
      // What was written before we came may ask the terminal something: the answer is not wanted any more.
      const old = first;
      first = false;
      if (old) quiet = true;
      terminal.write(new Uint8Array(m.data), () => { if (old) quiet = false; });
    };
    socket.onclose = () => { status.textContent = why; again.hidden = false; };
  };
  terminal.onData((text) => { if (open() && !quiet) socket.send(bytes.encode(text)); });
  terminal.onBinary((text) => { if (open()) socket.send(Uint8Array.from(text, (c) => c.charCodeAt(0))); });
  terminal.onResize(size);
  let settled = 0;
  new ResizeObserver(() => { clearTimeout(settled); settled = setTimeout(fill, 100); }).observe(place);
  again.addEventListener("click", () => { terminal.reset(); connect(); });
  connect();
})();
