"""Fault sticks and horizons on other sections than those on which they were picked: planes and domes."""

import numpy as np
import pandas as pd
import pytest
import xarray as xr

from outcrop import plots
from outcrop.geometry.crossings import fault_traces, horizon_traces

AXES = {"inline": np.arange(100, 130), "crossline": np.arange(300, 380, 2), "time": 4.0 * np.arange(100)}
VOLUME = xr.DataArray(np.random.default_rng(0).standard_normal((30, 40, 100)).astype("f4"), AXES)


def plane_sticks(lines=AXES["inline"]):
    """Return sticks on inlines of the plane crossline = 320 + (inline - 100) + time / 10."""
    rows = [
        {"surface": 0, "stick": n, "inline": line, "crossline": 220 + line + t / 10, "time": t, "likelihood": 0.7}
        for n, line in enumerate(lines)
        for t in (40.0, 100.0, 300.0)
    ]
    return pd.DataFrame(rows)


def dome():
    """Return a top whose time increases from its middle to the rim."""
    inline, crossline = np.meshgrid(AXES["inline"], AXES["crossline"], indexing="ij")
    depth = 100 + 5 * np.hypot(inline - 115, (crossline - 340) / 2)
    axes = {name: AXES[name] for name in ("inline", "crossline")}
    return xr.DataArray(depth, axes, name="time", attrs={"class": "salt dome", "side": "top", "body": 1})


def test_a_stick_on_the_section_is_drawn_unchanged():
    """The section shows the points of its own stick and no other stick."""
    sticks = plane_sticks()
    (trace,) = fault_traces(sticks, VOLUME, 0, 107)
    assert trace.stick == 7 and trace.down.tolist() == [40.0, 100.0, 300.0]


@pytest.mark.parametrize(("direction", "label"), [(1, 340), (1, 346.0), (2, 100.0), (2, 222.0)])
def test_a_plane_crosses_other_sections_along_a_line(direction, label):
    """Every point of the drawn line lies on the plane, and the line is continuous over all survey lines."""
    (trace,) = fault_traces(plane_sticks(), VOLUME, direction, label)
    inline, crossline, time = (trace.across, label, trace.down) if direction == 1 else (trace.down, trace.across, label)
    np.testing.assert_allclose(crossline, 220 + inline + np.asarray(time) / 10)
    assert (np.diff(trace.across if direction == 1 else trace.down) == 1).all() and trace.stick == -1


def test_lines_that_are_far_apart_are_not_connected():
    """Sticks on lines up to three apart are connected; farther sticks begin a new line, which can be one point."""
    found = fault_traces(plane_sticks([100, 103, 110]), VOLUME, 2, 100.0)
    assert [len(trace.across) for trace in found] == [2, 1]


def test_a_slice_shows_contours_of_a_top():
    """All points of the contour have the time of the slice."""
    ((across, down),) = horizon_traces(dome(), 2, 150.0)
    depth = 100 + 5 * np.hypot(down - 115, (across - 340) / 2)
    np.testing.assert_allclose(depth, 150, atol=0.5)  # straight between grid points
    assert horizon_traces(dome(), 2, 50.0) == []


def test_a_top_with_a_gap_gives_two_lines():
    """A gap of the top is not bridged."""
    top = dome()
    top[10, 5:9] = np.nan
    left, right = horizon_traces(top, 0, 110)
    assert len(left[0]) == 5 and len(right[0]) == 31
    np.testing.assert_array_equal(right[1], top.sel(inline=110).values[9:])


def test_a_top_ends_where_it_jumps():
    """A step of up to 16 samples per trace continues a line, a larger step begins another; no point is lost."""
    top = dome()
    top[10, 20:] += 4.0 * 17  # 17 samples, more than the limit; the dome itself changes by at most 5 ms per trace
    left, right = horizon_traces(top, 0, 110, interval=4.0)
    assert (len(left[0]), len(right[0])) == (20, 20)
    np.testing.assert_array_equal(np.concatenate([left[1], right[1]]), top.sel(inline=110).values)
    top[10, 20:] -= 4.0 * 3
    assert len(horizon_traces(top, 0, 110, interval=4.0)) == 1
    assert len(horizon_traces(top, 0, 110)) == 1


def test_figures_show_sticks_and_tops_on_sections_and_slices():
    """Figures show one line per crossing with unchanged limits of the axes; accepted sticks have an outline."""
    sticks = plane_sticks().assign(accepted=lambda table: table["stick"] == 7)
    for line, count in ((VOLUME.sel(inline=107), 2), (VOLUME.sel(crossline=340), 2), (VOLUME.sel(time=148.0), 2)):
        ax = plots.sticks(line, sticks, surfaces=[dome()])
        bare = plots.section(line)
        assert len(ax.lines) == count and ax.get_xlim() == bare.get_xlim() and ax.get_ylim() == bare.get_ylim()
    outlined = plots.sticks(VOLUME.sel(inline=107), sticks).lines[0].get_path_effects()
    assert outlined and not plots.sticks(VOLUME.sel(inline=108), sticks).lines[0].get_path_effects()
