// Painting tools: a brush, a straight line, and an outline that is filled when it closes. The page shows the brush size
// under the cursor, and exactly the samples that will be painted. A sample is painted if its centre lies within the radius
// of the line through the points, or inside a closed outline.
//
// A drag is one stroke; if it leaves the section and returns, the return begins another stroke. With the line and outline
// tools, clicks set corners; a double click or Enter ends the stroke, Esc discards it, Ctrl+Z removes the last corner, and a
// reload keeps the corners. A stroke keeps the section, the tool and the class that it began with, even if others are
// selected when it ends. Dragging a corner, or Shift with the arrow keys, moves it; comma and full stop select a corner.
const BRUSH = 2, LINE = 3, OUTLINE = 4, SAME = 3;  // samples: clicks no farther apart count as one place
const REACH = 10;  // pixels: a drag this close to a corner moves it
const FEWEST = { [BRUSH]: 1, [LINE]: 2, [OUTLINE]: 3 }, NAMES = { [LINE]: "A line", [OUTLINE]: "An outline" };
const CORNERS_KEY = `outcrop corners ${window.location.pathname} ${window.outcropJob}`;
const { x, y, event_name: event } = cb_obj, { axes, section } = plot.tags[0], [across, down] = axes;
const radius = tool.active === OUTLINE ? 0.5 : slider.value;
const says = plot.document.get_model_by_name("brush-class");
const low = (axis) => Math.min(axis.start, axis.start + (axis.count - 1) * axis.step);
const nearest = (at) => at.map((value, n) => Math.max(0, Math.min(axes[n].count - 1, Math.floor(value + 0.5))));
const place = (axis, position) => low(axis) + position * Math.abs(axis.step);
// position in samples from the end with the smaller coordinate
const exact = [x, y].map((value, n) => (value - low(axes[n])) / Math.abs(axes[n].step));
const within = exact.every((value, n) => value >= -0.5 && value < axes[n].count - 0.5);
const armed = tool.active >= BRUSH && tool.active <= OUTLINE && !plot.panning;

const clip = (a, b) => {  // return the first and last sample of a line inside the section, null if the line is outside
  let [from, to] = [0, 1];
  axes.forEach(({ count }, n) => {
    const ends = [-0.5, count - 0.5].map((end) => (end - a[n]) / ((b[n] - a[n]) || 1e-9));
    [from, to] = [Math.max(from, Math.min(...ends)), Math.min(to, Math.max(...ends))];
  });
  return from > to ? null : [from, to].map((share) => nearest(a.map((value, n) => value + share * (b[n] - value))));
};

const tell = (text) => { plot.document.get_model_by_name("status").text = text; };

const show = (source, data) => {  // in the browser only, without a message to the server
  Object.assign(source.data, data);
  source.change.emit();
};

