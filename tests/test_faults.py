"""Fault sticks, surfaces, and their files."""

import os
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import outcrop as oc
from benchmarks.fault_planes import surface_scores, volume_with_planes
from benchmarks.faults import gsb_sections
from outcrop.geometry.coordinates import map_grid, trace_coordinates
from outcrop.geometry.likelihood import along_strike, discontinuity, section_of_line
from outcrop.geometry.sticks import numbered_as, read_sticks, stick_scores, write_sticks
from outcrop.geometry.surfaces import direction_of, join_sticks, surface_table
from outcrop.geometry.tracing import link, ridges, scan, sticks_of
from outcrop.volumes import segy, segy_headers, segy_write

SHAPE = (12, 96, 96)


@pytest.fixture(scope="module")
def picked():
    """Return a small volume with two fault planes, the planes and picked sticks."""
    volume, planes = volume_with_planes(SHAPE, seed=3, count=2, azimuth=20)
    return volume, planes, oc.fault_sticks(volume)


def test_known_planes_are_found(picked):
    """Every plane has a surface within 2 traces along half of it, and no surface lies elsewhere."""
    volume, planes, sticks = picked
    score = surface_scores(sticks, surface_table(sticks, volume), planes, volume.shape)
    assert score["found"] == score["planes"] == 2
    assert score["right"] == score["surfaces"]


def test_same_volume_same_sticks(picked):
    """Picking is deterministic."""
    volume, _, sticks = picked
    pd.testing.assert_frame_equal(sticks, oc.fault_sticks(volume))


def test_gain_and_polarity_do_not_matter(picked):
    """Sticks of a volume times -1000 are the same within 1 trace but for rounding."""
    volume, _, sticks = picked
    other = oc.fault_sticks(volume.copy(data=-1000 * volume.values))
    assert stick_scores(other, sticks, volume, tolerance=1)["F1"] > 0.95


def test_sticks_of_a_volume_in_seconds_have_milliseconds():
    """A volume in seconds has the same sticks as the volume in ms."""
    volume = oc.datasets.synthetic((2, 160, 128), seed=0)[0]
    seconds = volume.assign_coords(time=volume["time"] / 1000)
    sticks = oc.fault_sticks(volume)
    assert len(sticks)
    pd.testing.assert_frame_equal(oc.fault_sticks(seconds), sticks)


def test_lines_picked_alone_are_those_of_the_whole(picked):
    """A line that is picked alone has all sticks that it has when the whole volume is picked."""
    volume, _, sticks = picked
    alone = oc.fault_sticks(volume, lines=[5])
    whole = sticks[sticks["inline"] == 5]
    for _, points in whole.groupby("stick"):
        same = [part for _, part in alone.groupby("stick") if len(part) == len(points)]
        assert any(np.allclose(part["crossline"], points["crossline"]) for part in same)


def test_crosslines_are_inlines_of_the_turned_volume(picked):
    """Picking along crosslines equals picking along inlines of the transposed survey."""
    volume, _, _ = picked
    turned = xr.DataArray(
        volume.values.swapaxes(0, 1),
        {"inline": volume["crossline"].values, "crossline": volume["inline"].values, "depth": volume["depth"].values},
    )
    names = {"inline": "crossline", "crossline": "inline"}
    one = oc.fault_sticks(turned, along="crossline", lines=[4, 5])
    other = oc.fault_sticks(volume, along="inline", lines=[4, 5]).rename(columns=names)
    assert (one["along"] == "crossline").all() and (other["along"] == "inline").all()
    places = one.columns.drop("along")
    pd.testing.assert_frame_equal(one[places], other[places], check_dtype=False)


def test_noise_has_no_fault():
    """White noise under a wavelet shows no fault that three lines agree on."""
    noise = np.random.default_rng(0).standard_normal((6, 80, 80))
    assert len(oc.fault_sticks(oc.open_volume(noise))) == 0


