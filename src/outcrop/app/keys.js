// Arrow keys move through the lines, Ctrl+Z and Ctrl+Y undo and redo, wherever the focus is but in a field.
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
  document.addEventListener("keydown", listen);
  document.addEventListener("pointerup", () => setTimeout(() => {  // no frame around a plot: keys work without it
    let focused = document.activeElement;
    while (focused?.shadowRoot?.activeElement) focused = focused.shadowRoot.activeElement;
    if (focused?.classList.contains("bk-events")) focused.blur();
  }));
  return document.createElement("span");
}
