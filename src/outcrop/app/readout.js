// Show position and amplitude under the cursor, when the cursor moves and when the section or its labels change.
if (cb_obj.event_name) frame.mouse = cb_obj.event_name === "mouseleave" ? {} : { x: cb_obj.x, y: cb_obj.y };
const { x, y } = frame.mouse ?? {}, data = source.data;
const inside = data.image.length && x >= data.x[0] && x < data.x[0] + data.dw[0] && y >= data.y[0] && y < data.y[0] + data.dh[0];
if (!inside) { readout.text = ""; } else {
  const [rows, columns] = data.image[0].shape;
  const row = Math.floor((y - data.y[0]) / data.dh[0] * rows), column = Math.floor((x - data.x[0]) / data.dw[0] * columns);
  const code = data.image[0][row * columns + column], place = frame.tags[0];
  const near = (axis, value) => {
    const i = Math.round((value - axis.start) / axis.step);
    return axis.labels.length ? axis.labels[i] : +(axis.start + i * axis.step).toPrecision(12);
  };
  const value = code ? ((code - 128) / 127 * place.clip).toPrecision(3) : "no data";
  const [across, down] = place.axes;
  const parts = [frame.title.text, `${across.name} ${near(across, x)}`, `${down.name} ${near(down, y)}`];
  const at = { [across.name]: near(across, x), [down.name]: near(down, y) };
  if (place.map.length) {
    const [origin, inline, crossline] = place.map, fixed = place.label;
    const on = (i) => origin[i] + (at.inline ?? fixed) * inline[i] + (at.crossline ?? fixed) * crossline[i];
    parts.push(`X ${on(0).toFixed(1)}   Y ${on(1).toFixed(1)}`);
  }
  const [labels] = overlay.data.image;
  if (labels && overlay._raw && labels.shape[0] === rows && labels.shape[1] === columns) {
    const label = overlay._raw[row * columns + column], sure = overlay._sure[row * columns + column];
    if (label) parts.push(`${label === 255 ? "uncertain" : place.classes[label - 1]} ${Math.round(sure / 2.55)} %`);
  }
  readout.text = `${parts.join("   ")}   amplitude ${value}`;
}