def test_short_sections(picked):
    """Sections of 64 samples are picked: most of their sticks also exist in the whole volume."""
    volume = picked[0]
    low = volume.isel(depth=slice(16, 80))
    sticks = oc.fault_sticks(low)
    assert len(sticks) and sticks["depth"].between(low["depth"][0].item(), low["depth"][-1].item()).all()
    whole = oc.fault_sticks(volume)
    inside = whole[whole["depth"].between(low["depth"][0].item(), low["depth"][-1].item())]
    assert stick_scores(sticks, inside, low)["precision"] > 0.7


def test_gaps_make_no_faults(picked):
    """Missing and dead traces and a line of zeros have no stick near them; sticks elsewhere stay."""
    volume, _, sticks = picked
    broken = volume.copy(deep=True)
    broken[:, 77:89] = np.nan
    broken[:, 6] = 0
    broken[11] = 0
    found = oc.fault_sticks(broken)
    assert not found["crossline"].between(73, 92).any()
    far = sticks[(sticks["crossline"] < 66) & (sticks["inline"] < 9)]
    assert len(far) > 20 and stick_scores(found, far, volume)["recall"] > 0.6


def test_flat_layers_have_no_sticks():
    """A volume of flat layers gives an empty table with all columns."""
    flat = np.broadcast_to(np.sin(np.arange(96) / 3).astype(np.float32), (2, 80, 96))
    found = oc.fault_sticks(oc.open_volume(flat.copy()))
    assert len(found) == 0
    assert found.columns.tolist() == ["surface", "stick", "inline", "crossline", "time", "likelihood", "along"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"along": "time"}, "inline, crossline or both"),
        ({"lines": [400]}, "no inline 400"),
        ({"threshold": 1.5}, "between 0 and 1"),
        ({"along": "both", "lines": [3]}, "choose 'inline' or 'crossline'"),
    ],
)
def test_wrong_options_are_refused(picked, options, words):
    """Wrong options give an error with a remedy."""
    with pytest.raises(ValueError, match=words):
        oc.fault_sticks(picked[0], **options)


# ---- the parts ------------------------------------------------------------------------------------------------------


def straight(shape=(60, 50), slope=0.5, first=10):
    """Return the likelihood of one straight fault, its slope and its first trace."""
    samples, traces = np.ogrid[: shape[0], : shape[1]]
    return np.exp(-((traces - first - slope * samples) ** 2) / 2).astype(np.float32), slope, first


def test_scan_finds_the_slope():
    """On a straight fault the scan returns the slope and keeps the likelihood."""
    likelihood, slope, first = straight()
    averaged, found = scan(likelihood, np.linspace(-1.5, 1.5, 31), 4)
    samples = np.arange(10, 50)
    columns = (first + slope * samples).astype(int)
    assert np.abs(np.median(found[samples, columns]) - slope) < 0.11  # the step of the scan
    assert averaged[samples, columns].min() > 0.8


def test_stick_lies_between_traces():
    """Positions on a clean fault are within a fifth of a trace."""
    likelihood, slope, first = straight(slope=0.3, first=12.4)
    ((samples, traces, _),) = sticks_of(likelihood)
    inside = (samples > 8) & (samples < 52)
    assert np.abs(traces - first - slope * samples)[inside].max() < 0.2


def test_gaps_are_linked_and_short_pieces_dropped():
    """Four samples without likelihood do not cut a stick, and eight samples are too few for one."""
    likelihood, _, _ = straight()
    likelihood[30:34] = 0
    assert len(sticks_of(likelihood)) == 1
    likelihood[8:] = 0
    assert sticks_of(likelihood) == []


def test_ridges_are_largest_of_five():
    """A ridge sample is the largest of five neighbouring traces."""
    values = np.random.default_rng(1).random((7, 30))
    found = ridges(values)
    for i, j in np.ndindex(values.shape):
        assert found[i, j] == (values[i, j] == values[i, max(0, j - 2) : j + 3].max())


def test_discontinuity_follows_the_dip():
    """Dipping layers without a fault agree along their dip and not along the horizontal."""
    samples, traces = np.mgrid[:90, :90]
    section = (0.5 + 0.3 * np.sin((samples - 0.7 * traces) / 2)).astype(np.float32)
    section[:, 45:] = np.roll(section[:, 45:], 5, axis=0)
    steered = discontinuity(section, np.full(section.shape, 0.7, np.float32))
    inside = steered[20:70]
    assert inside[:, 43:47].mean() > 0.9 > 0.5 > inside[:, 15:35].mean()


