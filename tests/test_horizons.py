"""Files of horizons: X and Y equal those of another reader, files are read back, bad files are refused."""

import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import segyio
import xarray as xr

import outcrop as oc
from outcrop import plots
from outcrop.geometry.coordinates import trace_coordinates
from outcrop.geometry.horizons import (
    horizon_misfit,
    horizon_table,
    polylines,
    read_horizon,
    write_horizon,
)
from outcrop.job.sections import marked_sections
from outcrop.volumes import segy_write

INLINES, CROSSLINES, TIMES = 200 + 3 * np.arange(9), 1000 + 2 * np.arange(14), 40 + 4.0 * np.arange(60)
ANGLE, ORIGIN, STEPS = np.deg2rad(33), (431_250.0, 6_789_000.0), (37.5, 12.5)


def place(row, column):
    """Return X and Y, in metres, of a trace of a survey that is rotated by 33 degrees."""
    across, along = STEPS[0] * np.asarray(row), STEPS[1] * np.asarray(column)
    x = ORIGIN[0] + along * np.cos(ANGLE) - across * np.sin(ANGLE)
    return x, ORIGIN[1] + along * np.sin(ANGLE) + across * np.cos(ANGLE)


def survey(path, *, scalar=-100, words=(segyio.su.cdpx, segyio.su.cdpy), unit=1):
    """Return a SEG-Y volume whose headers segyio wrote, with coordinates in given words and with a scalar."""
    with segy_write.create(path, INLINES, CROSSLINES, TIMES) as write:
        for row in range(len(INLINES)):
            write(row, np.full((len(CROSSLINES), len(TIMES)), row, np.float32))
    factor = -scalar if scalar < 0 else 1 / (scalar or 1)
    with segyio.open(path, "r+", ignore_geometry=True) as file:
        for number in range(file.tracecount):
            x, y = place(*divmod(number, len(CROSSLINES)))
            zeros = {word: 0 for word in (segyio.su.cdpx, segyio.su.cdpy, segyio.su.sx, segyio.su.sy)}
            stored = {words[0]: round(x * factor), words[1]: round(y * factor)}
            more = {segyio.su.scalco: scalar, segyio.su.counit: unit}
            file.header[number].update({**zeros, **stored, **more})
    return oc.open_volume(path)


@pytest.fixture
def volume(tmp_path):
    """Return the survey with coordinates in centimetres."""
    return survey(tmp_path / "v.sgy")


@pytest.fixture
def top():
    """Return a tilted surface between samples, with a hole."""
    row, column = np.meshgrid(np.arange(2, 8), np.arange(3, 13), indexing="ij")
    values = 100.123 + 1.37 * row + 2.71 * column
    values[2, 4] = np.nan
    coords = {"inline": INLINES[2:8], "crossline": CROSSLINES[3:13]}
    return xr.DataArray(values, coords, name="time", attrs={"class": "salt dome", "body": 1, "side": "top"})


@pytest.mark.parametrize("scalar", [-100, -10, 1, 0, 10])
@pytest.mark.parametrize("words", [(segyio.su.cdpx, segyio.su.cdpy), (segyio.su.sx, segyio.su.sy)])
def test_coordinates_are_those_of_the_headers(tmp_path, scalar, words):
    """Scalars divide, multiply or have no effect; source coordinates are used if CDP coordinates are empty."""
    volume = survey(tmp_path / "v.sgy", scalar=scalar, words=words)
    rng = np.random.default_rng(0)
    rows, columns = rng.integers(0, len(INLINES), 40), rng.integers(0, len(CROSSLINES), 40)
    x, y = trace_coordinates(volume, INLINES[rows], CROSSLINES[columns])
    with segyio.open(tmp_path / "v.sgy", ignore_geometry=True) as file:
        for i, number in enumerate(rows * len(CROSSLINES) + columns):
            header = file.header[int(number)]
            factor = 1 / -scalar if scalar < 0 else scalar or 1
            assert (x[i], y[i]) == pytest.approx((header[words[0]] * factor, header[words[1]] * factor), abs=1e-6)
    near = {-100: 0.006, -10: 0.06, 1: 0.51, 0: 0.51, 10: 5.1}[scalar]  # half of a stored unit
    assert np.abs(np.array(place(rows, columns)) - [x, y]).max() < near


@pytest.mark.skipif("OUTCROP_DATA" not in os.environ, reason="needs the folder of real data, OUTCROP_DATA")
def test_real_headers_give_the_coordinates_that_segyio_reads():
    """Every 37th trace of F3, which has a scalar in every header, has the coordinates that segyio reads."""
    path = Path(os.environ["OUTCROP_DATA"]) / "segy" / "f3.sgy"
    volume = oc.open_volume(path)
    with segyio.open(path, ignore_geometry=True) as file:
        headers = [file.header[number] for number in range(0, file.tracecount, 37)]
        bytes_of = volume.attrs["header_bytes"]
        inlines, crosslines = (np.array([header[byte] for header in headers]) for byte in bytes_of)
        scalar = np.array([header[segyio.su.scalco] for header in headers], float)
        factor = np.where(scalar < 0, -1 / np.where(scalar < 0, scalar, 1), np.where(scalar == 0, 1, scalar))
        true = [factor * [header[word] for header in headers] for word in (segyio.su.cdpx, segyio.su.cdpy)]
    x, y = trace_coordinates(volume, inlines, crosslines)
    np.testing.assert_allclose([x, y], true, rtol=1e-12)
    assert np.ptp(x) > 100 and np.ptp(y) > 100


