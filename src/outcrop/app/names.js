// Accessible names for widgets that Bokeh leaves without one (sliders, untitled fields, spinner arrows), and tooltips.
const inner = (model) => {
  const el = Bokeh.index.find_one(model)?.el;
  return el?.shadowRoot ?? el;
};
for (const model of cb_obj._all_models.values()) {
  if (!/Slider|TextInput|Spinner|Select$/.test(model.type)) continue;
  const root = inner(model), name = (model.title || model.name || "").replace(/[:([].*$/, "").trim();
  root?.querySelectorAll(".noUi-handle, input, select").forEach((one) => one.setAttribute("aria-label", name));
  root?.querySelectorAll(".bk-btn-up, .bk-btn-down, .bk-spin-btn-up, .bk-spin-btn-down").forEach((one) => {
    one.setAttribute("aria-label", `${/up/.test(one.className) ? "More" : "Fewer"}: ${name}`);
  });
}
for (const [name, tip] of Object.entries(tips)) {
  const model = cb_obj.get_model_by_name(name), root = model && inner(model);
  [...root?.querySelectorAll("button, input, select") ?? []].forEach((one, number) => {
    const text = Array.isArray(tip) ? tip[number] : tip;
    if (text === undefined) return;
    one.title = text;
    const key = text.match(/\(([^)]+)\)$/)?.[1];
    if (key) one.setAttribute("aria-keyshortcuts", key.replace("Ctrl", "Control").replace(/, /g, " "));
  });
}