def test_support_along_strike_prefers_continuous_faults():
    """A fault that moves by one trace per line keeps its likelihood; a spot on one line loses most of it."""
    maps = []
    for away in (-1, 0, 1):
        part = np.zeros((20, 30), np.float32)
        part[:, 10 + away] = 1
        if away == 0:
            part[:, 22] = 1
        maps.append((away, part))
    mean = along_strike(maps)
    assert mean[:, 10].min() == 1 and mean[:, 22].max() < 0.4


def test_far_lines_do_not_support_each_other(picked):
    """Neighbouring lines with different content are picked as if each line were alone."""
    volume, _, _ = picked
    other = volume_with_planes(SHAPE, seed=8, count=2)[0]
    mixed = volume.isel(inline=[5, 6, 7]).copy(deep=True)
    mixed[[0, 2]] = other.values[[3, 9]]
    alone = oc.fault_sticks(mixed, lines=[6], neighbours=0)
    pd.testing.assert_frame_equal(oc.fault_sticks(mixed, lines=[6]), alone)


def test_section_scales_and_bridges():
    """Short gaps are filled; long gaps have zero amplitude and are marked as not valid."""
    volume = oc.open_volume(np.random.default_rng(0).standard_normal((1, 40, 64)))
    values = volume.values.copy()
    values[0, 5] = np.nan
    values[0, 20:30] = 0
    section, valid = section_of_line(volume.copy(data=values), 0, 0)
    assert section.shape == (64, 40) and valid[5] and not valid[20:30].any()
    assert np.allclose(section[:, 25], 0.5) and section.min() >= 0 and section.max() <= 1


def test_links_keep_apart():
    """Two parallel faults ten traces apart are two sticks."""
    one, _, _ = straight(first=5)
    other, _, _ = straight(first=15)
    assert len(link(*scan(np.maximum(one, other), np.linspace(-1.5, 1.5, 31), 4), 0.3)) == 2


# ---- surfaces -------------------------------------------------------------------------------------------------------


def plane_sticks(azimuth, dip, *, direction="inline", lines=range(0, 20), first=60.0, start=0):
    """Return sticks of a plane in bins of 10 m: strike in degrees from Y (inlines), dip in degrees from horizontal."""
    rows = []
    for number, line in enumerate(lines):
        depth = np.arange(100, 500, 50.0)
        across = (depth - 300) / np.tan(np.deg2rad(dip)) / 10  # lines, normal to the strike
        turn = np.deg2rad(azimuth)
        if direction == "inline":
            trace = first + (across + (line - 10) * np.sin(turn)) / np.cos(turn)
            places = {"inline": line, "crossline": trace}
        else:
            trace = 10 + ((line - first) * np.cos(turn) - across) / np.sin(turn)
            places = {"inline": trace, "crossline": line}
        rows.append(
            pd.DataFrame({"stick": start + number, **places, "depth": depth, "likelihood": 0.5, "along": direction})
        )
    return pd.concat(rows, ignore_index=True)


def empty_volume(shape=(20, 120, 60)):
    """Return a volume of zeros in depth with bins of 10 m and samples of 10 m."""
    axes = {"inline": np.arange(shape[0]), "crossline": np.arange(shape[1]), "depth": 10.0 * np.arange(shape[2])}
    return xr.DataArray(np.zeros(shape, np.float32), axes, attrs={"bin_size": (10.0, 10.0)})


@pytest.mark.parametrize(("azimuth", "dip"), [(0, 60), (25, 45), (-40, 70)])
def test_strike_dip_and_area_of_a_plane(azimuth, dip):
    """Strike and dip of a plane are right within .01 degrees, its area within half a percent."""
    volume = empty_volume()
    sticks = join_sticks(plane_sticks(azimuth, dip), volume)
    table = surface_table(sticks, volume)
    assert len(table) == 1
    off = abs(table["strike"][0] - azimuth % 180)
    assert min(off, 180 - off) < 0.01
    assert abs(table["dip"][0] - dip) < 0.01
    along_strike_m, down_dip_m = 20 * 10 / np.cos(np.deg2rad(azimuth)), 350 / np.sin(np.deg2rad(dip))
    assert table["area"][0] == pytest.approx(along_strike_m * down_dip_m, rel=5e-3)