const near = (codes, box, a, b, radius) => {  // set the code of samples within the radius of a line from a to b
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

const inside = (box, points) => {  // return codes of the samples inside the closed line through points
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

const cover = (stroke, points) => {  // return a picture of the samples to paint, in the colour of their class
  const [across, down] = stroke.axes, { radius } = stroke;
  const columns = points.map((p) => p[0]), rows = points.map((p) => p[1]), reach = Math.ceil(radius);
  const box = { left: Math.max(0, Math.min(...columns) - reach), top: Math.max(0, Math.min(...rows) - reach) };
  box.width = Math.min(across.count - 1, Math.max(...columns) + reach) - box.left + 1;
  box.height = Math.min(down.count - 1, Math.max(...rows) + reach) - box.top + 1;
  const codes = stroke.tool === OUTLINE ? inside(box, points) : new Uint8Array(box.width * box.height);
  points.forEach((b, n) => near(codes, box, points[Math.max(0, n - 1)], b, radius));
  const colour = 1 + Math.max(0, says.options.findIndex(([value]) => value === stroke.says));
  codes.forEach((code, i) => { codes[i] = code * colour; });
  const [dx, dy] = [Math.abs(across.step), Math.abs(down.step)];
  const image = Bokeh.require("core/util/ndarray").ndarray(codes.buffer, { dtype: "uint8", shape: [box.height, box.width] });
  return {
    image: [image], x: [place(across, box.left) - dx / 2], y: [place(down, box.top) - dy / 2],
    dw: [box.width * dx], dh: [box.height * dy],
  };
};

const outline = () => {
  const at = nearest(exact), seen = armed && event !== "mouseleave" && within;
  show(cursor, !seen ? { x: [], y: [], width: [], height: [] } : {
    x: [place(across, at[0])], y: [place(down, at[1])],
    width: [(2 * radius + 1) * Math.abs(across.step)], height: [(2 * radius + 1) * Math.abs(down.step)],
  });
};

const hide = () => {
  show(preview, { image: [], x: [], y: [], dw: [], dh: [] });
  show(corners, { x: [], y: [], size: [] });
};
const chosen = (stroke) => Math.min(stroke.chosen ?? Infinity, stroke.points.length - 1);  // number of the corner that the keys move
const mark = (stroke) => show(corners, stroke.dragged ? { x: [], y: [], size: [] } : {
  x: stroke.points.map((p) => place(stroke.axes[0], p[0])), y: stroke.points.map((p) => place(stroke.axes[1], p[1])),
  size: stroke.points.map((_, n) => n === chosen(stroke) ? 12 : 8),
});
const in_view = (stroke) => String(stroke.section) === String(plot.tags[0].section);
const draw = (stroke, ...more) => {
  const points = [...stroke.points, ...more];
  if (!in_view(stroke)) hide();
  else if (points.length) {
    show(preview, cover(stroke, points));
    mark(stroke);
  }
};

const keep = () => {  // store corners until they are painted
  try { sessionStorage.setItem(CORNERS_KEY, JSON.stringify(plot.stroke?.dragged ? null : plot.stroke)); } catch { /* without storage, a reload loses the corners */ }
};

const drop = () => {
  plot.stroke = null;
  keep();
  hide();
};

const unfinished = ({ tool, title, points }) => {
  const corners = `${points.length} corner${points.length === 1 ? "" : "s"}`;
  tell(`${NAMES[tool]} on ${title} is not finished (${corners}): Enter ends it, Esc discards it, Ctrl+Z removes its last corner.`);
};

const drop_corner = () => {
  const stroke = plot.stroke;
  stroke.points.pop();
  if (stroke.dragged || !stroke.points.length) drop();
  else {
    keep();
    draw(stroke);
    unfinished(stroke);
  }
};

const corner_under = (stroke) => {  // return the number of the corner under the mouse, or -1
  const scale = [plot.inner_width / Math.abs(plot.x_range.end - plot.x_range.start),
    plot.inner_height / Math.abs(plot.y_range.end - plot.y_range.start)];
  const off = stroke.points.map((p) => Math.hypot(...p.map((at, n) => (at - exact[n]) * Math.abs(axes[n].step) * scale[n])));
  const nearest = off.indexOf(Math.min(...off));
  return off[nearest] <= REACH ? nearest : -1;
};
const put = (stroke, number, at) => {  // move a corner
  stroke.points[number] = at;
  stroke.chosen = number;
  keep();
  draw(stroke);
};
const nudge = (across, down) => {  // move the chosen corner by samples
  const stroke = plot.stroke, number = chosen(stroke), [x, y] = stroke.points[number];
  const within = (at, { count }) => Math.max(0, Math.min(count - 1, at));
  put(stroke, number, [within(x + across, stroke.axes[0]), within(y + down, stroke.axes[1])]);
};
const choose = (by) => {
  const stroke = plot.stroke, { length } = stroke.points;
  stroke.chosen = (chosen(stroke) + by + length) % length;
  draw(stroke);
};

const send = (stroke) => {
  draw(stroke);
  const id = Array.from(crypto.getRandomValues(new Uint8Array(8)), (byte) => byte.toString(16).padStart(2, "0")).join("");
  const [direction, position] = stroke.section, [across, down] = stroke.axes;
  window.dispatchEvent(new CustomEvent("outcrop-stroke", { detail: {
    id, direction, position, says: stroke.says,
    xs: stroke.points.map((p) => place(across, p[0])), ys: stroke.points.map((p) => place(down, p[1])),
    radius: stroke.radius, filled: stroke.tool === OUTLINE,
  } }));
};

const finish = () => {
  const stroke = plot.stroke, { length } = stroke.points, fewest = FEWEST[stroke.tool], few = length < fewest;
  if (few && length) {
    const more = stroke.dragged ? "drag farther" : "click more corners, or press Esc to discard the stroke";
    tell(`${NAMES[stroke.tool]} needs ${fewest} corners and has ${length}: ${more}.`);
  }
  if (few && !stroke.dragged) return;
  plot.stroke = null;
  keep();
  if (!few) send(stroke);
  else if (length) hide();
};

const same = (a, b) => Math.abs(a[0] - b[0]) <= SAME && Math.abs(a[1] - b[1]) <= SAME;
const begin = (points, dragged) => {
  plot.stroke = { points, tool: tool.active, says: says.value, radius, axes, section, title: plot.title.text, dragged, last: exact };
};
const add = (at) => {
  const { points } = plot.stroke, last = points.at(-1);
  delete plot.stroke.chosen;
  if (at[0] !== last?.[0] || at[1] !== last?.[1]) points.push(at);
};
const follow = (stroke) => {  // extend a drag from the last position of the mouse to the present one
  const part = clip(stroke.last, exact) ?? [];
  if (stroke.tool === LINE) stroke.points = [];  // a line runs from its start to the mouse
  else stroke.last = exact;
  if (stroke.tool !== OUTLINE) part.forEach(add);
  else if (stroke.points.length || within) add(nearest(exact));
  if (stroke.tool === BRUSH && !within && stroke.points.length) {  // the drag leaves the section: send the part inside
    send(stroke);
    stroke.points = [];
  }
};
outline();
plot.finish_stroke = finish;
plot.drop_stroke = () => plot.stroke && drop();
plot.drop_corner = drop_corner;
plot.nudge_corner = nudge;
plot.choose_corner = choose;
plot.clear_preview = () => plot.stroke || hide();
plot.redraw_stroke = () => plot.stroke ? draw(plot.stroke) : hide();
if (event === undefined) {  // called by the document after the page has opened
  try { plot.stroke = JSON.parse(sessionStorage.getItem(CORNERS_KEY)); } catch { /* no corners are stored */ }
  if (plot.stroke) { unfinished(plot.stroke); draw(plot.stroke); }
}
if (armed && event === "panstart" && plot.stroke?.dragged) finish();  // the browser did not report the end of the last drag
const open = plot.stroke, elsewhere = open && !open.dragged && !(in_view(open) && open.tool === tool.active);
if (open && !elsewhere) open.radius = radius;
// outside the section, a line ends at the rim and an outline follows the rim
const at = open?.tool === LINE && !open.dragged ? clip(open.points.at(-1), exact)[1] : nearest(exact);
const corner = () => {
  if (plot.stroke) add(at);
  else begin([at], false);
  keep();
  draw(plot.stroke);
};
if (armed && elsewhere && ["panstart", "tap", "doubletap"].includes(event)) {
  unfinished(open);
} else if (elsewhere) {
  if (event === "mousemove") draw(open);
} else if (armed && event === "panstart") {
  if (open) open.held = corner_under(open);
  else begin(within ? [at] : [], true);  // without corners a drag is a stroke; with corners it sets the next corner
} else if (open && !open.dragged && open.held >= 0 && (event === "pan" || event === "panend")) {
  put(open, open.held, nearest(exact));
  if (event === "panend") open.held = -1;
} else if (open?.dragged && (event === "pan" || event === "panend")) {
  if (open.section[0] === section[0]) follow(open);
  if (event === "pan") draw(open);
  else finish();
} else if (armed && open && event === "panend") {
  corner();
} else if (armed && !open && !within && (event === "tap" || event === "doubletap")) {
  tell("The click is outside the section and paints nothing: click inside the section.");
} else if (armed && event === "tap" && tool.active === BRUSH) {
  begin([at], true);
  finish();
} else if (armed && (event === "tap" || event === "doubletap") && tool.active !== BRUSH) {
  if (event === "doubletap" && open && same(open.points.at(-1), at)) finish();
  else if (tool.active === OUTLINE && open?.points.length > 2 && same(open.points[0], at)) finish();
  else corner();
} else if (armed && open && (event === "pan" || event === "mousemove")) {
  draw(open, at);
}
