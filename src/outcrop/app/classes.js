// The list of classes: choose, rename by a double click, recolour, remove, add. A typed name stays until the server accepts
// it, so that the user can correct a refused name.
export function render({ model }) {
  const box = document.createElement("div");
  box.className = "class-list";
  const element = (tag, properties) => Object.assign(document.createElement(tag), properties);
  const list = element("div", {});
  let renamed = null, field = null, drawing = false;  // the class that is being renamed, and its input field

  const rename = (name) => {
    renamed = name;
    field = element("input", { value: name, title: "Enter renames, Esc keeps the name" });
    field.onclick = (event) => event.stopPropagation();
    let sent = null;
    const submit = () => {
      sent = field.value;
      if (sent === name) close();
      else model.send_msg({ verb: "rename", name, value: sent });
    };
    field.onkeydown = ({ key }) => { if (key === "Enter") submit(); else if (key === "Escape") close(); };
    field.onblur = () => { if (field && !drawing && field.value !== sent) submit(); };
    draw();
    field.focus();
    field.select();
  };
  const close = () => {
    renamed = field = null;
    draw();
  };

  const draw = () => {
    const at = field && box.getRootNode().activeElement === field ? field.selectionStart : null;
    drawing = true;  // a field that is moved in the document loses the focus briefly
    list.replaceChildren(...model.items.map((item) => {
      const row = element("div", { className: "class", title: "Click to choose, double click to rename" });
      row.dataset.name = item.name;
      row.onclick = () => model.send_msg({ verb: "select", name: item.name });
      const colour = element("input", { type: "color", value: item.colour, title: `Colour of ${item.name}` });
      colour.setAttribute("aria-label", colour.title);
      colour.onclick = (event) => event.stopPropagation();
      colour.onchange = () => model.send_msg({ verb: "recolour", name: item.name, value: colour.value });
      const name = item.name === renamed ? field : element("span", { textContent: item.name, ondblclick: () => rename(item.name) });
      name.style.flex = "1";
      const count = element("span", { className: "count", textContent: item.note });
      const remove = element("button", { textContent: "✕", title: `Remove class ${item.name}` });
      remove.setAttribute("aria-label", remove.title);
      remove.onclick = (event) => { event.stopPropagation(); model.send_msg({ verb: "remove", name: item.name }); };
      row.append(colour, name, count, remove);
      return row;
    }));
    drawing = false;
    select();
    if (at !== null && field?.isConnected) {
      field.focus();
      field.setSelectionRange(at, at);
    }
  };
  const select = () => {
    for (const row of list.children) row.classList.toggle("selected", row.dataset.name === model.selected);
  };

  const form = element("div", { className: "class add" });
  const name = element("input", { placeholder: "new class, e.g. fault" });
  name.setAttribute("aria-label", "Name of a new class");
  const add = () => { if (name.value.trim()) model.send_msg({ verb: "add", value: name.value }); };
  name.onkeydown = (event) => { if (event.key === "Enter") add(); };
  const button = element("button", { textContent: "Add class", className: "primary" });
  button.onclick = add;
  form.append(name, button);
  box.append(list, form);
  model.on("items", draw);
  model.on("selected", select);
  model.on("added", () => { name.value = ""; });
  model.on("renamed", close);
  draw();
  return box;
}