def test_crossline_sticks_join_inline_surfaces():
    """Sticks of both directions on one plane are one surface."""
    volume = empty_volume()
    inline = plane_sticks(40, 65)
    crossline = plane_sticks(40, 65, direction="crossline", lines=range(55, 66), start=100)
    joined = join_sticks(pd.concat([inline, crossline], ignore_index=True), volume)
    assert joined["surface"].nunique() == 1
    assert joined["stick"].nunique() == 31


def test_parallel_planes_stay_apart():
    """Two planes eight traces apart are two surfaces, for any order of the sticks."""
    volume = empty_volume()
    both = pd.concat([plane_sticks(10, 60), plane_sticks(10, 60, first=68.0, start=100)], ignore_index=True)
    assert join_sticks(both, volume)["surface"].nunique() == 2
    mixed = both.assign(stick=both["stick"].map(lambda n: (7 * n) % 211))
    assert join_sticks(mixed, volume).groupby("surface")["stick"].nunique().tolist() == [20, 20]


def test_missing_lines_do_not_cut_a_surface():
    """Four lines without a stick are bridged, twelve are not."""
    volume = empty_volume()
    assert join_sticks(plane_sticks(10, 60, lines=[0, 1, 2, 7, 8, 9]), volume)["surface"].nunique() == 1
    assert join_sticks(plane_sticks(10, 60, lines=[0, 1, 2, 15, 16, 17]), volume)["surface"].nunique() == 2


@pytest.mark.parametrize("along", ["inline", "crossline"])
def test_vertical_sticks_keep_their_direction(along, tmp_path):
    """A vertical stick keeps the direction of the section on which it was picked, in the table and in a csv."""
    volume = empty_volume()
    vertical = pd.DataFrame({"stick": 0, "inline": 7, "crossline": 60, "depth": [100.0, 200.0, 300.0], "along": along})
    joined = join_sticks(vertical.assign(likelihood=0.5), volume)
    assert direction_of(joined) == ["inline", "crossline"].index(along)
    write_sticks(joined, tmp_path / "sticks.csv", volume)
    assert direction_of(read_sticks(tmp_path / "sticks.csv", volume)) == direction_of(joined)


def far_apart(volume, bin_size):
    """Return a volume with a gap of 100 line numbers after the sixth line, and a bin size."""
    lines = volume["inline"].values
    attrs = {"bin_size": bin_size} if bin_size else {}
    return (
        volume.drop_attrs()
        .assign_coords(inline=lines + np.where(np.arange(len(lines)) > 5, 100, 0))
        .assign_attrs(attrs)
    )


@pytest.mark.parametrize("bin_size", [(10.0, 10.0), (float("nan"), 10.0), None])
def test_lines_far_apart_share_no_surface(bin_size):
    """A plane on two lines and on five lines 100 numbers away gives two surfaces."""
    volume = far_apart(empty_volume(), bin_size)
    sticks = plane_sticks(0, 60, lines=[4, 5, 106, 107, 108, 109, 110])
    assert join_sticks(sticks, volume)["surface"].nunique() == 2
    picked = {"inline": [4, 5, 6, 7, 8, 9, 10]}
    assert sorted(join_sticks(sticks, volume, picked=picked).groupby("surface")["inline"].nunique()) == [2, 5]
    near = empty_volume()
    alone = join_sticks(plane_sticks(0, 60, lines=[4, 5]), near, picked={"inline": range(20)})
    assert not len(alone)  # without a gap, a surface on two lines is too small


def test_lines_far_apart_do_not_support_each_other():
    """A copy of a line 100 numbers away does not change the sticks of the line."""
    volume, _ = volume_with_planes((1, 96, 96), seed=3, count=2, azimuth=20)
    axes = {name: volume[name].values for name in volume.dims} | {"inline": [0, 100]}
    twice = xr.DataArray(np.repeat(volume.values, 2, axis=0), axes, attrs=volume.attrs)
    alone, both = oc.fault_sticks(volume), oc.fault_sticks(twice)
    assert both["surface"].nunique() == 2 * alone["surface"].nunique()
    for line in (0, 100):
        mine = both[both["inline"] == line].groupby("stick")["crossline"].sum()
        np.testing.assert_allclose(sorted(mine), sorted(alone.groupby("stick")["crossline"].sum()))


