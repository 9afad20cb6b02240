// Keep the vertical exaggeration (pixels per sample divided by pixels per trace) equal in all views of inlines and
// crosslines when the user zooms or resizes. "auto" is the exaggeration of a section that fills its frame, within limits,
// so that a short section is not stretched to full height. A time slice has the ratio of its bin sizes.
const LOWEST = 0.4, HIGHEST = 2.5;  // limits of "auto"
const LEAST = 0.15;  // smallest part of the frame that a section fills across and down; below it the section is stretched
const close = (a, b) => Math.abs(a / b - 1) < 1e-3;
const same = (a, b) => a.every((value, i) => Math.abs(value - b[i]) <= 1e-4 * Math.abs(b[1] - b[0]));

// the first view that is not a time slice determines "auto"
const first = figures.find((one) => one.visible && one.tags[0]?.ratio === null);

const keep = (plot) => {
  const { axes, whole, ratio } = plot.tags[0] ?? {}, { inner_width: width, inner_height: height, x_range: x, y_range: y } = plot;
  if (!whole || !(width > 0) || !(height > 0)) return;
  const [across, down] = axes.map((axis) => Math.abs(axis.step));
  const [wide, high] = [(whole[1] - whole[0]) / across, (whole[2] - whole[3]) / down];  // traces and samples
  const now = [x.start, x.end, y.start, y.end];
  const all = same(now, whole) || (plot.fitted && same(now, plot.fitted));  // whether the whole section is in view
  const shown = height / ((y.start - y.end) / down) / (width / ((x.end - x.start) / across));
  if (plot === first && !(select.settled && select.chosen === select.value)) {
    // a page that opens zoomed in keeps its exaggeration
    const filled = all || select.settled ? Math.min(HIGHEST, Math.max(LOWEST, height / high / (width / wide))) : shown;
    select.locked = select.value === "auto" ? filled : Number(select.value);
    select.chosen = select.value;
  }
  const wanted = ratio ?? select.locked, trace = Math.min(width / wide, height / (wanted * high));  // pixels
  const fills = wanted > 0 && Math.min(trace * wide / width, trace * wanted * high / height) >= LEAST;
  if (all) {
    const more = fills ? [width / trace / wide, height / (trace * wanted) / high].map((n) => (n - 1) / 2) : [0, 0];
    const [dx, dy] = [more[0] * (whole[1] - whole[0]), more[1] * (whole[2] - whole[3])];
    plot.fitted = [whole[0] - dx, whole[1] + dx, whole[2] + dy, whole[3] - dy];
    x.setv({ start: plot.fitted[0], end: plot.fitted[1], reset_start: plot.fitted[0], reset_end: plot.fitted[1] });
    y.setv({ start: plot.fitted[2], end: plot.fitted[3], reset_start: plot.fitted[2], reset_end: plot.fitted[3] });
    return;
  }
  if (!fills || close(shown, wanted)) return;
  const centre = (y.start + y.end) / 2, half = (y.start - y.end) / 2 * shown / wanted;
  y.setv({ start: centre + half, end: centre - half });
};
for (const plot of figures) if (plot.visible) keep(plot);
