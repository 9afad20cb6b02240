// The brush: its outline under the cursor, and the very samples that a stroke will paint, as the stroke is drawn.
// A stroke is painted where the centre of a sample lies within the radius of the line through the points.
const { x, y } = cb_obj, [across, down] = plot.tags[0].axes, radius = slider.value;
const low = (axis) => Math.min(axis.start, axis.start + (axis.count - 1) * axis.step);
const spot = (axis, value) =>  // position of the nearest sample, counted from the smaller end
  Math.max(0, Math.min(axis.count - 1, Math.floor((value - low(axis)) / Math.abs(axis.step) + 0.5)));
const place = (axis, position) => low(axis) + position * Math.abs(axis.step);
const armed = tool.active === 2 && !plot.panning;

const show = (source, data) => {  // here only: the server need not know
  Object.assign(source.data, data);
  source.change.emit();
};

const cover = (points) => {  // picture of the samples within the radius of the line
  const columns = points.map((p) => p[0]), rows = points.map((p) => p[1]), reach = Math.ceil(radius);
  const left = Math.max(0, Math.min(...columns) - reach), top = Math.max(0, Math.min(...rows) - reach);
  const width = Math.min(across.count - 1, Math.max(...columns) + reach) - left + 1;
  const height = Math.min(down.count - 1, Math.max(...rows) + reach) - top + 1;
  const codes = new Uint8Array(width * height);
  points.forEach((b, n) => {
    const a = points[Math.max(0, n - 1)], step = [b[0] - a[0], b[1] - a[1]], length = step[0] ** 2 + step[1] ** 2;
    for (let row = Math.max(top, Math.min(a[1], b[1]) - reach); row <= Math.min(top + height - 1, Math.max(a[1], b[1]) + reach); row++) {
      for (let column = Math.max(left, Math.min(a[0], b[0]) - reach); column <= Math.min(left + width - 1, Math.max(a[0], b[0]) + reach); column++) {
        const from = [column - a[0], row - a[1]];
        const share = length ? Math.max(0, Math.min(1, (from[0] * step[0] + from[1] * step[1]) / length)) : 0;
        const off = (from[0] - share * step[0]) ** 2 + (from[1] - share * step[1]) ** 2;
        if (off <= radius ** 2 + 1e-9) codes[(row - top) * width + column - left] = 1;
      }
    }
  });
  const [dx, dy] = [Math.abs(across.step), Math.abs(down.step)];
  const image = Bokeh.require("core/util/ndarray").ndarray(codes.buffer, { dtype: "uint8", shape: [height, width] });
  return { image: [image], x: [place(across, left) - dx / 2], y: [place(down, top) - dy / 2], dw: [width * dx], dh: [height * dy] };
};

const outline = (event) => {
  const at = [spot(across, x), spot(down, y)];
  const seen = armed && event !== "mouseleave" && x !== undefined;
  show(cursor, !seen ? { x: [], y: [], width: [], height: [] } : {
    x: [place(across, at[0])], y: [place(down, at[1])],
    width: [(2 * radius + 1) * Math.abs(across.step)], height: [(2 * radius + 1) * Math.abs(down.step)],
  });
  return at;
};

const at = outline(cb_obj.event_name), event = cb_obj.event_name;
if (event === "panstart") plot.stroke = armed ? [at] : null;
if (armed && event === "tap") plot.stroke = [at];
if (plot.stroke && ["panstart", "pan", "panend", "tap"].includes(event)) {
  const last = plot.stroke.at(-1);
  if (at[0] !== last[0] || at[1] !== last[1]) plot.stroke.push(at);
  show(preview, cover(plot.stroke));
  if (event === "panend" || event === "tap") {
    const points = plot.stroke;
    plot.stroke = null;
    strokes.data = { xs: [points.map((p) => place(across, p[0]))], ys: [points.map((p) => place(down, p[1]))] };
  }
}