def test_irap_points_have_three_columns(tmp_path, volume, top):
    """The file has only three columns of numbers: X and Y to a centimetre, and Z downwards."""
    write_horizon(tmp_path / "top.poi", horizon_table(top, volume))
    points = [list(map(float, line.split())) for line in (tmp_path / "top.poi").read_text().splitlines()]
    rows, columns = np.nonzero(np.isfinite(top.values))
    x, y = place(rows + 2, columns + 3)
    np.testing.assert_allclose(points, np.column_stack([x, y, top.values[rows, columns]]), atol=0.011)


def test_xtgeo_reads_irap_points(tmp_path, volume, top):
    """Xtgeo reads the same points."""
    xtgeo = pytest.importorskip("xtgeo")
    table = horizon_table(top, volume)
    write_horizon(tmp_path / "top.poi", table)
    points = xtgeo.points_from_file(str(tmp_path / "top.poi"), fformat="poi").get_dataframe()
    np.testing.assert_allclose(points.iloc[:, :3].to_numpy(float), table[["x", "y", "time"]], atol=0.0051)


@pytest.mark.parametrize("name", ["top.poi", "top.csv"])
def test_horizons_are_read_back(tmp_path, volume, top, name):
    """Horizons are read back on the same traces, also from a file with X and Y only."""
    write_horizon(tmp_path / name, horizon_table(top, volume))
    found = read_horizon(tmp_path / name, volume)
    xr.testing.assert_allclose(on_grid(found), top.drop_attrs(), atol=5.1e-5)
    assert found.attrs["outside"] == 0
    misfit = horizon_misfit(top + 2.0, found)
    assert misfit["found"] == 1 and misfit["traces"] == 59
    assert [misfit[key] for key in ("mean", "median_absolute", "rms", "p95")] == pytest.approx([2] * 4, abs=1e-4)


def test_points_of_other_programs_are_understood(tmp_path, volume, top):
    """Z upwards, end-of-line marks, comments, points off the traces or survey, and a csv of X and Y are accepted."""
    table = horizon_table(top, volume)
    shift = np.random.default_rng(0).uniform(-4, 4, (2, len(table)))  # less than half of 12.5 m
    rows = [
        f"{x + dx} {y + dy} {-z}" for x, y, z, dx, dy in zip(table["x"], table["y"], table["time"], *shift, strict=True)
    ]
    text = "\n".join(["# made elsewhere", *rows, "999.0 999.0 999.0", f"{ORIGIN[0] - 900} {ORIGIN[1]} -120.0"])
    (tmp_path / "other.dat").write_text(text + "\n")
    found = read_horizon(tmp_path / "other.dat", volume)
    xr.testing.assert_allclose(on_grid(found), top.drop_attrs(), atol=1e-9)
    assert found.attrs["outside"] == 1
    table[["x", "y", "time"]].rename(columns=str.upper).to_csv(tmp_path / "xy.csv", index=False)
    assert read_horizon(tmp_path / "xy.csv", volume).equals(read_horizon_of(table, tmp_path / "lines.csv", volume))


def on_grid(horizon):
    """Return a horizon on its inlines and crosslines, NaN where it has no point."""
    return horizon.set_index(["inline", "crossline"])["time"].to_xarray()


def read_horizon_of(table, path, volume):
    """Return a horizon written by inline and crossline and read again."""
    table[["inline", "crossline", "time"]].to_csv(path, index=False)
    return read_horizon(path, volume)


def test_bad_files_are_refused_in_one_line(tmp_path, volume):
    """Every malformed file raises ValueError or OSError, with a message of one line that names the file."""
    rng = np.random.default_rng(0)
    bad = {
        "empty.poi": b"",
        "empty.csv": b"",
        "words.poi": b"this is not a horizon\n",
        "two.poi": b"1 2\n3 4\n",
        "ragged.poi": b"1 2 3\n4 5\n",
        "ends.poi": b"999 999 999\n",
        "nan.poi": b"nan nan nan\n",
        "binary.poi": rng.bytes(3000),
        "binary.csv": rng.bytes(3000),
        "names.csv": b"a,b,c\n1,2,3\n",
        "depth.csv": b"inline,crossline,depth\n200,1000,80\n",
        "rows.csv": b"inline,crossline,time\nx,y,z\n",
        "ragged.csv": b'inline,crossline,time\n1,2,3,4,5\n"1\n',
        "elsewhere.csv": b"inline,crossline,time\n1,2,80\n",
        "deep.csv": b"inline,crossline,time\n200,1000,99999\n",
        "elsewhere.poi": b"1 2 80\n",
    }
    for name, content in bad.items():
        (tmp_path / name).write_bytes(content)
        with pytest.raises(ValueError) as error:
            read_horizon(tmp_path / name, volume)
        assert name in str(error.value) and "\n" not in str(error.value), name
    with pytest.raises(OSError):
        read_horizon(tmp_path / "nowhere.csv", volume)


