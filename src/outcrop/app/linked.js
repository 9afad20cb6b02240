// The crosshairs of the other views follow the mouse in one view, and return when the mouse leaves it.
// The sources change in the browser only: the server does not need the position of the mouse.
if (toggle.active) {
  const left = cb_obj.event_name === "mouseleave", under = {};
  figures[number].tags[0].axes.forEach((axis, i) => { under[axis.name] = i === 0 ? cb_obj.x : cb_obj.y; });
  figures.forEach((figure, i) => {
    if (i === number || !figure.visible) return;
    const [x, y] = crosses[i].tags, names = figure.tags[0].axes.map((axis) => axis.name);
    crosses[i].data.x = [left ? x : under[names[0]] ?? x];
    crosses[i].data.y = [left ? y : under[names[1]] ?? y];
    crosses[i].change.emit();
  });
}
