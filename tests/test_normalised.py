"""Volumes from any source are normalised equally: axes, units, missing traces, zero amplitude."""

import struct

import numpy as np
import pytest
import xarray as xr
from PIL import Image

import outcrop as oc
from outcrop.patches.gain import agc_window
from outcrop.storage.stages import digest
from outcrop.volumes import segy, segy_headers, segy_write
from outcrop.volumes.amplitude import amplitude_clip
from outcrop.volumes.axes import nearest_position, position_of, positions_of, standard_axes
from outcrop.volumes.identity import _axes, identify, known_volume, untouched
from outcrop.volumes.lazy import live_traces
from outcrop.volumes.opening import open_volume
from outcrop.volumes.summary import describe


@pytest.fixture(scope="module")
def survey():
    """Return a synthetic survey of three lines."""
    return oc.datasets.synthetic((3, 80, 96), seed=2)[0]


@pytest.mark.parametrize("kind", ["array", "DataArray", "file", "seconds", "lazy"])
def test_a_normalised_volume_stays_the_same(tmp_path, survey, kind):
    """Opening a volume again returns the same object, without reading or converting it."""
    segy_path = tmp_path / "a.sgy"
    oc.datasets.write_synthetic(segy_path, (3, 80, 96), seed=2)
    sources = {"array": survey.values, "DataArray": survey, "file": segy_path, "lazy": open_volume(segy_path)[1:]}
    sources["seconds"] = survey.assign_coords(time=survey["time"] / 1000)
    volume = open_volume(sources[kind])
    assert open_volume(volume) is volume
    assert volume.variable._in_memory == (kind not in ("file", "lazy"))
    assert untouched(volume) == (kind == "file")


def test_a_file_in_another_order_or_type_is_computed(tmp_path):
    """A volume wrapped by `open_volume` is not a file: a job must not open the original file instead."""
    oc.datasets.write_synthetic(tmp_path / "a.sgy", (3, 80, 96), seed=2)
    volume = open_volume(tmp_path / "a.sgy")
    turned = open_volume(volume.transpose("time", "inline", "crossline"))
    assert turned.dims == volume.dims and not turned.variable._in_memory and not untouched(turned)
    assert identify(turned)["source"] == ""
    np.testing.assert_array_equal(turned.values, volume.values)


@pytest.mark.parametrize("kind", ["DataArray", "Zarr", "labels"])
def test_seconds_become_milliseconds_from_any_source(tmp_path, survey, kind):
    """An array, a Zarr file and labels in seconds have the times of the survey."""
    seconds = survey.assign_coords(time=survey["time"] / 1000)
    if kind == "Zarr":
        seconds.to_dataset(name="amplitude").to_zarr(tmp_path / "a.zarr", consolidated=False)
    found = standard_axes(seconds.to_dataset(name="label"))["label"] if kind == "labels" else None
    found = open_volume(tmp_path / "a.zarr" if kind == "Zarr" else seconds) if found is None else found
    np.testing.assert_array_equal(found["time"], survey["time"])
    assert agc_window("agc:200", seconds) == agc_window("agc:200", survey) == 50


def test_a_job_made_in_seconds_keeps_its_seconds(tmp_path, survey):
    """A folder of an earlier version with an axis in seconds opens in seconds, so that its decisions stay valid."""
    seconds = survey.assign_coords(time=survey["time"] / 1000)
    with oc.Job(tmp_path / "a.outcrop", volume=seconds) as job:
        job.add_exemplar("fault", (101, 340, 200))
        folder = job.path / "job.toml"
    text = folder.read_text()
    record = known_volume(tmp_path / "a.outcrop")
    folder.write_text(text.replace(record["axes"], digest(_axes(seconds))))
    with oc.Job(tmp_path / "a.outcrop", volume=seconds) as job:
        np.testing.assert_array_equal(job.volume["time"], seconds["time"])
        assert any("keeps it" in note for note in job.volume.attrs["notes"])
    with oc.Job(tmp_path / "new.outcrop", volume=seconds) as job:
        np.testing.assert_array_equal(job.volume["time"], survey["time"])


