// The classes with their colours and their shares of the section; a click hides or shows the labels of a class.
export function render({ model }) {
  const box = document.createElement("div");
  box.className = "legend";
  const draw = () => box.replaceChildren(...model.items.map((item) => {
    const chip = document.createElement("button");
    chip.className = "chip" + (item.hidden ? " hidden" : "") + (item.hollow ? " hollow" : "") + (item.warning ? " warning" : "");
    chip.disabled = Boolean(item.fixed);
    chip.title = item.fixed ? "Labels below the minimum confidence, or of no class" : `${item.hidden || item.hollow ? "Show" : "Hide"} the labels of ${item.name}`;
    chip.setAttribute("aria-pressed", String(!item.hidden && !item.hollow));
    chip.onclick = () => { chip.blur(); model.send_msg({ name: item.name }); };
    const colour = document.createElement("span");
    colour.className = "swatch";
    colour.style[item.hollow ? "border" : "background"] = item.hollow ? `2px solid ${item.colour}` : item.colour;
    const text = document.createElement("span");
    text.textContent = [item.key, item.name, item.share, item.warning && `(${item.warning})`].filter(Boolean).join(" ");
    chip.append(colour, text);
    return chip;
  }));
  model.on("items", draw);
  draw();
  return box;
}
