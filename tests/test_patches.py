"""Patches cover every sample, skip missing traces, have correct positions, and stitch back to the section."""

import pickle

import numpy as np
import pandas as pd
import pytest
import reference
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st

from outcrop import PatchGrid
from outcrop.patches.gain import quiet, sliding_rms
from outcrop.patches.gaps import GAP
from outcrop.patches.windows import patch_starts, stitch


def coded(shape=(6, 50, 60), *, missing=None, scaled=True):
    """Return a volume whose values encode their positions, scaled to [0, 1]."""
    i, x, t = np.meshgrid(*(np.arange(n) for n in shape), indexing="ij")
    values = ((100 + 2 * i) + (300 + x) / 1000 + t / 1e6).astype(np.float64) / 200
    live = np.ones(shape[:2], bool)
    if missing is not None:
        live[missing] = False
    values[~live] = np.nan
    coords = {
        "inline": 100 + 2 * np.arange(shape[0]),
        "crossline": 300 + np.arange(shape[1]),
        "time": 4.0 + 4 * np.arange(shape[2]),
        "live": (("inline", "crossline"), live),
    }
    return xr.DataArray(values, coords=coords, dims=("inline", "crossline", "time"), attrs={"scaled": scaled})


def noise(shape=(2, 40, 80), scale=1000.0):
    """Return a volume of raw random amplitudes."""
    values = np.random.default_rng(0).normal(scale=scale, size=shape).astype(np.float32)
    coords = {"inline": np.arange(shape[0]), "crossline": np.arange(shape[1]), "time": 4.0 * np.arange(shape[2])}
    return xr.DataArray(values, coords=coords, dims=("inline", "crossline", "time"))


@given(st.integers(1, 200), st.integers(1, 200), st.integers(1, 200))
def test_starts_cover_every_sample(length, size, step):
    """Patches cover every sample if the step is at most their size; the last patch touches the end."""
    if size > length:
        with pytest.raises(ValueError, match="exceeds"):
            patch_starts(length, size, step)
        return
    starts = patch_starts(length, size, step)
    assert starts[0] == 0
    assert starts[-1] + size == length
    covered = {i for start in starts for i in range(start, start + size)}
    assert len(covered) == length or step > size


@pytest.mark.parametrize("options", [{}, {"along": "both"}, {"sample": 60}, {"every": 2, "step": 5}])
def test_starts_of_rows_equal_those_of_the_whole_plan(options):
    """Rows by number, slice or mask have the starts and centres of the whole plan, and are found by their starts."""
    rng, volume = np.random.default_rng(0), coded((30, 50, 60), missing=(1, 20))
    grid = PatchGrid(volume, size=24, **{"step": 9, **options})
    mask = rng.random(len(grid)) < 0.1
    for rows in (rng.integers(0, len(grid), 40), slice(7, 90, 3), mask, np.array([-1]), np.array([], int)):
        starts = grid.starts[rows]
        np.testing.assert_array_equal(grid.places(rows), starts)
        assert grid.centres(rows).equals(grid.table.iloc[rows].reset_index(drop=True))
        np.testing.assert_array_equal(grid.rows_at(starts), np.arange(len(grid))[rows])
        np.testing.assert_array_equal(grid.take(rows).starts, starts)
    assert grid.rows_at(grid.starts[:1] + [[0, 0, 0, 500]]).tolist() == [-1]
    for direction, line, rows in grid.lines():
        assert (grid.starts[rows, :2] == (direction, line)).all()
    with pytest.raises(IndexError):
        grid.places([len(grid)])


