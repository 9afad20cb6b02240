// What paints: a brush, a straight line, an outline that is filled when it closes. Shows the outline of the brush under
// the cursor and the very samples that will be painted. A sample is painted where its centre lies within the radius of
// the line through the points, or inside a closed one.
//
// A drag is one stroke. With the line and the outline clicks are corners; a double click or Enter ends it, Esc drops it.
// A stroke belongs to the section and the tool that it was begun with, whatever is in view when it ends.
const BRUSH = 2, LINE = 3, OUTLINE = 4, SAME = 3;  // samples within which two clicks are one place
const { x, y } = cb_obj, event = cb_obj.event_name, { axes, section } = plot.tags[0], [across, down] = axes;
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

const near = (codes, box, a, b, radius) => {  // samples within the radius of a line from a to b
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

const cover = (stroke, points) => {  // picture of the samples that get painted
  const [across, down] = stroke.axes, { radius } = stroke;
  const columns = points.map((p) => p[0]), rows = points.map((p) => p[1]), reach = Math.ceil(radius);
  const box = { left: Math.max(0, Math.min(...columns) - reach), top: Math.max(0, Math.min(...rows) - reach) };
  box.width = Math.min(across.count - 1, Math.max(...columns) + reach) - box.left + 1;
  box.height = Math.min(down.count - 1, Math.max(...rows) + reach) - box.top + 1;
  const codes = stroke.tool === OUTLINE ? inside(box, points) : new Uint8Array(box.width * box.height);
  points.forEach((b, n) => near(codes, box, points[Math.max(0, n - 1)], b, radius));
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

const hide = () => show(preview, { image: [], x: [], y: [], dw: [], dh: [] });
const in_view = (stroke) => String(stroke.section) === String(plot.tags[0].section);
const draw = (stroke, ...more) => {
  if (in_view(stroke)) show(preview, cover(stroke, [...stroke.points, ...more]));
  else hide();
};

const drop = () => {
  plot.stroke = null;
  hide();
};

const finish = () => {
  const stroke = plot.stroke;
  plot.stroke = null;
  if (!stroke) return;
  draw(stroke);
  const id = Array.from(crypto.getRandomValues(new Uint8Array(8)), (byte) => byte.toString(16).padStart(2, "0")).join("");
  const [direction, position] = stroke.section, [across, down] = stroke.axes;
  window.dispatchEvent(new CustomEvent("outcrop-stroke", { detail: {
    id, direction, position, says: plot.document.get_model_by_name("brush-class").value,
    xs: stroke.points.map((p) => place(across, p[0])), ys: stroke.points.map((p) => place(down, p[1])),
    radius: stroke.radius, filled: stroke.tool === OUTLINE,
  } }));
};

const same = (a, b) => Math.abs(a[0] - b[0]) <= SAME && Math.abs(a[1] - b[1]) <= SAME;
const begin = (at, dragged) => {
  plot.stroke = { points: [at], tool: tool.active, radius, axes, section, title: plot.title.text, dragged };
};
const add = (at) => {
  const { points } = plot.stroke, last = points.at(-1);
  if (at[0] !== last[0] || at[1] !== last[1]) points.push(at);
};

const at = outline(), corners = tool.active === LINE || tool.active === OUTLINE;
plot.finish_stroke = finish;
plot.drop_stroke = () => plot.stroke && drop();
plot.clear_preview = () => plot.stroke || hide();
plot.redraw_stroke = () => plot.stroke ? draw(plot.stroke) : hide();
if (armed && event === "panstart" && plot.stroke?.dragged) finish();  // its end was not seen
const open = plot.stroke, elsewhere = open && !open.dragged && !(in_view(open) && open.tool === tool.active);
if (open && !elsewhere) open.radius = radius;
if (armed && elsewhere && ["panstart", "tap", "doubletap"].includes(event)) {
  const name = open.tool === OUTLINE ? "An outline" : "A line";
  plot.document.get_model_by_name("status").text = `${name} on ${open.title} is not finished: Enter ends it, Esc drops it.`;
} else if (elsewhere) {
  if (event === "mousemove") draw(open);
} else if (armed && event === "panstart") {
  if (!open) begin(at, true);  // a drag alone is a stroke; after a click it sets the next corner
} else if (open && event === "pan") {
  if (open.tool !== LINE && open.dragged && open.section[0] === section[0]) add(at);
  draw(open, at);
} else if (open && event === "panend") {
  if (open.section[0] === section[0]) add(at);
  if (open.dragged) finish();
} else if (armed && event === "tap" && !corners) {
  begin(at, false);
  finish();
} else if (armed && (event === "tap" || event === "doubletap")) {
  if (event === "doubletap" && open && same(open.points.at(-1), at)) finish();
  else if (tool.active === OUTLINE && open?.points.length > 2 && same(open.points[0], at)) finish();
  else {
    if (open) add(at);
    else begin(at, false);
    draw(plot.stroke);
  }
} else if (armed && open && corners && event === "mousemove") {
  draw(open, at);
}