def test_missing_traces_of_an_array_are_known(survey):
    """Traces of NaN are missing traces, as in a SEG-Y file; single NaN samples are not."""
    values = survey.values.copy()
    values[1, 5], values[2, 7, 3] = np.nan, np.nan
    volume = open_volume(survey.copy(data=values))
    assert np.argwhere(~live_traces(volume)).tolist() == [[1, 5]]
    assert identify(volume)["digest"] != identify(open_volume(survey))["digest"]


@pytest.mark.parametrize("kind", ["bytes", "float", "segy"])
def test_data_without_negative_values_are_centred(tmp_path, survey, kind):
    """Data from 0 to 255 give the same patches and drift as the data around zero, and a note reports the offset."""
    limit = np.percentile(np.abs(survey.values), 99.9)
    codes = np.clip(np.rint(survey.values / limit * 127), -127, 127) * np.linspace(0.5, 1, 96)
    signed, unsigned = survey.copy(data=np.rint(codes).astype(np.float32)), np.rint(codes + 128).astype(np.uint8)
    if kind == "segy":
        axes = [survey[name].values for name in survey.dims]
        with segy_write.create(tmp_path / "a.sgy", *axes, format=16) as write:
            for row, section in enumerate(unsigned):
                write(row, section)
    source = (
        tmp_path / "a.sgy" if kind == "segy" else survey.copy(data=unsigned.astype("u1" if kind == "bytes" else "f4"))
    )
    volume, signed = open_volume(source), open_volume(signed)
    assert volume.attrs["offset"] == pytest.approx(128, abs=1) and "offset" not in signed.attrs
    assert any("128 is taken as zero" in note for note in volume.attrs["notes"])
    np.testing.assert_array_equal(volume.values, unsigned)  # amplitudes stay raw
    assert amplitude_clip(volume) == pytest.approx(amplitude_clip(signed), rel=0.02)
    for gain in ("volume", "patch", "agc:100"):
        ours, theirs = (oc.PatchGrid(one, size=33, gain=gain).extract(one, [0, 3]) for one in (volume, signed))
        np.testing.assert_allclose(ours, theirs, atol=0.02)
    assert describe(volume)["rms"]["drift_time"] == pytest.approx(describe(signed)["rms"]["drift_time"], abs=0.1)
    assert "offset" not in open_volume(volume.astype("f4") - 128).attrs  # the offset is determined again


def test_clipped_bytes_are_centred():
    """Amplitudes that are clipped at both ends of 0 to 255 have the offset 128, although many of them are 0."""
    amplitudes = np.random.default_rng(0).standard_normal((3, 40, 60)) * 200
    clipped = (np.rint(amplitudes) + 128).clip(0, 255).astype(np.uint8)
    assert (clipped == 0).mean() > 0.2
    assert oc.open_volume(clipped).attrs["offset"] == 128


def test_loud_traces_do_not_set_the_scale(survey):
    """If every seventh trace is 300 times louder, the scale hardly changes, and `info` counts the loud traces."""
    values = survey.values.copy()
    values[:, ::7] *= 300
    loud = open_volume(survey.copy(data=values))
    assert amplitude_clip(loud) == pytest.approx(amplitude_clip(survey), rel=0.05)
    facts = describe(loud)
    assert facts["amplitude"]["loud_traces"] == values[:, ::7].shape[0] * values[:, ::7].shape[1]
    assert any("times louder" in note for note in facts["notes"])
    assert describe(survey)["amplitude"]["loud_traces"] == 0


def test_dead_traces_are_counted_and_get_no_label(survey):
    """A trace with a single value is dead: `info` counts it, and sections do not list it as live."""
    values = survey.values.copy()
    values[1, [5, 9]] = 0
    volume = open_volume(survey.copy(data=values))
    assert describe(volume)["geometry"]["dead_traces"] == 2
    section, live = oc.PatchGrid(volume, size=32).section(volume, 0, 1)
    assert np.flatnonzero(~live).tolist() == [5, 9] and np.isfinite(section).all()


def test_only_the_area_of_interest_is_inside(survey):
    """Samples of a line outside the ranges of the area are not inside."""
    grid = oc.PatchGrid(survey, size=32, area={"crossline": (310, 360), "time": (40, 300)})
    inside = grid.inside(0, 1)
    assert inside.shape == (80, 96) and inside[10:61, 10:76].all() and inside.sum() == 51 * 66