@pytest.mark.parametrize("options", [{}, {"sample": 60}])
def test_a_pickled_plan_stays_the_same(options):
    """A whole plan, a part, a part of a part and an empty part are equal after pickling."""
    volume = coded((30, 50, 60))
    grid = PatchGrid(volume, size=24, step=9, **options)
    part = grid.take([7, 3, 50])
    for plan in (grid, part, part.take([2, 0]), grid.take([])):
        again = pickle.loads(pickle.dumps(plan))
        np.testing.assert_array_equal(again.starts, plan.starts)
        assert again.table.equals(plan.table)
        assert list(again.lines()) == list(plan.lines())
        np.testing.assert_array_equal(again.extract(volume, slice(None)), plan.extract(volume, slice(None)))
    assert len(pickle.dumps(grid)) < len(pickle.dumps(volume)) + 5000


@pytest.mark.parametrize("along", ["inline", "crossline", "both"])
def test_patch_holds_the_samples_its_table_names(along):
    """The centre sample of every patch is the value of the volume at the position in the table; time is downwards."""
    volume = coded((45, 50, 60))
    grid = PatchGrid(volume, size=(40, 36), step=9, along=along, every=7)
    patches = grid.extract(volume, slice(None))
    assert patches.shape == (len(grid), 40, 36)
    for patch, row in zip(patches, grid.table.itertuples(), strict=True):
        at = volume.sel(inline=row.inline, crossline=row.crossline, time=row.time)
        assert patch[20, 18] == pytest.approx(float(at), abs=1e-6)
        below = volume.sel(inline=row.inline, crossline=row.crossline, time=row.time + 4)
        assert patch[21, 18] == pytest.approx(float(below), abs=1e-6)


def test_f3_at_step_33_has_210924_patches():
    """The paper's survey has 651 inlines, 951 crosslines and 462 samples; every line is used."""
    lazy = xr.DataArray(np.broadcast_to(np.float32(0), (651, 951, 462)), dims=("inline", "crossline", "time"))
    lazy = lazy.assign_coords({name: np.arange(n) for name, n in lazy.sizes.items()})
    assert len(PatchGrid(lazy, size=99, step=33)) == 210_924


def test_skips_missing_traces_and_counts_them():
    """No patch contains a long gap, each live run is covered to its end, and patches left out are counted."""
    volume = coded((3, 100, 60), missing=(1, slice(40, 46)))
    grid = PatchGrid(volume, size=32, step=10)
    assert np.isfinite(grid.extract(volume, slice(None))).all()
    on_gap = grid.starts[grid.starts[:, 1] == 1]
    assert {0, 8, 46, 68} <= set(on_gap[:, 2])
    assert grid.left_out > 0
    assert PatchGrid(coded((3, 100, 60)), size=32, step=10).left_out == 0


def holed(shape=(9, 60, 40), *, share=0.2, seed=0, mark=True):
    """Return a volume of noise with gaps of 1 to 9 traces, and with a line that has one trace."""
    rng, live = np.random.default_rng(seed), np.ones(shape[:2], bool)
    for line, trace in np.argwhere(rng.random(shape[:2]) < share / 5):
        live[line, trace : trace + rng.integers(1, 10)] = False
    live[2], live[2, 7], live[4] = False, True, False
    volume = noise(shape)
    volume.values[~live] = np.nan if seed % 2 else 0.0
    return volume.assign_coords(live=(("inline", "crossline"), live)) if mark else volume, live


@pytest.mark.parametrize("along", ["inline", "crossline"])
@pytest.mark.parametrize("gain", ["volume", "agc:80"])
@pytest.mark.parametrize("seed", range(4))
def test_short_gaps_are_bridged(along, gain, seed):
    """Sections and patches equal those of a volume whose gaps the slow twin filled; other gaps have no patches."""
    volume, live = holed(seed=seed)
    direction, filled = int(along == "crossline"), volume.copy().drop_vars("live")
    for line in range(volume.shape[direction]):
        key = line if direction == 0 else (slice(None), line)
        filled[key] = reference.bridge(volume[key].values, live[key], GAP)
    options = {"size": (16, 6), "step": (12, 2), "along": along, "gain": gain, "clip": 2000.0}
    grid, whole = PatchGrid(volume, **options), PatchGrid(filled, **options)
    for line in range(volume.shape[direction]):
        section, marked = grid.section(volume, direction, line)
        np.testing.assert_allclose(section, whole.section(filled, direction, line)[0], atol=1e-5)
        np.testing.assert_array_equal(marked, live[line] if direction == 0 else live[:, line])
    np.testing.assert_allclose(grid.extract(volume, slice(None)), whole.cut(filled, grid.starts), atol=1e-5)
    one_by_one = [grid.cut(volume, start)[0] for start in grid.starts]
    np.testing.assert_allclose(one_by_one, whole.cut(filled, grid.starts), atol=1e-5)
    bridged = filled.assign_coords(live=filled.notnull().all("time"))  # without short gaps
    np.testing.assert_array_equal(grid.starts, PatchGrid(bridged, **options).starts)
    assert np.isfinite(grid.extract(volume, slice(None))).all()


