// Arrow keys move through the lines, Ctrl+Z and Ctrl+Y undo and redo, wherever the focus is but in a field.
// A banner says so where the server is gone: at once where the connection breaks, after six seconds without a beat.
const SILENCE = 6000;

function watch(model) {
  const cover = document.createElement("div");
  cover.id = "connection-lost";
  cover.style.cssText = "position:fixed; inset:0; z-index:100000; background:rgba(255,255,255,.6); display:none";
  const banner = document.createElement("div");
  banner.textContent = "Connection lost: the server is gone. What you decided is saved. Run outcrop app on the job again and open the address it prints.";
  banner.style.cssText = "background:#b01818; color:#fff; font:600 15px sans-serif; padding:14px 20px; text-align:center";
  banner.setAttribute("role", "alert");
  cover.append(banner);
  document.body.append(cover);
  let last = Date.now();
  const show = (lost) => { cover.style.display = lost ? "block" : "none"; };
  model.on("beat", () => { last = Date.now(); show(false); });
  setInterval(() => { if (Date.now() - last > SILENCE) show(true); }, 500);
  for (const one of window.Bokeh?.documents ?? []) one.on_event("connection_lost", () => show(true));
}

export function render({ model }) {
  const steps = { ArrowLeft: -1, ArrowRight: 1, ArrowDown: -1, ArrowUp: 1, PageDown: -10, PageUp: 10 };
  const listen = (event) => {
    const target = event.composedPath()[0];
    if (["INPUT", "TEXTAREA", "SELECT"].includes(target.tagName)) return;
    if (target.closest?.("[role=tablist], .noUi-handle, .thumbnails")) return;
    const ctrl = event.ctrlKey || event.metaKey;
    if (ctrl && event.key === "z" && !event.shiftKey) model.send_msg({ verb: "undo" });
    else if (ctrl && (event.key === "y" || event.key === "Z")) model.send_msg({ verb: "redo" });
    else if (!ctrl && steps[event.key]) model.send_msg({ verb: "step", by: steps[event.key] });
    else return;
    event.preventDefault();
  };
  watch(model);
  document.addEventListener("keydown", listen);
  document.addEventListener("pointerup", () => setTimeout(() => {  // no frame around a plot: keys work without it
    let focused = document.activeElement;
    while (focused?.shadowRoot?.activeElement) focused = focused.shadowRoot.activeElement;
    if (focused?.classList.contains("bk-events")) focused.blur();
  }));
  return document.createElement("span");
}