def test_surveys_without_coordinates_are_refused(tmp_path, top):
    """Arrays, angles and empty headers have no X and Y: the error proposes csv, which needs no coordinates."""
    array = oc.open_volume(
        xr.DataArray(np.zeros((9, 14, 60)), {"inline": INLINES, "crossline": CROSSLINES, "time": TIMES})
    )
    cases = [array, survey(tmp_path / "angles.sgy", unit=2), survey(tmp_path / "none.sgy", words=(1, 5))]
    for volume in cases:
        with pytest.raises(ValueError, match="write csv"):
            trace_coordinates(volume, INLINES[2:4], CROSSLINES[2:4])
    write_horizon(tmp_path / "top.csv", horizon_table(top))
    xr.testing.assert_allclose(on_grid(read_horizon(tmp_path / "top.csv", array)), top.drop_attrs())
    with pytest.raises(ValueError, match="needs X and Y"):
        write_horizon(tmp_path / "top.poi", horizon_table(top))
    assert not (tmp_path / "top.poi").exists()
    x, y = place(*np.meshgrid(np.arange(9), np.arange(14), indexing="ij"))
    known = array.assign_coords(cdp_x=(("inline", "crossline"), x), cdp_y=(("inline", "crossline"), y))
    assert trace_coordinates(known, INLINES[4:5], CROSSLINES[7:8]) == (x[4, 7], y[4, 7])
    with pytest.raises(ValueError, match="no crossline 1001"):
        trace_coordinates(known, [200], [1001])


def test_a_horizon_becomes_strokes(tmp_path, volume, top):
    """A horizon becomes a stroke on each requested line, over a hole of one trace; `Job.paint` accepts them."""
    found = read_horizon_of(horizon_table(top), tmp_path / "top.csv", volume)
    lines = polylines(found, lines=INLINES[[2, 4]])
    assert [len(points) for points in lines] == [10, 9]
    with oc.Job(tmp_path / "v.outcrop", volume=volume) as job:
        for points in lines:
            job.paint("top salt", points, radius=1)
        painted = marked_sections(job, job.plan)[0]
    assert set(painted) == {(0, 2), (0, 4)}
    samples = np.rint((top.values[0] - TIMES[0]) / 4).astype(int)
    assert painted[0, 2][np.arange(3, 13), samples].all()
    assert [len(points) for points in polylines(found, "crossline", gap=1)][:2] == [6, 6]
    assert len(polylines(found, gap=1)) == 7


@pytest.mark.parametrize("direction", ["inline", "crossline"])
def test_tops_are_drawn_on_sections_they_cross(volume, top, direction):
    """A top is drawn at its times on a section that it crosses, and not on a section outside it."""
    number = {"inline": INLINES[4], "crossline": CROSSLINES[7]}[direction]
    ax = plots.horizons(volume.sel({direction: number}), [top])
    drawn = ax.lines[0].get_xydata()
    drawn = drawn[np.isfinite(drawn[:, 1])]
    here = top.sel({direction: number}).dropna(top.dims[direction == "inline"])
    np.testing.assert_allclose(drawn[:, 1], here.values)
    assert ax.get_legend().get_texts()[0].get_text() == "top of salt dome"
    outside = {"inline": INLINES[0], "crossline": CROSSLINES[0]}[direction]
    assert not plots.horizons(volume.sel({direction: outside}), [top]).lines
    assert plots.horizon_map(top).get_title("left") == "top of salt dome, body 1"


def test_missing_traces_have_no_coordinates(tmp_path, top):
    """A trace that is marked dead has no X and Y; IRAP files leave it out, csv keeps its time."""
    volume = survey(tmp_path / "v.sgy")
    with segyio.open(tmp_path / "v.sgy", "r+", ignore_geometry=True) as file:
        file.header[2 * len(CROSSLINES) + 3].update({segyio.su.trid: 2})
    volume = oc.open_volume(tmp_path / "v.sgy")
    table = horizon_table(top, volume)
    assert np.isnan(table["x"][0]) and np.isfinite(table["x"][1:]).all() and len(table) == 59
    write_horizon(tmp_path / "top.poi", table)
    assert len(np.loadtxt(tmp_path / "top.poi")) == 58
    write_horizon(tmp_path / "top.csv", table)
    assert len(pd.read_csv(tmp_path / "top.csv")) == 59