# ---- files ----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def survey(tmp_path_factory):
    """Return a SEG-Y survey that is rotated by 30 degrees, and sticks in it."""
    path = tmp_path_factory.mktemp("survey") / "turned.sgy"
    inlines, crosslines, times = np.arange(100, 112), np.arange(300, 330), np.arange(0, 256, 4.0)
    with segy_write.create(path, inlines, crosslines, times, bin_size=(25.0, 12.5)) as write:
        for row in range(len(inlines)):
            write(row, np.ones((len(crosslines), len(times)), np.float32))
    turn_headers(path, np.deg2rad(30), (430000.0, 6780000.0))
    volume = oc.open_volume(path)
    rng = np.random.default_rng(0)
    rows = []
    for stick in range(6):
        for time in np.arange(20, 200, 36.0):
            rows.append((stick // 3, stick, 101 + stick, 305 + stick + rng.random(), time, rng.random()))
    return volume, pd.DataFrame(rows, columns=["surface", "stick", "inline", "crossline", "time", "likelihood"])


def turn_headers(path, turn, origin):
    """Rotate the coordinates of a file about the first trace and move them, in centimetres."""
    geometry = segy.scan(path)
    kind = np.dtype([("header", "V240"), ("samples", f"V{4 * geometry.layout.n_samples}")])
    traces = np.memmap(path, kind, "r+", offset=geometry.layout.start)
    headers = np.frombuffer(traces["header"].tobytes(), segy_headers.trace_dtype(">")).copy()
    x, y = headers["cdp_x"] / 100, headers["cdp_y"] / 100
    headers["cdp_x"] = np.rint(100 * (origin[0] + x * np.cos(turn) - y * np.sin(turn)))
    headers["cdp_y"] = np.rint(100 * (origin[1] + x * np.sin(turn) + y * np.cos(turn)))
    traces["header"] = np.frombuffer(headers.tobytes(), "V240")
    traces.flush()


def test_coordinates_come_from_the_headers(survey):
    """X and Y of a rotated survey, with scalars applied, are right to a centimetre."""
    volume, _ = survey
    grid = map_grid(volume)
    assert grid.source == "trace headers"
    x, y = grid.to_map([101], [303])
    away = np.array([3 * 12.5, 25.0])
    turn = np.deg2rad(30)
    expected = (
        430000 + away[0] * np.cos(turn) - away[1] * np.sin(turn),
        6780000 + away[0] * np.sin(turn) + away[1] * np.cos(turn),
    )
    assert (x[0], y[0]) == pytest.approx(expected, abs=0.01)


def test_surveys_in_feet_have_dips_and_areas_in_metres(tmp_path):
    """A plane in a survey with bins of 25 ft has the dip and area of the plane in metres; X and Y stay in feet."""
    foot, path = 0.3048, tmp_path / "feet.sgy"
    inlines, crosslines, depths = np.arange(20), np.arange(120), np.arange(0, 600, 10.0)
    with segy_write.create(path, inlines, crosslines, depths, bin_size=(25.0, 25.0)) as write:
        for row in range(len(inlines)):
            write(row, np.ones((len(crosslines), len(depths)), np.float32))
    with open(path, "r+b") as file:
        file.seek(3254)
        file.write((2).to_bytes(2, "big"))
    volume = oc.open_volume(path, domain="depth")
    assert volume.attrs["bin_size"] == (7.62, 7.62)
    metres = empty_volume().assign_attrs(bin_size=(25 * foot, 25 * foot))
    sticks = plane_sticks(20, 60)
    found, expected = (surface_table(join_sticks(sticks, one), one) for one in (volume, metres))
    for name in ("strike", "dip", "area"):
        assert found[name][0] == pytest.approx(expected[name][0], rel=1e-3)
    assert map_grid(volume).to_map([2], [4])[0] == pytest.approx(100)


def bent_line(path):
    """Return a 2-D line that turns north after its tenth trace, with X and Y in decimetres and no inline numbers."""
    numbers, times = np.arange(1, 31), np.arange(0, 256, 4.0)
    with segy_write.create(path, [0], numbers, times) as write:
        write(0, np.random.default_rng(0).standard_normal((len(numbers), len(times))).astype(np.float32))
    geometry = segy.scan(path)
    kind = np.dtype([("header", "V240"), ("samples", f"V{4 * geometry.layout.n_samples}")])
    traces = np.memmap(path, kind, "r+", offset=geometry.layout.start)
    headers = np.frombuffer(traces["header"].tobytes(), segy_headers.trace_dtype(">")).copy()
    east, north = np.minimum(numbers, 10) * 12.5, np.maximum(numbers - 10, 0) * 12.5
    headers["scalar"], headers["source_x"], headers["source_y"] = -10, 0, 0
    headers["cdp_x"], headers["cdp_y"] = 10 * (500_000 + east), 10 * (6_000_000 + north)
    traces["header"] = np.frombuffer(headers.tobytes(), "V240")
    traces.flush()
    return oc.open_volume(path)


@pytest.mark.parametrize("suffix", [".csv", ".dat", ".pol"])
def test_sticks_of_a_2d_line_have_the_coordinates_of_its_traces(tmp_path, suffix):
    """X and Y lie on the bent line, and the file is read back to a hundredth of a trace."""
    volume = bent_line(tmp_path / "line.sgy")
    points = {"surface": 0, "stick": 0, "inline": 0, "crossline": [9.0, 9.5, 20.25], "time": [20.0, 60.0, 100.0]}
    sticks = pd.DataFrame(points).assign(likelihood=0.5)
    grid = map_grid(volume)
    x, y = grid.to_map(sticks["inline"], sticks["crossline"])
    np.testing.assert_allclose(x, [500_112.5, 500_118.75, 500_125.0])
    np.testing.assert_allclose(y, [6_000_000, 6_000_000, 6_000_128.125])
    assert np.isnan(grid.to_lines([500_300.0], [6_000_000.0])[1]).all()
    path = tmp_path / f"sticks{suffix}"
    write_sticks(sticks, path, volume)
    back = read_sticks(path, volume)
    np.testing.assert_allclose(
        back[["inline", "crossline", "time"]], sticks[["inline", "crossline", "time"]], atol=0.01
    )


@pytest.mark.parametrize("suffix", [".dat", ".charisma", ".pol"])
def test_line_numbers_in_place_of_coordinates_give_a_warning(tmp_path, suffix):
    """Sticks of a volume without coordinates are written with line numbers as X and Y, and a warning."""
    volume = empty_volume().drop_attrs()
    sticks = join_sticks(plane_sticks(0, 60), volume)
    with pytest.warns(UserWarning, match="crossline and inline numbers in place of X and Y"):
        write_sticks(sticks, tmp_path / f"sticks{suffix}", volume)
    write_sticks(sticks, tmp_path / "sticks.csv", volume)
    assert not {"x", "y"} & set(pd.read_csv(tmp_path / "sticks.csv").columns)


def test_a_selection_has_the_coordinates_of_its_survey(survey):
    """Lines selected from a survey keep X and Y, also a single line."""
    volume, _ = survey
    x, y = map_grid(volume).to_map([105, 107], [311, 312])
    for part in (volume[3:9, 5:], volume[5:6]):
        np.testing.assert_allclose(map_grid(part).to_map([105, 107], [311, 312]), (x, y), atol=0.01)
        np.testing.assert_allclose(trace_coordinates(part, [105], [311]), (x[:1], y[:1]), atol=0.01)


@pytest.mark.parametrize("suffix", [".csv", ".dat", ".charisma"])
def test_files_are_read_back(survey, suffix, tmp_path):
    """Sticks, surfaces and positions are equal after writing and reading, to a hundredth of a trace."""
    volume, sticks = survey
    path = tmp_path / f"sticks{suffix}"
    write_sticks(sticks, path, volume)
    back = read_sticks(path, volume)
    pd.testing.assert_frame_equal(
        back[["surface", "stick", "inline", "crossline", "time"]],
        sticks[["surface", "stick", "inline", "crossline", "time"]],
        check_dtype=False,
        atol=0.01,
        rtol=0,
    )


def test_irap_lines_are_read_by_another_package(survey, tmp_path):
    """Xtgeo reads one polygon for each stick from IRAP classic lines, with the same X, Y and Z."""
    xtgeo = pytest.importorskip("xtgeo")
    volume, sticks = survey
    write_sticks(sticks, tmp_path / "sticks.pol", volume)
    table = xtgeo.polygons_from_file(str(tmp_path / "sticks.pol"), fformat="pol").get_dataframe()
    x, y = map_grid(volume).to_map(sticks["inline"], sticks["crossline"])
    np.testing.assert_allclose(table.iloc[:, :3].to_numpy(float), np.column_stack([x, y, sticks["time"]]), atol=0.006)
    assert table["POLY_ID"].tolist() == sticks["stick"].tolist()


def test_irap_lines_are_read_back(survey, tmp_path):
    """Sticks and positions are read back; the format has no surfaces."""
    volume, sticks = survey
    write_sticks(sticks, tmp_path / "sticks.pol", volume)
    back = read_sticks(tmp_path / "sticks.pol", volume)
    names = ["stick", "inline", "crossline", "time"]
    np.testing.assert_allclose(back[names], sticks[names], atol=0.01)
    assert (back["surface"] == 0).all()


def test_charisma_columns(survey, tmp_path):
    """A point has the columns INLINE-, inline, crossline, X, Y, Z, fault and stick, as other readers expect."""
    volume, sticks = survey
    write_sticks(sticks, tmp_path / "a.charisma", volume)
    names = ["mark", "inline", "crossline", "x", "y", "z", "fault", "stick"]
    table = pd.read_csv(tmp_path / "a.charisma", sep=r"\s+", names=names)
    x, y = map_grid(volume).to_map(sticks["inline"], sticks["crossline"])
    assert (table["mark"] == "INLINE-").all() and table["fault"].nunique() == 2
    np.testing.assert_allclose(table[["x", "y", "z"]], np.column_stack([x, y, sticks["time"]]), atol=0.006)


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("a.csv", "a,b\n1,2\n", "no column stick"),
        ("a.csv", "", "not csv"),
        ("a.csv", "stick,inline,crossline,time\n0,x,1,2\n", "without inline"),
        ("a.dat", "1 2 3\n", "Row 1 of"),
        ("a.dat", "# nothing\n", "no points"),
        ("a.charisma", "PROFILE 1 2 3 4 5 a 1\n", "INLINE-"),
        ("a.pol", "1 2\n", "Row 1 of"),
        ("a.pol", "999 999 999\n", "no points"),
        ("a.xyz", "1 2 3 4\n", "format"),
    ],
)
def test_bad_files_are_refused_in_one_line(survey, tmp_path, name, text, words):
    """A file in a wrong format gives an error of one line that names the problem."""
    (tmp_path / name).write_text(text)
    with pytest.raises(ValueError, match=words) as error:
        read_sticks(tmp_path / name, survey[0])
    assert "\n" not in str(error.value)


