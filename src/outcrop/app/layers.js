// What lies over the section: labels, their confidence, what the last correction changed, or nothing.
const [codes, confidence, changes, nothing] = [0, 1, 2, 3].map((i) => what.active === i);
labels.visible = codes || changes; sure.visible = bar.visible = confidence;
hatch.visible = codes || confidence;
labels.glyph.global_alpha = changes ? Math.max(0.7, opacity.value) : opacity.value;
for (const one of expert) one.glyph.global_alpha = opacity.value;
