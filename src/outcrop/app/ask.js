// A dialog with a list of choices; Esc closes it. The browser's own dialog element keeps the focus inside, and screen
// readers announce it as a dialog. All content is set as text, never as markup.
export function render({ model }) {
  const element = (tag, properties, ...children) => {
    const one = Object.assign(document.createElement(tag), properties);
    one.append(...children);
    return one;
  };
  const box = element("div", {}), dialog = element("dialog", { className: "ask" });
  const draw = () => {
    const title = element("h2", { textContent: model.title, id: "ask-title" });
    const choices = model.choices.map(([key, text]) => element("button", {
      textContent: text, type: "button", onclick: () => { dialog.close(); model.send_msg({ key }); },
    }));
    const close = element("button", { textContent: model.refusal, type: "button", onclick: () => dialog.close() });
    dialog.setAttribute("aria-labelledby", "ask-title");
    dialog.replaceChildren(title, element("p", { textContent: model.text }), ...choices, close);
  };
  dialog.onkeydown = (event) => event.stopPropagation();  // the keys of the page are off while the dialog is open
  model.on("asked", () => { draw(); if (!dialog.open) dialog.showModal(); });
  box.append(dialog);
  return box;
}