def test_binary_file_is_refused(survey, tmp_path):
    """A binary file gives an error."""
    (tmp_path / "a.dat").write_bytes(bytes(range(128, 256)))
    with pytest.raises(ValueError, match="not text"):
        read_sticks(tmp_path / "a.dat", survey[0])


def test_scores_count_pixels(survey):
    """Sticks scored against themselves have F1 1, moved by five traces F1 0, and half of them half the recall."""
    volume, sticks = survey
    assert stick_scores(sticks, sticks, volume)["F1"] == 1
    assert stick_scores(sticks.assign(crossline=sticks["crossline"] + 5), sticks, volume)["F1"] == 0
    half = stick_scores(sticks[sticks["stick"] < 3], sticks, volume)
    assert half["precision"] == 1 and half["recall"] == pytest.approx(0.5, abs=0.03)


def test_interpreter_of_another_survey():
    """Great South Basin, crossline 2600: F1 within 3 pixels of an interpreter's 18 sticks; .85 when written."""
    folder = Path(os.environ.get("OUTCROP_DATA", "")) / "gsb"
    if not (folder / "sticks.csv").is_file():
        pytest.skip("needs OUTCROP_DATA with gsb")
    _, volume, human, along = next(part for part in gsb_sections(folder) if part[0] == "crl_2600")
    assert stick_scores(oc.fault_sticks(volume, along=along), human, volume)["F1"] > 0.8