def test_single_missing_traces_change_no_plan():
    """Single missing traces change neither the plan nor the patches left out, on a lattice and at random."""
    volume = coded((20, 100, 60), missing=np.random.default_rng(1).random((20, 100)) < 0.01)
    volume.coords["live"][:, [0, -1]], volume.coords["live"][[0, -1]] = True, True  # a rim cannot be bridged
    for options in ({}, {"along": "crossline", "size": 16}, {"sample": 50}):
        options = {"size": 32, "step": 8} | options
        grid, whole = PatchGrid(volume, **options), PatchGrid(coded((20, 100, 60)), **options)
        np.testing.assert_array_equal(grid.starts, whole.starts)
        assert grid.left_out == whole.left_out == 0


def test_nan_traces_stay_without_the_coordinate_live():
    """Without the coordinate `live` nothing is bridged: patches and sections have the NaN of the volume."""
    volume, live = holed(mark=False, seed=1)
    grid = PatchGrid(volume, size=16, step=8)
    patches = grid.extract(volume, slice(None))
    for patch, (_, line, trace, _) in zip(patches, grid.starts, strict=True):
        np.testing.assert_array_equal(np.isfinite(patch).all(axis=0), live[line, trace : trace + 16])
    section, alive = grid.section(volume, 0, 0)
    np.testing.assert_array_equal(alive, live[0])
    np.testing.assert_array_equal(np.isfinite(section).all(axis=1), live[0])


def test_a_section_under_gain_patch_is_in_range():
    """The whole line is scaled by its RMS at any gain; missing traces stay missing."""
    volume, _ = holed()
    sections = [PatchGrid(v, size=16, gain="patch").section(v, 0, 0)[0] for v in (volume, 50 * volume)]
    np.testing.assert_allclose(*sections, atol=1e-5)
    assert np.nanmin(sections[0]) >= 0 and np.nanmax(sections[0]) <= 1 and np.nanstd(sections[0]) > 0.1


def test_live_lines_have_a_live_trace():
    """A line with one trace is live although no patch fits, an empty line is not; area and every apply."""
    volume, live = holed()
    grid = PatchGrid(volume, size=16, step=8)
    assert grid.live_lines().tolist() == [line for line in range(9) if live[line].any()]
    assert 2 in grid.live_lines() and 2 not in {line for _, line, _ in grid.lines()}
    part = PatchGrid(volume, size=16, every=2, area={"crossline": (20, 59)})
    assert part.live_lines().tolist() == [line for line in range(0, 9, 2) if live[line, 20:].any()]
    assert PatchGrid(volume, size=(16, 4), along="crossline").live_lines().tolist() == list(range(60))
    with pytest.raises(ValueError, match="both"):
        PatchGrid(volume, size=(16, 4), along="both").live_lines()


def test_area_of_interest_holds_every_patch():
    """Patches lie entirely between the limits, ends included."""
    volume = coded((10, 80, 90))
    grid = PatchGrid(volume, size=32, step=8, area={"inline": (104, 108), "crossline": (310, 360), "time": (40, 300)})
    assert set(grid.table.inline) == {104, 106, 108}
    assert grid.table.crossline.between(310 + 16, 360 - 15).all()
    assert grid.table.time.between(40 + 16 * 4, 300 - 15 * 4).all()
    with pytest.raises(ValueError, match="No inline lies"):
        PatchGrid(volume, size=32, area={"inline": (900, 950)})
    with pytest.raises(ValueError, match="names 'depth'"):
        PatchGrid(volume, size=32, area={"depth": (0, 1)})