def test_trace_header_extensions_are_read(tmp_path, survey):
    """SEG-Y of revision 2 with two additional headers per trace gives the same samples; its headers can be copied."""
    axes = [survey[name].values for name in survey.dims]
    with segy_write.create(tmp_path / "a.sgy", *axes) as write:
        for row, section in enumerate(survey.values):
            write(row, section)
    raw = (tmp_path / "a.sgy").read_bytes()
    opening = bytearray(raw[:3600])
    binary = np.frombuffer(opening, segy_headers.binary_dtype(), 1, 3200)
    binary["revision"], binary["extensions"], binary["long_samples"] = 2, 2, 96
    stride = 240 + 4 * 96
    traces = [raw[start : start + stride] for start in range(3600, len(raw), stride)]
    extended = b"".join(trace[:240] + bytes(480) + trace[240:] for trace in traces)
    (tmp_path / "b.sgy").write_bytes(opening + extended)
    volume = open_volume(tmp_path / "b.sgy")
    np.testing.assert_array_equal(volume.values, survey.values)
    with segy_write.create_like(tmp_path / "c.sgy", segy.scan(tmp_path / "b.sgy")) as write:
        for row, section in enumerate(survey.values):
            write(row, section)
    np.testing.assert_array_equal(open_volume(tmp_path / "c.sgy").values, survey.values)


def write_tiff(path, values):
    """Write a TIFF of 64-bit floating-point numbers, which Pillow does not support."""
    height, width = values.shape
    data = values.astype("<f8").tobytes()
    tags = [(256, width), (257, height), (258, 64), (259, 1), (262, 1), (273, 8), (277, 1), (278, height)]
    tags += [(279, len(data)), (339, 3)]
    entries = b"".join(struct.pack("<HHII", tag, 4, 1, value) for tag, value in tags)
    directory = struct.pack("<H", len(tags)) + entries + bytes(4)
    path.write_bytes(b"II*\0" + struct.pack("<I", 8 + len(data)) + data + directory)


@pytest.mark.parametrize("size", [4, 8])
def test_floating_point_pictures_are_amplitudes(tmp_path, survey, size):
    """A TIFF of 32 or 64 bits with numbers outside [0, 1] is not clipped."""
    values = survey.values[0].T
    if size == 8:
        write_tiff(tmp_path / "a.tif", values)
    else:
        Image.fromarray(values).save(tmp_path / "a.tif")
    volume = open_volume(tmp_path / "a.tif")
    np.testing.assert_array_equal(volume.values[0], values.T)
    assert volume.attrs["scaled"] is False
    Image.fromarray(np.linspace(0, 1, 12, dtype=np.float32).reshape(3, 4)).save(tmp_path / "b.tif")
    assert open_volume(tmp_path / "b.tif").attrs["scaled"] is True


def test_a_job_on_a_picture_opens_again(tmp_path, survey):
    """A job on a picture opens without naming the picture, also a job that was made from its array."""
    values = survey.values[0].T
    pixels = np.uint8(255 * (values - values.min()) / np.ptp(values))
    Image.fromarray(pixels).save(tmp_path / "p.png")
    oc.Job(tmp_path / "p.outcrop", volume=tmp_path / "p.png").close()
    with oc.Job(tmp_path / "p.outcrop") as job:
        np.testing.assert_allclose(job.volume.values[0], pixels.T / 255, atol=1e-6)
    as_array = open_volume(tmp_path / "p.png").load()
    oc.Job(tmp_path / "old.outcrop", volume=as_array).close()
    before = known_volume(tmp_path / "old.outcrop")
    oc.Job(tmp_path / "old.outcrop", volume=tmp_path / "p.png").close()
    after = known_volume(tmp_path / "old.outcrop")
    assert before["source"] == "" and after["source"].endswith("p.png") and before["digest"] == after["digest"]


