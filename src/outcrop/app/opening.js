// If the server ends before the page is drawn, show a message instead of a blank page, and reload when a server
// answers. This script uses no other script, because others may not have loaded.
(() => {
  const PATIENCE = 6000, AGAIN = 700, LONGEST = 30000;  // milliseconds
  const begin = Date.now();
  let gone = false, asking = false;
  const say = () => {
    if (document.getElementById("opening")) return;
    const banner = document.createElement("div");
    banner.id = "opening";
    banner.setAttribute("role", "alert");
    banner.style.cssText = "background:#b01818; color:#fff; font:600 15px sans-serif; padding:14px 20px; text-align:center";
    banner.textContent = "The server ended before this page was drawn. Run outcrop app on the job again; this page then opens by itself.";
    document.body.append(banner);
  };
  const look = setInterval(async () => {
    if (window.Bokeh?.documents?.[0]?.roots().length) {
      clearInterval(look);
      return;
    }
    if (asking || Date.now() - begin < PATIENCE) return;
    asking = true;
    try {
      const answer = await fetch("alive", { cache: "no-store", signal: AbortSignal.timeout(PATIENCE) });
      if (answer.ok && (gone || Date.now() - begin > LONGEST)) window.location.reload();
    } catch {
      gone = true;
      say();
    } finally { asking = false; }
  }, AGAIN);
})();
