"""Colours of the classes."""

# Distinct with any of the three kinds of colour blindness: two of them differ by 26 or more in CIELAB, the first four
# by 34.
COLOURS = {
    "fault": "#99dd22", "salt dome": "#aa1133", "chaotic": "#5577ff", "other": "#55ffdd", "uncertain": "#8a8a8a",
}  # fmt: skip
EXTRA = ("#661199", "#ffee99", "#880066", "#4400dd", "#dd1100", "#dd8866", "#aa66bb", "#ffaaff")


def colours(classes, chosen=None):
    """Colour of every class: the chosen one, the standard one by name, others in order of appearance.

    Parameters
    ----------
    classes : sequence of str
    chosen : dict, optional
        Class -> colour, as ``Job.palette`` has it.

    Examples
    --------
    >>> colours(["fault", "channel"], {"channel": "#123456"})
    {'fault': '#99dd22', 'channel': '#123456'}
    """
    known = COLOURS | (chosen if isinstance(chosen, dict) else {})
    spare = iter(EXTRA * (1 + len(classes) // len(EXTRA)))
    return {name: known[name] if name in known else next(spare) for name in classes}
