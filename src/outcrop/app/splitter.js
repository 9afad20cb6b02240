// The border between section and panel: dragging or arrow keys move it; a double click or Enter folds the panel.
const LEAST = 300, SECTION = 380, STEP = 20;  // pixels: least widths of panel and section, arrow key
export function render({ model }) {
  const bar = document.createElement("div");
  bar.className = "splitter-bar";
  bar.tabIndex = 0;
  bar.title = "Drag to resize the panel; double click or M folds it";
  for (const [name, value] of [["role", "separator"], ["aria-label", "Width of the panel"], ["aria-orientation", "vertical"]])
    bar.setAttribute(name, value);
  const most = () => Math.max(LEAST, window.innerWidth - SECTION);
  const resize = (width) => { model.panel = Math.round(Math.max(LEAST, Math.min(most(), width))); };
  const fold = () => { model.folded = !model.folded; };
  const show = () => {
    const now = model.folded ? 0 : Math.round(window.innerWidth - bar.getBoundingClientRect().right);
    for (const [name, value] of [["valuemin", 0], ["valuemax", most()], ["valuenow", Math.min(now, most())]])
      bar.setAttribute(`aria-${name}`, value);
    bar.setAttribute("aria-valuetext", model.folded ? "folded" : `${now} pixels`);
    bar.textContent = model.folded ? "◂" : "⋮";
  };
  let dragged = false;
  bar.onpointerdown = (event) => { bar.setPointerCapture(event.pointerId); dragged = false; };
  bar.onpointermove = (event) => {
    if (!bar.hasPointerCapture(event.pointerId)) return;
    dragged = true;
    if (model.folded) model.folded = false;
    resize(window.innerWidth - event.clientX);
  };
  bar.onpointerup = () => { if (!dragged && model.folded) fold(); };
  bar.ondblclick = fold;
  bar.onkeydown = (event) => {
    const by = { ArrowLeft: STEP, ArrowRight: -STEP }[event.key];
    if (by) resize((model.panel || Number(bar.getAttribute("aria-valuenow"))) + by);
    else if (event.key === "Enter") fold();
    else return;
    event.preventDefault();
    event.stopPropagation();
  };
  new ResizeObserver(show).observe(document.documentElement);
  const later = () => { show(); setTimeout(show, 300); };  // show again after the server has resized the panel
  model.on("panel", later);
  model.on("folded", later);
  bar.onfocus = show;
  show();
  return bar;
}
