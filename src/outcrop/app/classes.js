// The list of classes: choose one, rename, recolour, remove, add.
export function render({ model }) {
  const box = document.createElement("div");
  box.className = "class-list";
  const element = (tag, properties) => Object.assign(document.createElement(tag), properties);
  const list = element("div", {});
  // What is being typed survives a change from elsewhere: only the rows are drawn anew, and focus and text come back.
  const typed = () => {
    const input = box.getRootNode().activeElement;
    const row = input?.closest?.(".class[data-name]");
    return row && input.maxLength === 40 ? { row: row.dataset.name, value: input.value, at: input.selectionStart } : null;
  };
  const draw = (keep = true) => {
    const before = keep ? typed() : null;
    const rows = model.items.map((item) => {
      const row = element("div", { className: "class" + (item.name === model.selected ? " selected" : "") });
      row.dataset.name = item.name;
      row.onclick = () => model.send_msg({ verb: "select", name: item.name });
      const colour = element("input", { type: "color", value: item.colour, title: "Colour" });
      colour.onclick = (event) => event.stopPropagation();
      colour.onchange = () => model.send_msg({ verb: "recolour", name: item.name, value: colour.value });
      const name = element("input", { value: item.name, title: "Click to choose, type to rename", maxLength: 40 });
      name.onchange = () => model.send_msg({ verb: "rename", name: item.name, value: name.value });
      const count = element("span", { className: "count", textContent: item.note });
      const remove = element("button", { textContent: "✕", title: "Remove the class and its exemplars" });
      remove.onclick = (event) => { event.stopPropagation(); model.send_msg({ verb: "remove", name: item.name }); };
      row.append(colour, name, count, remove);
      return row;
    });
    list.replaceChildren(...rows);
    const again = before && rows.find((row) => row.dataset.name === before.row)?.querySelectorAll("input")[1];
    if (again) {
      again.value = before.value;
      again.focus();
      again.setSelectionRange(before.at, before.at);
    }
  };
  const form = element("div", { className: "class add" });
  const name = element("input", { placeholder: "new class, e.g. fault", maxLength: 40 });
  const add = () => {
    if (name.value.trim()) model.send_msg({ verb: "add", value: name.value });
    name.value = "";
  };
  name.onkeydown = (event) => { if (event.key === "Enter") add(); };
  const button = element("button", { textContent: "Add class", className: "primary" });
  button.onclick = add;
  form.append(name, button);
  box.append(list, form);
  model.on("items", () => draw());
  model.on("selected", () => draw());
  model.on("refused", () => draw(false));  // the names that hold come back
  draw();
  return box;
}
