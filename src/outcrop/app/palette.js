// Colour map, gain and polarity of the amplitudes, on the client; code 0 is a missing sample.
const base = bases[scheme.active === 1 ? "seismic" : "grey"], sign = polarity.active ? -1 : 1;
const at = (i) => Math.max(0, Math.min(255, Math.round(128 + (i - 128) * gain.value * sign)));
mapper.palette = base.map((_, i) => i === 0 ? missing : base[at(i)]);
