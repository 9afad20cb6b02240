// Thumbnails in a grid: a click goes to the position, buttons and keys act. All content is set as text, never as markup.
export function render({ model }) {
  const grid = document.createElement("div");
  grid.className = "thumbnails";
  grid.tabIndex = 0;
  let cursor = 0, anchor = 0;  // the cards from the anchor to the cursor are chosen
  const chosen = (i) => i >= Math.min(anchor, cursor) && i <= Math.max(anchor, cursor);
  const act = (verb, i) => {
    const several = verb !== "go" && anchor !== cursor && chosen(i);
    const keys = model.items.filter((_, k) => several ? chosen(k) : k === i).map((item) => item.key);
    if (keys.length) model.send_msg({ verb, key: model.items[i].key, ...(several ? { keys } : {}) });
  };
  const go = (i, more) => {
    cursor = Math.max(0, Math.min(i, model.items.length - 1));
    if (!more || !model.several) anchor = cursor;
    mark();
  };
  const mark = () => {
    cursor = Math.max(0, Math.min(cursor, model.items.length - 1));
    [...grid.children].forEach((card, i) => {
      card.classList.toggle("cursor", i === cursor && grid.matches(":focus"));
      card.classList.toggle("chosen", anchor !== cursor && chosen(i));
    });
    if (grid.matches(":focus")) grid.children[cursor]?.scrollIntoView({ block: "nearest" });
  };
  const draw = () => {
    grid.replaceChildren(...model.items.map((item, i) => {
      const card = document.createElement("div");
      card.className = "card " + (item.state || "");
      card.style.borderColor = item.colour;
      const image = document.createElement("img");
      image.src = item.src;
      image.alt = `${item.title}, ${item.note || ""}`;
      image.title = item.hint || "";
      image.onclick = (event) => { go(i, event.shiftKey); if (!event.shiftKey) act("go", i); };
      const line = document.createElement("div");
      line.className = "line";
      const text = document.createElement("span");
      text.textContent = item.title;
      line.append(text);
      for (const [verb, sign, hint] of model.actions) {
        const button = document.createElement("button");
        button.textContent = sign;
        button.title = hint;
        button.setAttribute("aria-label", `${hint.replace(/ \(.*/, "")} ${item.title}`);
        button.className = verb;
        button.onclick = (event) => { event.stopPropagation(); if (!chosen(i)) go(i); act(verb, i); };
        line.append(button);
      }
      card.append(image, line);
      if (item.note) {
        const note = document.createElement("div");
        note.className = "note";
        note.textContent = item.note;
        card.append(note);
      }
      return card;
    }));
    mark();
  };
  grid.onfocus = grid.onblur = mark;
  grid.onkeydown = (event) => {
    const across = Math.max(1, Math.round(grid.clientWidth / (grid.firstChild?.offsetWidth || 90)));
    const step = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -across, ArrowDown: across }[event.key];
    const verb = model.keys[event.key.length === 1 ? event.key.toLowerCase() : event.key];
    if (event.key === "Escape" && anchor !== cursor) go(cursor);
    if (event.ctrlKey || event.metaKey || (step === undefined && !verb)) return;
    event.preventDefault();
    event.stopPropagation();
    if (step !== undefined) go(cursor + step, event.shiftKey);
    else act(verb, cursor);
  };
  model.on("items", draw);
  draw();
  return grid;
}
