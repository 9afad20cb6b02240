"""Brush strokes: which samples they cover, and how they are kept."""

import numpy as np

from outcrop.app.pictures import crop
from outcrop.painted import painted_codes
from outcrop.patches import DIRECTIONS


def covered(survey, direction, points, radius):
    """Samples of a section under a brush that moves along points, shape (n_across, n_down).

    Parameters
    ----------
    survey : Survey
    direction : {0, 1}
        Inline or crossline.
    points : sequence of (float, float)
        The stroke, across and down, in coordinates.
    radius : float
        Of the brush, in samples and traces.
    """
    across, down = survey.sections.frame(direction)
    spots = [(across.position(x), down.position(y)) for x, y in points[:5000]]
    return stroke((len(across), len(down)), spots, float(np.clip(radius, 1, 100)))


def kept(survey, direction, position, name, mask):
    """Painted samples of a section as they are kept: class, section, and runs in survey labels."""
    across, down = survey.sections.frame(direction)
    line = survey.axes[direction].labels[position].item()
    return {"class": name, "along": DIRECTIONS[direction], "line": line, "runs": runs(mask, across.labels, down.labels)}


def codes(survey, painted, names, *, direction, position):
    """Codes of what is painted on a section, in the order of the names, shape (n_across, n_down)."""
    section = (DIRECTIONS[direction], survey.axes[direction].labels[position].item())
    own = [one for one in painted if (one["along"], one["line"]) == section]
    across, down = survey.sections.frame(direction)
    return painted_codes(own, names, across.labels, down.labels)


def painted_picture(survey, state, direction, position, window=None):
    """Picture of painted codes of a section in the order of the classes, None where nothing is painted."""
    if direction > 1:
        return None
    found = codes(survey, state.data["painted"], list(state.palette), direction=direction, position=position)
    return crop(found.T, survey.sections.frame(direction), window, mean=False) if found.any() else None


def stroke(shape, spots, radius):
    """Pixels under a brush that moves along spots.

    Examples
    --------
    >>> stroke((3, 5), [(1, 1), (1, 3)], 0.5).astype(int)
    array([[0, 0, 0, 0, 0],
           [0, 1, 1, 1, 0],
           [0, 0, 0, 0, 0]])
    """
    from PIL import Image, ImageDraw

    image = Image.new("1", (shape[1], shape[0]))
    draw = ImageDraw.Draw(image)
    flipped = [(down, across) for across, down in spots]
    if len(flipped) > 1:
        draw.line(flipped, fill=1, width=max(1, round(2 * radius)))
    if radius >= 1:
        for down, across in flipped:
            draw.ellipse((down - radius, across - radius, down + radius, across + radius), fill=1)
    return np.array(image, bool)


def runs(mask, traces, samples):
    """Painted samples as [trace, first, last] in survey labels, shape of mask (n_traces, n_samples).

    Examples
    --------
    >>> runs(np.array([[0, 1, 1], [0, 0, 0]], bool), np.array([300, 301]), np.array([0.0, 4.0, 8.0]))
    [[300, 4.0, 8.0]]
    """
    found = []
    for trace in np.flatnonzero(mask.any(axis=1)):
        edges = np.flatnonzero(np.diff(np.concatenate([[0], mask[trace].astype(np.int8), [0]])))
        for first, last in edges.reshape(-1, 2):
            found.append([traces[trace].item(), samples[first].item(), samples[last - 1].item()])
    return found
