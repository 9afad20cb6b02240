// The layers over the section, each with an eye and an opacity. Both act in the browser, on the renderers named in the
// item; the server only stores them.
const ALPHAS = ["global_alpha", "line_alpha", "text_alpha", "background_fill_alpha"];

export function render({ model }) {
  const element = (tag, properties, ...children) => {
    const one = Object.assign(document.createElement(tag), properties);
    one.append(...children);
    return one;
  };
  const slider = (name, value, [min, max], change) => {
    const one = element("input", { type: "range", min, max, step: 0.05, value, title: name, ariaLabel: name });
    one.oninput = () => change(Number(one.value));
    return one;
  };
  const draw = ({ shown, opacity, renderers }) => {
    const named = (name) => window.Bokeh.documents[0].get_model_by_name(name);
    for (const one of renderers.map(named)) {
      if (!one) continue;
      one.visible = shown;
      for (const alpha of ALPHAS) if (alpha in one.glyph.properties) one.glyph[alpha] = opacity;
    }
  };
  const layer = (item) => {
    const eye = element("button", { className: "eye", textContent: item.name, onclick: () => toggle() });
    const mark = () => {
      eye.setAttribute("aria-pressed", String(item.shown));
      eye.title = `${item.shown ? "Hide" : "Show"} ${item.name}${item.key ? ` (${item.key})` : ""}`;
    };
    const change = (more) => {
      Object.assign(item, more);
      draw(item);
      mark();
      model.send_msg({ name: item.name, ...more });
    };
    const toggle = () => change({ shown: !item.shown });
    window.addEventListener("outcrop-layer", ({ detail }) => { if (detail === item.name) toggle(); });  // see keys.js
    mark();
    const row = element("div", { className: "layer" }, eye,
      slider(`Opacity of ${item.name}`, item.opacity, [0, 1], (opacity) => change({ opacity })));
    if (item.likelihood !== undefined) {
      const least = element("span", { className: "least" });
      const say = (value) => { least.textContent = `≥ ${value.toFixed(2)}`; };
      say(item.likelihood);
      row.append(slider("Minimum likelihood of fault sticks", item.likelihood, model.likelihoods, (likelihood) => {
        say(likelihood);
        model.send_msg({ name: item.name, likelihood });
      }), least);
    }
    return row;
  };
  const bar = element("div", { className: "layers", role: "group", ariaLabel: "Layers" }, ...model.items.map(layer));
  return bar;
}
