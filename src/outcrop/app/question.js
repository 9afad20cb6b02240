// One question of an audit: a picture with the outlined patch or a cross around the sample, and buttons and keys for the
// answer. All content is set as text, never as markup.
const SVG = "http://www.w3.org/2000/svg";
const ANSWERS = [["yes", "Yes", "y"], ["no", "No", "n"], ["unknown", "Cannot tell", "u"]];

const element = (tag, properties, ...children) => {
  const one = Object.assign(document.createElement(tag), properties);
  one.append(...children);
  return one;
};
const shape = (tag, attributes) => {
  const one = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) one.setAttribute(name, value);
  return one;
};

function picture(item) {
  const { width, height, box: [top, left, high, wide] } = item;
  const svg = shape("svg", { viewBox: `0 0 ${width} ${height}`, role: "img" });
  svg.append(shape("image", { href: item.src, width, height, preserveAspectRatio: "none" }));
  const marks = high > 1 ? [["rect", { x: left, y: top, width: wide, height: high }]] : [];
  if (high === 1) {
    const [x, y, gap] = [left + 0.5, top + 0.5, width / 24];  // the cross leaves the sample itself visible
    for (const [dx, dy] of [[1, 0], [-1, 0], [0, 1], [0, -1]])
      marks.push(["line", { x1: x + dx * gap, y1: y + dy * gap, x2: x + 4 * dx * gap, y2: y + 4 * dy * gap }]);
    marks.push(["circle", { cx: x, cy: y, r: gap }]);
  }
  for (const [stroke, thick] of [["#fff", 5], [item.colour, 2.5]])
    for (const [tag, where] of marks)
      svg.append(shape(tag, { ...where, fill: "none", stroke, "stroke-width": thick, "vector-effect": "non-scaling-stroke" }));
  svg.append(shape("title", {}));
  svg.lastChild.textContent = "Show the place in the section";
  svg.onclick = item.go;
  return svg;
}

export function render({ model }) {
  const box = element("div", { className: "question" });
  let naming = false;  // whether the answer is "no" and the true class can be chosen
  const send = (answer, really) => {
    naming = false;
    model.send_msg({ verb: "answer", number: model.item.number, answer, really: really ?? "" });
  };
  const choose = (answer) => {
    if (answer === "no" && model.item.classes.length) { naming = true; draw(); } else send(answer);
  };
  const back = () => { naming = false; model.send_msg({ verb: "back", number: model.item.number }); };
  const button = (className, textContent, onclick) =>
    element("button", { className, textContent, onclick: (event) => { event.target.blur(); onclick(); } });

  const names = () => element("div", { className: "answers" },
    element("span", { textContent: "What is it?" }),
    ...model.item.classes.map(({ name, colour }, i) => {
      const one = button("class-name", `${i < 9 ? i + 1 + " " : ""}${name}`, () => send("no", name));
      one.style.borderColor = colour;
      return one;
    }),
    button("class-name", "not sure (Enter)", () => send("no")));

  const draw = () => {
    const item = model.item;
    if (item.number === undefined) { box.replaceChildren(); return; }
    const backward = button("back", "◂ Back", back);
    backward.disabled = item.number === 1;
    if (!item.src) { box.replaceChildren(element("div", { className: "answers" }, backward)); return; }
    const swatch = element("span", { className: "swatch" });
    swatch.style.background = item.colour;
    const head = element("div", { className: "head" }, swatch, element("b", { textContent: `Is this ${item.name}?` }),
      element("span", { className: "where", textContent: item.where }));
    const shown = picture({ ...item, go: () => model.send_msg({ verb: "go", number: item.number }) });
    const answers = ANSWERS.map(([answer, text, key]) => {
      const one = button(`answer ${answer}`, `${text} (${key.toUpperCase()})`, () => choose(answer));
      one.disabled = !item.current;
      one.setAttribute("aria-pressed", String(item.answer === answer));
      return one;
    });
    box.replaceChildren(head, shown, element("div", { className: "answers" }, ...answers, backward), ...(naming ? [names()] : []));
  };

  const press = (event) => {
    const target = event.composedPath()[0], key = event.key.toLowerCase();
    const typing = ["TEXTAREA", "SELECT"].includes(target.tagName) ||
      (target.tagName === "INPUT" && !["checkbox", "radio", "color"].includes(target.type));
    if (typing || event.ctrlKey || event.metaKey || event.altKey || event.repeat || !box.getClientRects().length) return;
    const item = model.item, answer = ANSWERS.find((one) => one[2] === key)?.[0];
    if (!item.number) return;
    if (key === "backspace" && item.number > 1) back();
    else if (naming && key === "enter") send("no");
    else if (naming && key === "escape") { naming = false; draw(); }
    else if (naming && /^[1-9]$/.test(key) && item.classes[key - 1]) send("no", item.classes[key - 1].name);
    else if (!answer) return;
    else if (item.src && item.current) choose(answer);
    event.preventDefault();
    event.stopPropagation();  // N and U have other meanings in other steps
  };
  document.addEventListener("keydown", press, true);
  model.on("item", () => { naming = false; draw(); });
  draw();
  return box;
}
