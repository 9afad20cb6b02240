"""Colours of the classes."""

from collections.abc import Sequence
from typing import Any

# Distinct for all three kinds of colour blindness: in CIELAB the standard colours of classes differ by 50, with the
# first eight extra colours by 24, with all extra colours by 14. Half transparent over a section, the standard colours
# differ from every grey by 21 and from every shade of red-white-blue by 9 (CIEDE2000).
COLOURS = {
    "fault": "#eeee00", "salt dome": "#990066", "chaotic": "#227700", "other": "#33ffff", "uncertain": "#999999",
}  # fmt: skip
EXTRA = (
    "#9911ff", "#ff9988", "#aa99ff", "#442299", "#553322", "#00bb00", "#ccff88", "#bb88bb", "#dd2266", "#6666dd",
    "#7755aa", "#aaffcc", "#66aa44", "#88ccff", "#770077", "#eebbcc", "#444400", "#556633", "#cc3388", "#99dd55",
)  # fmt: skip


def colours(classes: Sequence[str], chosen: Any = None) -> dict[str, str]:
    """Return class -> colour: the chosen colour, else the standard colour of the name, else the next extra colour.

    Parameters
    ----------
    classes : sequence of str
        Names of the classes.
    chosen : dict, optional
        Class -> colour, like ``Job.palette``. A value that is not a dict, such as the list of colours in a Zarr file,
        is ignored.

    Examples
    --------
    >>> colours(["fault", "channel"], {"channel": "#123456"})
    {'fault': '#eeee00', 'channel': '#123456'}
    """
    known = COLOURS | (chosen if isinstance(chosen, dict) else {})
    spare = iter(EXTRA * (1 + len(classes) // len(EXTRA)))
    return {name: known[name] if name in known else next(spare) for name in classes}
