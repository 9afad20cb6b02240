"""Colours of the classes."""

from collections.abc import Sequence
from typing import Any

# Distinct with any of the three kinds of colour blindness: in CIELAB the first four differ by 34 or more, they and the
# first eight of the others by 26, all of them by 14.
COLOURS = {
    "fault": "#99dd22", "salt dome": "#aa1133", "chaotic": "#5577ff", "other": "#55ffdd", "uncertain": "#8a8a8a",
}  # fmt: skip
EXTRA = (
    "#661199", "#ffee99", "#880066", "#4400dd", "#dd1100", "#dd8866", "#aa66bb", "#ffaaff", "#333300", "#ccbb55",
    "#9999ff", "#dd1166", "#66cc99", "#552233", "#bb11dd", "#883399", "#ddff66", "#bbaacc", "#aaffbb", "#558822",
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
    {'fault': '#99dd22', 'channel': '#123456'}
    """
    known = COLOURS | (chosen if isinstance(chosen, dict) else {})
    spare = iter(EXTRA * (1 + len(classes) // len(EXTRA)))
    return {name: known[name] if name in known else next(spare) for name in classes}
