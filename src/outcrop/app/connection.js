// The connection to the server: keep strokes until they are stored, show a banner when the server is gone, and reconnect.
//
// A stroke stays in this tab until the server confirms that it is stored, and is sent again after a reload; the server
// recognises its id and stores it once. The banner appears at once when the connection breaks, and after six seconds
// without a message. The page then sends one small request at a time until the server answers, and reloads once. After a
// delay without a broken connection, the next beat removes the banner without a reload.
const SILENCE = 6000, AGAIN = 700, PATIENCE = 10000, GRACE = 8000;  // milliseconds
const HERE = `${window.location.pathname} ${window.outcropJob}`;  // one server shows several jobs
const STROKES = `outcrop strokes ${HERE}`, SECTION = `outcrop section ${HERE}`;

const stored = (key) => { try { return JSON.parse(sessionStorage.getItem(key)); } catch { return null; } };
const store = (key, value) => { try { sessionStorage.setItem(key, JSON.stringify(value)); } catch { /* without storage, a reload loses it */ } };
const named = (name) => window.Bokeh.documents[0].get_model_by_name(name);

const element = (css, ...children) => {
  const one = document.createElement("div");
  one.style.cssText = css;
  one.append(...children);
  return one;
};

function strokes(model) {
  let waiting = stored(STROKES) ?? [];
  const keep = (some) => { waiting = some; store(STROKES, some); };
  window.addEventListener("outcrop-stroke", ({ detail }) => {
    keep([...waiting, detail]);
    model.send_msg({ verb: "stroke", ...detail });
  });
  model.on("stored", () => {
    keep(waiting.filter((one) => !model.stored.includes(one.id)));
    if (!waiting.length) named("section")?.clear_preview?.();
  });
  for (const one of waiting) model.send_msg({ verb: "stroke", ...one });
  return () => waiting.length;
}

function watch(model, waiting) {
  const banner = element("background:#b01818; color:#fff; font:600 15px sans-serif; padding:14px 20px; text-align:center");
  banner.setAttribute("role", "alert");
  const cover = element("position:fixed; inset:0; z-index:100000; background:rgba(255,255,255,.6); display:none", banner);
  cover.id = "connection-lost";
  document.body.append(cover);
  let last = Date.now(), acted = 0, answered = 0, lost = false, closed = false, asking = false, leaving = false;
  const words = () => {
    const count = waiting();
    const unsure = acted > last ? " Your last click may not be saved: check it when the page is back." : "";
    const kept = count === 0 ? `What you decided before is saved.${unsure}`
      : `${count === 1 ? "1 stroke is" : `${count} strokes are`} not saved yet: this tab keeps what you painted and sends it; leave it open.`;
    return `Connection lost: the server does not answer. ${kept} If the server ended, run outcrop app on the job again; this page then continues by itself.`;
  };
  const show = (gone) => {
    lost = gone;
    if (gone && named("section")?.stroke?.dragged) named("section").finish_stroke();  // the cover blocks the mouse
    banner.textContent = words();
    cover.style.display = gone ? "block" : "none";
  };
  const reload = () => {
    leaving = true;
    store(SECTION, named("section")?.tags[0]?.section);  // another tab may show another section
    window.location.reload();
  };
  document.addEventListener("pointerup", () => { if (!lost) acted = Date.now(); }, true);
  model.on("beat", () => { last = Date.now(); answered = 0; if (!closed) show(false); });
  setInterval(() => { if (lost || Date.now() - last > SILENCE) show(true); }, 500);
  setInterval(async () => {
    if (!lost || asking || leaving) return;
    asking = true;
    try {
      const answer = await fetch("alive", { cache: "no-store", signal: AbortSignal.timeout(PATIENCE) });
      if (answer.ok) answered ||= Date.now();
      if (answer.ok && lost && (closed || Date.now() - answered > GRACE)) reload();
    } catch { answered = 0; } finally { asking = false; }
  }, AGAIN);
  for (const one of window.Bokeh?.documents ?? []) {
    one.on_event("connection_lost", () => { closed = true; if (!leaving) show(true); });
  }
  window.addEventListener("beforeunload", (event) => { if (waiting() && lost && !leaving) event.preventDefault(); });
}

export function render({ model }) {
  const section = stored(SECTION);
  if (section) {
    sessionStorage.removeItem(SECTION);
    model.send_msg({ verb: "section", section });
  }
  watch(model, strokes(model));
  return document.createElement("span");
}
