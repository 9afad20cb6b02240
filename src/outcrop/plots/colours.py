"""Colours of the classes."""

from collections.abc import Sequence
from typing import Any

# Distinct with any of the three kinds of colour blindness: in CIELAB the first four differ by 50, they and the first
# eight of the others by 24, all of them by 14. Laid half over a section the first four differ from every grey by 21 and
# from every shade of red-white-blue by 9 (CIEDE2000): they are no shade of either.
COLOURS = {
    "fault": "#eeee00", "salt dome": "#990066", "chaotic": "#227700", "other": "#33ffff", "uncertain": "#999999",
}  # fmt: skip
EXTRA = (
    "#9911ff", "#ff9988", "#aa99ff", "#442299", "#553322", "#00bb00", "#ccff88", "#bb88bb", "#dd2266", "#6666dd",
    "#7755aa", "#aaffcc", "#66aa44", "#88ccff", "#770077", "#eebbcc", "#444400", "#556633", "#cc3388", "#99dd55",
)  # fmt: skip


def colours(classes: Sequence[str], chosen: Any = None) -> dict[str, str]:
    """Colour of every class: the chosen one, the standard one by name, others in order of appearance.

    Parameters
    ----------
    classes : sequence of str
    chosen : dict, optional
        Class -> colour, as ``Job.palette`` has it. Anything else, such as the colours of codes in a file, is ignored.

    Examples
    --------
    >>> colours(["fault", "channel"], {"channel": "#123456"})
    {'fault': '#eeee00', 'channel': '#123456'}
    """
    known = COLOURS | (chosen if isinstance(chosen, dict) else {})
    spare = iter(EXTRA * (1 + len(classes) // len(EXTRA)))
    return {name: known[name] if name in known else next(spare) for name in classes}