def test_between_horizons(tmp_path):
    """Centres lie between the two horizons; traces without a pick have no patch."""
    volume = coded((4, 60, 120))
    for name, time in (("top.txt", 150), ("base.txt", 250)):
        picks = [f"{i} {x} {time + (x - 300) / 10}" for i in (100, 102) for x in range(300, 360)]
        (tmp_path / name).write_text("# inline crossline time\n" + "\n".join(picks))
    grid = PatchGrid(volume, size=32, step=4, between=(tmp_path / "top.txt", tmp_path / "base.txt"))
    lean = (grid.table.crossline - 300) / 10
    assert set(grid.table.inline) == {100, 102}
    assert (grid.table.time >= 150 + lean).all()
    assert (grid.table.time <= 250 + lean).all()
    (tmp_path / "empty.txt").write_text("nothing here")
    with pytest.raises(ValueError, match="holds no point of a horizon"):
        PatchGrid(volume, size=32, between=(tmp_path / "top.txt", tmp_path / "empty.txt"))


@pytest.mark.parametrize("separator", [",", " "])
def test_columns_of_a_horizon_are_found_by_name(tmp_path, separator):
    """X and Y before the time, as in a csv file of Outcrop, are not read as line numbers; depth is not time."""
    volume, plain = coded((4, 60, 120)), []
    for name, time in (("top", 150), ("base", 250)):
        places = [(i, x, 4e5 + x, 6e6 + i, time) for i in (100, 102) for x in range(300, 360)]
        table = pd.DataFrame(places, columns=["inline", "crossline", "x", "y", "time"])
        table.to_csv(tmp_path / f"{name}.csv", index=False, sep=separator)
        plain.append(tmp_path / f"{name}.txt")
        table[["inline", "crossline", "time"]].to_csv(plain[-1], index=False, header=False, sep=" ")
        table.rename(columns={"time": "depth"}).to_csv(tmp_path / f"{name}-depth.csv", index=False, sep=separator)
    named = [path.with_suffix(".csv") for path in plain]
    expected, found = (PatchGrid(volume, size=32, step=4, between=paths) for paths in (plain, named))
    pd.testing.assert_frame_equal(found.table, expected.table)
    with pytest.raises(
        ValueError, match="has columns inline, crossline, x, y, depth; it needs inline, crossline, time"
    ):
        PatchGrid(volume, size=32, between=[tmp_path / f"{name}-depth.csv" for name in ("top", "base")])


def test_random_positions_depend_on_the_seed():
    """The requested number of patches, all different and on live traces, is the same for the same seed."""
    volume = coded((5, 90, 90), missing=(2, slice(30, 60)))
    grids = [PatchGrid(volume, size=32, sample=200, seed=seed) for seed in (1, 1, 2)]
    assert len(np.unique(grids[0].starts, axis=0)) == 200
    assert np.isfinite(grids[0].extract(volume, slice(None))).all()
    np.testing.assert_array_equal(grids[0].starts, grids[1].starts)
    assert not np.array_equal(grids[0].starts, grids[2].starts)


def test_stitched_patches_give_the_section():
    """The weighted mean of the patches of a section is the section."""
    volume = coded((2, 70, 80))
    grid = PatchGrid(volume, size=(40, 33), step=15)
    for direction, line, rows in grid.lines():
        section, weight = grid.stitch(grid.extract(volume, rows), rows)
        assert direction == 0
        assert (weight > 0).all()
        np.testing.assert_allclose(section, volume[line], atol=1e-6)