def test_depth_can_be_declared(tmp_path):
    """`domain` sets time or depth of SEG-Y; a text header that states depth is used and reported."""
    oc.datasets.write_synthetic(tmp_path / "a.sgy", (2, 40, 64), seed=2)
    volume = open_volume(tmp_path / "a.sgy", domain="depth")
    assert volume.dims[2] == "depth" and float(volume.depth[1]) == 4.0 and not volume.attrs["notes"]
    axes = [np.arange(100, 102), np.arange(300, 310), 4.0 * np.arange(64)]
    with segy_write.create(tmp_path / "b.sgy", *axes, text="Domain: depth") as write:
        for row in range(2):
            write(row, np.full((10, 64), row - 0.5))
    for domain, expected in ((None, "depth"), ("time", "time")):
        volume = open_volume(tmp_path / "b.sgy", domain=domain)
        assert volume.dims[2] == expected and f"read as {expected}" in volume.attrs["notes"][0]


def test_positions_of_labels():
    """Positions of labels are found on any axis; a missing label is -1, or refused with the range of the axis."""
    rng = np.random.default_rng(0)
    axis = rng.permutation(np.arange(0, 300, 3))
    labels = rng.integers(-5, 305, 200)
    slow = [list(axis).index(label) if label in axis else -1 for label in labels]
    assert positions_of(axis, labels).tolist() == slow
    assert axis[position_of(axis, 6, "inline")] == 6
    with pytest.raises(ValueError, match=r"There is no inline 7; the volume has 0 to 297\."):
        position_of(axis, 7, "inline")
    assert nearest_position(np.array([0.0, 4.0, 8.0]), 5.9) == 1
    with pytest.raises(ValueError, match="time 11 is outside the volume, which has 0 to 8"):
        nearest_position(np.array([0.0, 4.0, 8.0]), 11, "time")


def test_an_axis_that_counts_samples_has_no_interval(survey):
    """Labels 0, 1, 2, ... without a unit give no sample interval, also after opening again."""
    volume = open_volume(survey.values)
    assert "sample_interval" not in open_volume(xr.DataArray(volume.values, volume.coords, volume.dims)).attrs


@pytest.mark.parametrize("lines", [[0, 2], slice(None, None, 2), np.array([2, 1, 0])])
def test_lines_picked_from_a_file_are_a_volume(tmp_path, lines):
    """A job on selected lines of a lazy volume reads these lines, by list, by step or in another order."""
    oc.datasets.write_synthetic(tmp_path / "a.sgy", (3, 80, 96), seed=2)
    part = open_volume(tmp_path / "a.sgy").isel(inline=lines)
    with oc.Job(tmp_path / "part.outcrop", volume=part) as job:
        assert job.status()["lines"]["total"] == part.sizes["inline"]
        np.testing.assert_array_equal(np.sort(job.volume["inline"]), np.sort(part["inline"]))


def test_a_job_on_an_array_in_seconds_is_in_milliseconds(survey, tmp_path):
    """Places and labels of the job are in ms, as for a file of the same survey."""
    seconds = survey.assign_coords(time=survey["time"] / 1000)
    with oc.Job(tmp_path / "s.outcrop", volume=seconds) as job:
        np.testing.assert_array_equal(job.volume["time"], survey["time"])
        job.add_exemplar("fault", (*(survey[name].values[1].item() for name in ("inline", "crossline")), 200))
        with pytest.raises(ValueError, match="time"):
            job.add_exemplar("fault", (survey["inline"].values[1].item(), survey["crossline"].values[1].item(), 20000))
        np.testing.assert_array_equal(job.labels["time"], survey["time"])


def test_a_picture_off_the_middle_grey_is_centred(tmp_path):
    """A picture in which zero amplitude is not the middle grey has an offset and the drift of its data, and says so."""
    volume, _ = oc.datasets.synthetic((1, 160, 128), seed=0)
    section = volume.values[0] * np.linspace(0.4, 1, 128)
    section[30, 40] = -1.5 * section.max()  # the grey of zero amplitude becomes light
    grey = (section - section.min()) / np.ptp(section)
    Image.fromarray(np.uint8(np.rint(255 * grey.T))).save(tmp_path / "p.png")
    picture = oc.open_volume(tmp_path / "p.png")
    assert picture.attrs["offset"] == pytest.approx(np.median(grey), abs=0.01)
    assert any("zero amplitude" in note for note in picture.attrs["notes"])
    drift = [describe(one)["rms"]["drift_time"] for one in (picture, oc.open_volume(section.T))]
    assert drift[0] == pytest.approx(drift[1], abs=0.5)
