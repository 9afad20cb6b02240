// Colour map, gain and polarity of the amplitudes, in the browser; code 0 is a missing sample. The colour bar shows
// which sign is drawn as a peak and which as a trough.
const base = bases[scheme.active === 1 ? "seismic" : "grey"], sign = polarity.active ? -1 : 1;
const at = (i) => Math.max(0, Math.min(255, Math.round(128 + (i - 128) * gain.value * sign)));
const shades = base.map((_, i) => base[at(i)]);
mapper.palette = [missing, ...shades.slice(1)];
const [up, down] = polarity.active ? ["trough", "peak"] : ["peak", "trough"], most = Number(clip.toPrecision(3));
const colours = shades.filter((_, i) => i % 15 === 0).join(",");
bar.text = `<div role="img" aria-label="Amplitude from \u2212${most}, ${down}, to +${most}, ${up}" style="display:flex; gap:4px; align-items:center; white-space:nowrap">` +
  `<span>${down} \u2212${most}</span>` +
  `<span style="width:80px; height:8px; border:1px solid #667; background:linear-gradient(to right, ${colours})"></span>` +
  `<span>+${most} ${up}</span></div>`;