def test_stitch_leaves_uncovered_samples_at_weight_zero():
    """Outside all patches the weight is 0."""
    _, weight = stitch(np.ones((1, 2, 2, 3)), [(1, 1)], (4, 4))
    assert (weight > 0).sum() == 4


def test_exemplar_is_cut_at_its_position():
    """A position is the centre, on or off the grid; a patch at the rim is shifted inwards; one outside is refused."""
    volume = coded((6, 90, 90))
    grid = PatchGrid(volume, size=33, step=33)
    patch = grid.cut(volume, grid.start_at((104, 333, 4 + 4 * 41)))[0]
    assert patch[16, 16] == pytest.approx(float(volume.sel(inline=104, crossline=333, time=4 + 4 * 41)), abs=1e-6)
    with pytest.raises(ValueError, match="inline 1 is outside"):
        grid.start_at((1, 333, 200))
    assert grid.start_at((104, 301, 4 + 4 * 88)).tolist() == [0, 2, 0, 90 - 33]
    with pytest.raises(ValueError, match="no inline 101; the nearest one is"):
        PatchGrid(volume[::2], size=33).start_at((101, 333, 200))
    with pytest.raises(ValueError, match="2 numbers"):
        grid.start_at((104, 305))


def test_patches_do_not_depend_on_gain():
    """A volume twice as loud gives the same patches with every gain, a single louder patch with `patch` and `agc`."""
    volume = noise()
    loud = volume * np.where(np.arange(40) < 20, 1.0, 4.0).astype(np.float32)[:, None]
    for gain in ("volume", "patch", "agc:80"):
        first = PatchGrid(volume, size=32, step=8, gain=gain).extract(volume, slice(None))
        second = PatchGrid(volume * 2, size=32, step=8, gain=gain).extract(volume * 2, slice(None))
        np.testing.assert_allclose(first, second, atol=1e-5)
        assert first.min() >= 0
        assert first.max() <= 1
    far = PatchGrid(volume, size=(32, 16), step=8, gain="agc:80")
    right = np.flatnonzero(far.starts[:, 2] >= 20)
    np.testing.assert_allclose(far.extract(volume, right), far.extract(loud, right), atol=1e-5)
    with pytest.raises(ValueError, match="Gain 'loud' cannot be used"):
        PatchGrid(volume, size=32, gain="loud")
    with pytest.raises(ValueError, match="at least 3 samples"):
        PatchGrid(volume, size=32, gain="agc:4")


def test_sliding_rms_equals_its_definition():
    """The RMS is equal window by window; windows are shorter at the ends."""
    trace = np.random.default_rng(3).normal(size=(2, 50))
    fast = sliding_rms(trace, 7)
    slow = [[np.sqrt(np.mean(t[max(0, i - 3) : i + 4] ** 2)) for i in range(50)] for t in trace]
    np.testing.assert_allclose(fast, slow, rtol=1e-5)


def test_empty_patches_are_found():
    """Constant, zero and mostly muted patches are empty; noise and reflectors are not."""
    reflectors = 0.5 + 0.3 * np.sin(np.arange(40) / 3)[:, None] * np.ones(40)
    muted = reflectors.copy()
    muted[:25] = 0.5
    assert quiet(np.stack([np.full((40, 40), 0.7), np.full((40, 40), 0.5), muted, reflectors])).tolist() == [1, 1, 1, 0]


def test_invalid_options_are_refused():
    """Impossible sizes, steps, directions and positions give clear errors."""
    volume = coded()
    for wrong, message in [
        ({"size": 2000}, "exceeds"),
        ({"size": 0}, "size is 0"),
        ({"step": -3, "size": 32}, "step is -3"),
        ({"along": "time", "size": 32}, "'time' is unknown"),
        ({"every": 0, "size": 32}, "'every' is 0"),
    ]:
        with pytest.raises(ValueError, match=message):
            PatchGrid(volume, **wrong)
    with pytest.raises(ValueError, match="No patch"):
        PatchGrid(coded(missing=(slice(None), np.arange(50) % 20 < 6)), size=32)
