"""Colours of classes: distinct for every kind of colour vision, and used in every figure."""

import numpy as np
import xarray as xr
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_rgb

from outcrop import plots

# Machado, Oliveira and Fernandes (2009), severity 1: linear RGB as seen without one kind of cones.
SEEN_BY = {
    "trichromats": np.eye(3),
    "protanopes": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deuteranopes": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.01182, 0.04294, 0.968881]],
    "tritanopes": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.3039]],
}
XYZ = [[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.072175], [0.0193339, 0.119192, 0.9503041]]
WHITE = [0.95047, 1, 1.08883]


def cielab(colours, eyes):
    """Return colours in CIELAB (D65) for one kind of colour vision."""
    rgb = np.array([to_rgb(colour) for colour in colours])
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    ratio = np.clip(linear @ np.transpose(SEEN_BY[eyes]), 0, 1) @ np.transpose(XYZ) / WHITE
    f = np.where(ratio > (6 / 29) ** 3, np.cbrt(ratio), ratio / (3 * (6 / 29) ** 2) + 4 / 29)
    return np.stack([116 * f[:, 1] - 16, 500 * (f[:, 0] - f[:, 1]), 200 * (f[:, 1] - f[:, 2])], axis=1)


def smallest_difference(colours):
    """Return the smallest difference of any two colours, for any kind of colour vision."""
    found = []
    for eyes in SEEN_BY:
        lab = cielab(colours, eyes)
        apart = np.linalg.norm(lab[:, None] - lab, axis=2)
        found.append(apart[np.triu_indices(len(lab), 1)].min())
    return min(found)


def test_cielab_of_known_colours():
    """White is 100, 0, 0 and pure red 53.24, 80.09, 67.20 (sRGB, D65)."""
    np.testing.assert_allclose(cielab(["white", "red"], "trichromats"), [[100, 0, 0], [53.24, 80.09, 67.2]], atol=0.02)


def test_colours_of_classes_are_distinct_with_colour_blindness():
    """A difference of 10 is visible side by side, 20 from memory; former blue and limegreen differed by 9."""
    standard = [colour for name, colour in plots.COLOURS.items() if name != "uncertain"]
    assert smallest_difference(["#32cd32", "#ff3030", "#4169e1", "#00c8c8"]) < 10
    assert smallest_difference(standard) > 50
    assert smallest_difference([*standard, *plots.EXTRA[:8]]) > 24
    assert smallest_difference([*standard, *plots.EXTRA]) > 14
    assert smallest_difference([*standard, plots.COLOURS["uncertain"]]) > 26


def test_labels_are_drawn_in_chosen_colours():
    """The figure and its legend have the colours of a job, and its title states the limit of confidence."""
    axes = {"crossline": np.arange(6), "time": np.arange(5) * 4.0}
    line = xr.DataArray(np.zeros((6, 5)), axes, ("crossline", "time"))
    codes = np.ones((6, 5), np.uint8)
    labels = xr.Dataset({"label": line.copy(data=codes), "confidence": line.copy(data=codes)})
    labels.attrs = {"classes": ["fault"], "colours": {"fault": "#123456"}, "min_confidence": 0.4}
    axis = plots.labelled_section(line, labels).axes[0]
    assert "below 40 %" in axis.get_title()
    np.testing.assert_allclose(axis.get_images()[1].get_array()[0, 0, :3], to_rgb("#123456"))
    (patch,) = axis.get_legend().get_patches()
    np.testing.assert_allclose(patch.get_facecolor()[:3], to_rgb("#123456"))


def test_twelve_classes_have_distinct_colours():
    """Twelve classes have twelve colours, and their legend covers neither the section nor its title."""
    names = [f"class {number}" for number in range(12)]
    assert len(set(plots.colours(names).values())) == 12
    axes = {"crossline": np.arange(12), "time": np.arange(5) * 4.0}
    line = xr.DataArray(np.zeros((12, 5)), axes, ("crossline", "time")).assign_coords(inline=7)
    codes = np.repeat(np.arange(1, 13, dtype=np.uint8)[:, None], 5, axis=1)
    ax = plots.overlay(line, line.copy(data=codes), names)
    canvas = FigureCanvasAgg(ax.figure)
    canvas.draw()
    shown = ax.get_legend().get_window_extent()
    assert len(ax.get_legend().get_texts()) == 12
    for other in (
        ax.get_window_extent(),
        next(t for t in (ax._left_title, ax.title) if t.get_text()).get_window_extent(),
    ):
        assert not shown.overlaps(other)
    assert shown.x1 <= ax.figure.bbox.x1 and shown.y0 >= 0