def test_sticks_are_drawn(picked):
    """The figure has a line for each stick of its section, and the frame of the section."""
    volume, _, sticks = picked
    here = sticks[sticks["inline"] == 5]
    ax = oc.plots.sticks(volume.sel(inline=5), sticks)
    assert len(ax.lines) == here["stick"].nunique() > 0
    assert ax.get_ylim()[0] > ax.get_ylim()[1]


def test_a_volume_without_data_is_refused():
    """A volume of zeros is refused instead of giving no sticks."""
    with pytest.raises(ValueError, match="No trace of these lines is live"):
        oc.fault_sticks(oc.open_volume(np.zeros((2, 80, 96), np.float32)))


def test_stick_numbers_that_restart_on_every_section_are_different_sticks(tmp_path, survey):
    """In a csv with a column `section`, equal stick numbers on two sections name two sticks."""
    volume = survey[0]
    lines, trace, times = volume["inline"].values[:2], volume["crossline"].values[5], volume["time"].values[[2, 20]]
    rows = [
        {"section": f"i{line}", "stick": 0, "inline": line, "crossline": trace, "time": t}
        for line in lines
        for t in times
    ]
    pd.DataFrame(rows).to_csv(tmp_path / "sticks.csv", index=False)
    assert read_sticks(tmp_path / "sticks.csv", volume)["stick"].tolist() == [0, 0, 1, 1]


