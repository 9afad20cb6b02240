// Thumbnails in a grid: click to jump, buttons and keys to act. Everything shown is set as text, never as markup.
export function render({ model }) {
  const grid = document.createElement("div");
  grid.className = "thumbnails";
  grid.tabIndex = 0;
  let cursor = 0;
  const act = (verb, i) => model.items[i] && model.send_msg({ verb, key: model.items[i].key });
  const mark = () => {
    cursor = Math.max(0, Math.min(cursor, model.items.length - 1));
    [...grid.children].forEach((card, i) => card.classList.toggle("cursor", i === cursor && grid.matches(":focus")));
    if (grid.matches(":focus")) grid.children[cursor]?.scrollIntoView({ block: "nearest" });
  };
  const draw = () => {
    grid.replaceChildren(...model.items.map((item, i) => {
      const card = document.createElement("div");
      card.className = "card " + (item.state || "");
      card.style.borderColor = item.colour;
      const image = document.createElement("img");
      image.src = item.src;
      image.alt = item.title;
      image.title = item.hint || "";
      image.onclick = () => { cursor = i; act("go", i); };
      const line = document.createElement("div");
      line.className = "line";
      const text = document.createElement("span");
      text.textContent = item.title;
      line.append(text);
      for (const [verb, sign, hint] of model.actions) {
        const button = document.createElement("button");
        button.textContent = sign;
        button.title = hint;
        button.className = verb;
        button.onclick = (event) => { event.stopPropagation(); cursor = i; act(verb, i); };
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
    const verb = model.keys[event.key];
    if (step === undefined && !verb) return;
    event.preventDefault();
    event.stopPropagation();
    if (step !== undefined) { cursor += step; mark(); } else act(verb, cursor);
  };
  model.on("items", draw);
  draw();
  return grid;
}
