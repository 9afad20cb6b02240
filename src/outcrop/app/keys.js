// Keys that work with any focus except in an input field.
const HELP = [
  ["L  P", "navigate, place exemplars"], ["B  T  U", "brush, straight line, outline that is filled"],
  ["E  R  W", "paint as erase, right, wrong"], ["1 ... 9", "class to place or to paint"],
  ["Enter, Esc", "end, discard a line or an outline of clicks; Ctrl+Z: remove its last corner"],
  ["Shift+arrows", "move a corner; comma and full stop choose the corner"], ["N", "next place to look at"],
  ["Shift+C, Shift+W", "confirm the labels of this line, clear the confirmation"],
  ["Shift+N", "the line to correct next, at its least certain place"],
  ["G", "lasso around fault sticks (step 5)"], ["J, Shift+J", "next, previous fault stick without a verdict"],
  ["A  X, Shift+A", "accept, reject the chosen sticks; choose all sticks of the line"],
  ["[   ]", "smaller, larger brush"], ["Space, held", "pan with any tool; the wheel zooms"],
  ["→ ↑,  ← ↓", "next, previous section; PgUp, PgDn ten"], ["C, held", "show the labels before the last correction"],
  ["S", "hide or show brush strokes"], ["O", "hide or show labels"], ["V", "linked inline, crossline and slice"], ["F", "fit the section into the window"], ["Ctrl+Z  Ctrl+Y", "undo, redo"], ["M", "fold the panel away, or show it"], ["H", "undo a decision of another kind or person"], ["Y  N  U", "answer a question of an audit (step 4)"], ["?", "this list"],
];

const element = (css, ...children) => {
  const one = document.createElement("div");
  one.style.cssText = css;
  one.append(...children);
  return one;
};

function help() {
  const rows = HELP.map(([key, text]) => element("display:flex; gap:16px; padding:3px 0",
    element("width:130px; font-weight:600; white-space:pre", key), element("", text)));
  const list = element(
    "position:fixed; left:60px; top:130px; z-index:90000; background:#fff; border:1px solid #99a; border-radius:8px; " +
    "padding:16px 22px; font:13px sans-serif; box-shadow:0 6px 30px rgba(0,0,0,.25); display:none", ...rows);
  list.id = "key-list";
  list.onclick = () => { list.style.display = "none"; };
  document.body.append(list);
  return list;
}

