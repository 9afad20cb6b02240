// Show only labels that are sure enough: done here, on the codes the server sent once, so that it follows the slider.
const codes = source.data.image[0];
if (codes === undefined) { share.text = ""; } else {
  if (source._shown !== codes) { source._raw = new Uint8Array(codes); source._shown = codes; }
  const raw = source._raw, sure = source.data.confidence[0], limit = Math.round(2.55 * slider.value);
  let left = 0, all = 0;
  for (let i = 0; i < raw.length; i++) {
    codes[i] = sure[i] >= limit ? raw[i] : 0;
    if (raw[i]) { all++; if (codes[i]) left++; }
  }
  source.change.emit();
  share.text = all ? `${Math.round(100 * left / all)} % of the labelled samples shown` : "";
}
