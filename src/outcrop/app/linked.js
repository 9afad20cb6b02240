// What is under the cursor in one view, shown by the crosshairs of the others; where the mouse leaves they go back.
// The sources change here only: the server need not know where the mouse is.
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