export function render({ model }) {
  // Bokeh treats a mouse that rests for 0.3 s before it moves as another gesture, which would lose the stroke.
  window.Bokeh.require("core/ui_gestures").UIGestures.press_threshold = 2 ** 31 - 1;
  const steps = { ArrowLeft: -1, ArrowRight: 1, ArrowDown: -1, ArrowUp: 1, PageDown: -10, PageUp: 10 };
  const moves = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowDown: [0, 1], ArrowUp: [0, -1] };
  const open = () => named("section").stroke && !named("section").stroke.dragged;  // corners that are not painted yet
  const tools = ["l", "p", "b", "t", "u", "g"];  // in the order of the buttons
  const lines = { c: "confirm", w: "unconfirm", n: "next-line" };  // with Shift
  const says = { e: "erase", r: "right", w: "wrong" };
  const named = (name) => window.Bokeh.documents[0].get_model_by_name(name);
  let list = null;
  const toggle = (open) => {
    list ??= open ? help() : null;
    if (list) list.style.display = open && list.style.display === "none" ? "block" : "none";
  };
  const pan = (on) => {  // pan with any tool while the key is held
    const section = named("section");
    if (!section || Boolean(section.panning) === on) return;
    section.panning = on;
    named("pan").active = on || named("tool").active === 0;
    if (!on) named("lasso").active = named("tool").active === 5;
  };
  const brush = (what) => {  // set in the browser at once, so that the next stroke has this class
    if (what && named("tool").active >= 2 && named("tool").active <= 4) named("brush-class").value = what;
  };
  const before = (on) => {
    const cut = named("cut");
    if (!cut || Boolean(cut.before) === on) return;
    cut.before = on;
    cut.properties.location.change.emit();
    const painted = named("painted");
    if (on) cut.strokes = painted.visible;
    painted.visible = !on && cut.strokes;
  };
  const other = (event) => {
    const target = event.composedPath()[0];
    if (["TEXTAREA", "SELECT"].includes(target.tagName)) return true;
    return target.tagName === "INPUT" && !["checkbox", "radio", "color"].includes(target.type);
  };
  const stick = (what) => model.send_msg({ verb: "stick", what });
  const undo = () => {  // remove corners that are not painted yet first
    if (named("section").stroke) named("section").drop_corner();
    else model.send_msg({ verb: "undo" });
  };
  const layer = (detail) => window.dispatchEvent(new CustomEvent("outcrop-layer", { detail }));
  const press = (event) => {
    if (other(event)) {
      if (event.key === "Enter" && event.composedPath()[0].closest(".bk-input")) event.composedPath()[0].blur();
      return;
    }
    const ctrl = event.ctrlKey || event.metaKey, key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
    if (ctrl && key === "z" && !event.shiftKey) undo();
    else if (ctrl && (key === "y" || key === "z")) model.send_msg({ verb: "redo" });
    else if (ctrl || event.altKey) return;
    else if (event.composedPath()[0].closest?.("[role=tablist], .noUi-handle, .thumbnails") && (steps[key] || /^[ar]$/.test(key))) return;
    else if (moves[key] && event.shiftKey && open()) named("section").nudge_corner(...moves[key]);
    else if ((key === "," || key === ".") && open()) named("section").choose_corner(key === "." ? 1 : -1);
    else if (steps[key] && named("section").stroke?.dragged) ;  // the section does not change during a stroke
    else if (steps[key]) model.send_msg({ verb: "step", by: steps[key] });
    else if (key === " ") pan(true);
    else if (event.shiftKey && lines[key]) { if (!event.repeat) model.send_msg({ verb: lines[key] }); }
    else if (key === "c") before(true);
    else if (event.repeat && key !== "[" && key !== "]") return;
    else if (tools.includes(key)) named("tool").active = tools.indexOf(key);  // set in the browser at once, like the class
    else if (says[key]) { brush(says[key]); model.send_msg({ verb: "says", what: says[key] }); }
    else if (key === "v") model.send_msg({ verb: "linked" });
    else if (key === "f") named("section").reset.emit();
    else if (key === "n") model.send_msg({ verb: "next" });
    else if (key === "Enter" && named("section").stroke) named("section").finish_stroke();
    else if (key === "Escape" && named("section").stroke) named("section").drop_stroke();
    else if (/^[1-9]$/.test(key)) {
      brush(named("brush-class").tags[0][key]);
      model.send_msg({ verb: "class", number: Number(key) });
    }
    else if (key === "[" || key === "]") model.send_msg({ verb: "radius", by: key === "]" ? 1 : -1 });
    else if (key === "m") model.send_msg({ verb: "fold" });
    else if (key === "h") model.send_msg({ verb: "history" });
    else if (key === "s") layer("strokes");
    else if (key === "o") layer("labels");
    else if (key === "j") stick(event.shiftKey ? "previous" : "next");
    else if (key === "a") stick(event.shiftKey ? "all" : "accept");
    else if (key === "x") stick("reject");
    else if (key === "?" || key === "Escape") toggle(key === "?");
    else return;
    event.preventDefault();
  };
  const lift = (event) => {
    if (event.key === " ") { pan(false); if (!other(event)) event.preventDefault(); }
    if (event.key.toLowerCase() === "c") before(false);
  };
  window.addEventListener("outcrop-undo", undo);
  document.addEventListener("keydown", press);
  document.addEventListener("keyup", lift);
  window.addEventListener("blur", () => { pan(false); before(false); });
  document.addEventListener("pointerup", () => setTimeout(() => {  // a plot keeps no focus frame: keys work without focus
    let focused = document.activeElement;
    while (focused?.shadowRoot?.activeElement) focused = focused.shadowRoot.activeElement;
    if (focused?.classList.contains("bk-events")) focused.blur();
  }));
  document.addEventListener("input", (event) => {  // a list loses the focus after a choice, so that keys work again
    const list = event.composedPath()[0];
    if (list.tagName === "SELECT") setTimeout(() => list.blur());
  });
  model.on("help", () => toggle(true));
  return document.createElement("span");
}