def test_sticks_keep_their_numbers(survey):
    """Sticks keep their numbers in another order and without one of them; a new stick has the next number."""
    volume = survey[0]
    lines, traces, times = volume["inline"].values, volume["crossline"].values, volume["time"].values
    points = [
        {
            "surface": 0,
            "stick": k,
            "inline": lines[k % 2],
            "crossline": traces[6 * k] + i,
            "time": times[1 + 4 * i],
        }
        for k in range(4)
        for i in range(3)
    ]
    before = pd.DataFrame(points).assign(likelihood=1.0)
    after = before[before["stick"] != 1].assign(stick=lambda t: t["stick"].map({0: 2, 2: 1, 3: 0}))
    new = before[before["stick"] == 1].assign(stick=3, crossline=lambda t: t["crossline"] + 60)
    found = numbered_as(pd.concat([after, new]), before, volume)
    assert found["stick"].tolist() == [0] * 3 + [2] * 3 + [3] * 3 + [4] * 3


def test_a_truth_outside_the_volume_is_refused(survey):
    """Sticks of another survey give an error instead of a score of zero."""
    volume = survey[0]
    far = pd.DataFrame({"surface": 0, "stick": 0, "inline": [9000, 9000], "crossline": [1, 2], "time": [0, 40]})
    with pytest.raises(ValueError, match="No true stick lies in the volume"):
        stick_scores(far, far, volume)


def test_dip_and_area_need_metres():
    """Without a bin size strike, dip and area are missing."""
    volume, _ = oc.datasets.synthetic((8, 120, 120), seed=0)
    bare = oc.open_volume(volume.values)
    assert surface_table(oc.fault_sticks(bare), bare)[["strike", "dip", "area"]].isna().all(axis=None)


def test_every_column_of_a_csv_is_documented(survey, tmp_path):
    """The page on faults describes all columns, also direction and acceptance of a stick."""
    volume, sticks = survey
    write_sticks(sticks.assign(along="inline", accepted=True), tmp_path / "s.csv", volume)
    page = (Path(__file__).parents[1] / "docs" / "faults.md").read_text(encoding="utf-8")
    row = next(line for line in page.splitlines() if line.startswith("| csv (`.csv`)"))
    assert set(pd.read_csv(tmp_path / "s.csv").columns) <= set(re.findall(r"\w+", row))
