// Draw strokes filled over labels and the section, but as outlines over confidence and changes, and to the right of the
// swipe line, where filled strokes would cover the other labels.
const codes = source.data.image[0];
if (codes !== undefined) {
  if (source._drawn !== codes) {  // keep the picture of the server, because the inside of strokes is removed in place
    source._sent = new Uint8Array(codes);
    source._drawn = codes;
  }
  const sent = source._sent, [rows, columns] = codes.shape, all = sure.visible || what.active === 1;
  const cutAt = Math.round((cut.location - source.data.x[0]) / source.data.dw[0] * columns);
  const start = all ? 0 : cut.visible ? cutAt : columns;  // first column of outlines
  let changed = false;
  for (let i = 0; i < sent.length; i++) {
    const row = Math.floor(i / columns), column = i - row * columns;
    const same = (j, inside) => inside && sent[j] === sent[i];
    const within = column >= start && same(i - 1, column > 0) && same(i + 1, column < columns - 1)
      && same(i - columns, row > 0) && same(i + columns, row < rows - 1);
    const code = within ? 0 : sent[i];
    if (codes[i] !== code) { codes[i] = code; changed = true; }
  }
  if (changed) source.change.emit();
}
