// What paints: a brush, a straight line, an outline that is filled when it closes. Shows the outline of the brush under
// the cursor and the very samples that will be painted. A sample is painted where its centre lies within the radius of
// the line through the points, or inside a closed one.
//
// A drag is one stroke. With the line and the outline clicks are corners; a double click or Enter ends it, Esc drops it.
const BRUSH = 2, LINE = 3, OUTLINE = 4, SAME = 3;  // samples within which two clicks are one place
const { x, y } = cb_obj, event = cb_obj.event_name, [across, down] = plot.tags[0].axes;
const radius = tool.active === OUTLINE ? 0.5 : slider.value;
const low = (axis) => Math.min(axis.start, axis.start + (axis.count - 1) * axis.step);
const spot = (axis, value) =>  // position of the nearest sample, counted from the smaller end
  Math.max(0, Math.min(axis.count - 1, Math.floor((value - low(axis)) / Math.abs(axis.step) + 0.5)));
const place = (axis, position) => low(axis) + position * Math.abs(axis.step);
const armed = tool.active >= BRUSH && !plot.panning;

const show = (source, data) => {  // here only: the server need not know
  Object.assign(source.data, data);
  source.change.emit();
};

const near = (codes, box, a, b) => {  // samples within the radius of a line from a to b
  const step = [b[0] - a[0], b[1] - a[1]], length = step[0] ** 2 + step[1] ** 2, reach = Math.ceil(radius);
  for (let row = Math.max(box.top, Math.min(a[1], b[1]) - reach); row <= Math.min(box.top + box.height - 1, Math.max(a[1], b[1]) + reach); row++) {
    for (let column = Math.max(box.left, Math.min(a[0], b[0]) - reach); column <= Math.min(box.left + box.width - 1, Math.max(a[0], b[0]) + reach); column++) {
      const from = [column - a[0], row - a[1]];
      const share = length ? Math.max(0, Math.min(1, (from[0] * step[0] + from[1] * step[1]) / length)) : 0;
      const off = (from[0] - share * step[0]) ** 2 + (from[1] - share * step[1]) ** 2;
      if (off <= radius ** 2 + 1e-9) codes[(row - box.top) * box.width + column - box.left] = 1;
    }
  }
};

const inside = (box, points) => {  // samples inside the closed line through points
  const found = new Uint8Array(box.width * box.height);
  points.forEach((a, n) => {
    const b = points[(n + 1) % points.length];
    for (let column = Math.min(a[0], b[0]); column < Math.max(a[0], b[0]); column++) {
      const at = a[1] + (column - a[0]) / (b[0] - a[0]) * (b[1] - a[1]);
      for (let row = Math.max(box.top, Math.ceil(at)); row < box.top + box.height; row++) {
        found[(row - box.top) * box.width + column - box.left] ^= 1;
      }
    }
  });
  return found;
};

const cover = (points) => {  // picture of the samples that get painted
  const columns = points.map((p) => p[0]), rows = points.map((p) => p[1]), reach = Math.ceil(radius);
  const box = { left: Math.max(0, Math.min(...columns) - reach), top: Math.max(0, Math.min(...rows) - reach) };
  box.width = Math.min(across.count - 1, Math.max(...columns) + reach) - box.left + 1;
  box.height = Math.min(down.count - 1, Math.max(...rows) + reach) - box.top + 1;
  const codes = tool.active === OUTLINE ? inside(box, points) : new Uint8Array(box.width * box.height);
  points.forEach((b, n) => near(codes, box, points[Math.max(0, n - 1)], b));
  const [dx, dy] = [Math.abs(across.step), Math.abs(down.step)];
  const image = Bokeh.require("core/util/ndarray").ndarray(codes.buffer, { dtype: "uint8", shape: [box.height, box.width] });
  return {
    image: [image], x: [place(across, box.left) - dx / 2], y: [place(down, box.top) - dy / 2],
    dw: [box.width * dx], dh: [box.height * dy],
  };
};

const outline = () => {
  const at = [spot(across, x), spot(down, y)];
  const seen = armed && event !== "mouseleave" && x !== undefined;
  show(cursor, !seen ? { x: [], y: [], width: [], height: [] } : {
    x: [place(across, at[0])], y: [place(down, at[1])],
    width: [(2 * radius + 1) * Math.abs(across.step)], height: [(2 * radius + 1) * Math.abs(down.step)],
  });
  return at;
};

const drop = () => {
  plot.stroke = null;
  show(preview, { image: [], x: [], y: [], dw: [], dh: [] });
};

const finish = () => {
  const points = plot.stroke, filled = tool.active === OUTLINE;
  plot.stroke = null;
  if (!points) return;
  show(preview, cover(points));
  strokes.data = {
    xs: [points.map((p) => place(across, p[0]))], ys: [points.map((p) => place(down, p[1]))],
    radius: [radius], filled: [filled],
  };
};

const same = (a, b) => Math.abs(a[0] - b[0]) <= SAME && Math.abs(a[1] - b[1]) <= SAME;
const add = (at) => {
  const last = plot.stroke.at(-1);
  if (at[0] !== last[0] || at[1] !== last[1]) plot.stroke.push(at);
};

const at = outline(), corners = tool.active === LINE || tool.active === OUTLINE;
const on = `${tool.active} ${plot.title.text}`;  // corners belong to a tool and a section
if (plot.stroke && plot.stroke_on !== on) drop();
plot.finish_stroke = finish;
plot.drop_stroke = () => plot.stroke && drop();
if (armed && event === "panstart") {
  plot.dragged = !plot.stroke;  // a drag alone is a stroke; after a click it sets the next corner
  plot.stroke ??= [at];
  plot.stroke_on = on;
} else if (armed && plot.stroke && event === "pan") {
  if (tool.active !== LINE && plot.dragged) add(at);
  show(preview, cover([...plot.stroke, at]));
} else if (armed && plot.stroke && event === "panend") {
  add(at);
  if (plot.dragged) finish();
} else if (armed && event === "tap" && !corners) {
  plot.stroke = [at];
  finish();
} else if (armed && (event === "tap" || event === "doubletap")) {
  if (event === "doubletap" && plot.stroke && same(plot.stroke.at(-1), at)) finish();
  else if (tool.active === OUTLINE && plot.stroke?.length > 2 && same(plot.stroke[0], at)) finish();
  else {
    if (plot.stroke) add(at);
    else plot.stroke = [at];
    plot.stroke_on = on;
    show(preview, cover(plot.stroke));
  }
} else if (armed && plot.stroke && corners && event === "mousemove") {
  show(preview, cover([...plot.stroke, at]));
}
