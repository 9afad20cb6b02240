// Show labels above the minimum confidence; with the swipe line, labels of the job to its left and expert labels to its
// right. This runs in the browser, on codes that the server sent once, so that it follows the mouse.
const kept = (one, column, key) => {  // return the column that the server sent, because hiding changes the shown one in place
  const codes = one.data[column][0];
  if (codes !== undefined && one[`_shown_${key}`] !== codes) {
    one[`_${key}`] = new Uint8Array(codes);
    one[`_shown_${key}`] = codes;
  }
  return codes === undefined ? undefined : one[`_${key}`];
};
const split = (one) => {  // return the first pixel to the right of the swipe line
  const columns = one.data.image[0].shape[1];
  return cut.visible ? Math.round((cut.location - one.data.x[0]) / one.data.dw[0] * columns) : columns;
};
const raw = kept(source, "image", "raw"), sure = kept(source, "confidence", "sure"), expert = kept(truth, "image", "raw");
const earlier = source.data.before?.[0], changes = what.active === 1;
const before = earlier && earlier.length === raw?.length ? earlier : undefined;  // labels before the last correction
if (raw === undefined) { share.text = ""; } else {
  const codes = source.data.image[0], shown = source.data.confidence[0];
  const columns = codes.shape[1], end = split(source), limit = Math.round(2.55 * slider.value);
  let left = 0, all = 0;
  for (let i = 0; i < raw.length; i++) {
    const here = i % columns < end, enough = sure[i] >= limit;
    if (before && cut.before) codes[i] = here ? before[i] : 0;
    else codes[i] = here && enough && !(changes && (!before || before[i] === raw[i])) ? raw[i] : 0;
    shown[i] = here ? sure[i] : 0;
    if (raw[i]) { all++; if (enough && raw[i] !== 255) left++; }  // 255 is uncertain
  }
  source.change.emit();
  const rest = limit ? "; other labels count as uncertain, in exports too" : "";
  share.text = changes && !before ? "This line was not corrected since the page was opened: there are no changes to show." : all ? `${Math.round(100 * left / all)} % above the minimum confidence${rest}` : "";
}
if (expert !== undefined) {
  const codes = truth.data.image[0], columns = codes.shape[1], start = cut.visible ? split(truth) : 0;
  for (let i = 0; i < expert.length; i++) codes[i] = i % columns >= start ? expert[i] : 0;
  truth.change.emit();
}
