"""Files of other programs: folders of lines, axes by name and unit, and unknown formats that are refused."""

import json
import os
import pickle
import struct
from pathlib import Path

import numpy as np
import pytest
import scipy.io
import xarray as xr
from PIL import Image

from outcrop import export_segy, plots
from outcrop.volumes import class_table, segy_write
from outcrop.volumes.lazy import live_traces
from outcrop.volumes.opening import open_volume
from outcrop.volumes.recognise import HDF5, REMEDIES, recognise
from outcrop.volumes.summary import describe, sample_unit

real_data = pytest.mark.skipif("OUTCROP_DATA" not in os.environ, reason="OUTCROP_DATA does not name the real data")


def noise(shape, seed=0):
    """Return a volume of noise."""
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def sgz():
    """Return the first bytes of an SGZ file: 2 header blocks, 52 x 40 x 20 samples, 8 bits, blocks of 4 x 4 x 256."""
    return struct.pack("<4i", 2, 52, 40, 20) + bytes(24) + struct.pack("<4i", 8, 4, 4, 256) + bytes(5000)


OPENINGS = {
    "VDS": ("v.vds", b"HueDataStore\0\0\x01\0" + bytes(9000)),
    "SGZ": ("v.sgz", sgz()),
    "old ZGY": ("v.zgy", b"VCS\0" + bytes(9000)),
    "CBVS": ("v.cbvs", b"dGB" + bytes(9000)),
    "HDF5": ("v.h5", HDF5 + bytes(9000)),
    "netCDF": ("v.nc", HDF5 + bytes(9000)),
    "MAT 7.3": ("v.mat", b"MATLAB 7.3 MAT-file".ljust(512) + HDF5 + bytes(9000)),
    "MAT": ("v.mat", b"MATLAB 5.0 MAT-file".ljust(9000)),
    "archive": ("v.sgy.gz", b"\x1f\x8b\x08" + bytes(9000)),
}


@pytest.mark.parametrize("name", OPENINGS)
@pytest.mark.parametrize("disguised", [False, True])
def test_other_formats_are_refused_with_name_and_remedy(tmp_path, outcrop, name, disguised):
    """Formats are recognised by their first bytes; the command line prints one sentence with exit code 2."""
    called, raw = OPENINGS[name]
    if disguised and name in ("netCDF", "MAT 7.3"):
        pytest.skip("only the ending of the name distinguishes it from HDF5")
    path = tmp_path / ("v.sgy" if disguised else called)
    path.write_bytes(raw)
    title, remedy = REMEDIES[name]
    with pytest.raises(ValueError) as caught:
        open_volume(path)
    message = str(caught.value)
    assert title in message and remedy.split("{")[0].strip() in message and "\n" not in message
    code, out, err = outcrop("info", path)
    assert code == 2 and out == "" and "Traceback" not in err
    assert title in " ".join(err.split())


def test_the_remedy_for_matlab_and_npz_files_works(tmp_path, monkeypatch):
    """The line of code in the message, with the name of the variable, writes a file that opens."""
    monkeypatch.chdir(tmp_path)
    values = noise((3, 4, 5))
    scipy.io.savemat("a.mat", {"NAME": values})
    np.savez("b.npz", NAME=values)
    for name in ("a.mat", "b.npz"):
        with pytest.raises(ValueError) as caught:
            open_volume(name)
        line = str(caught.value).partition("numpy.save")[2].removesuffix(".")
        exec(f"import numpy, scipy.io; numpy.save{line}")
        np.testing.assert_array_equal(open_volume(Path(name).with_suffix(".npy")).values, values)


def test_segy_is_never_taken_for_something_else(tmp_path):
    """SEG-Y files with text headers of EBCDIC, ASCII or zeros are not recognised as another format."""
    axes = (np.arange(3), np.arange(4), 4.0 * np.arange(5))
    with segy_write.create(tmp_path / "v.sgy", *axes) as write:
        for row in range(3):
            write(row, noise((4, 5)))
    raw = (tmp_path / "v.sgy").read_bytes()
    for text in (raw[:3200], b"C 1 CLIENT".ljust(3200), bytes(3200)):
        (tmp_path / "w.sgy").write_bytes(text + raw[3200:])
        assert recognise(tmp_path / "w.sgy") is None
        assert open_volume(tmp_path / "w.sgy").shape == (3, 4, 5)


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("s3://bucket/f3.sgy", ["remote store (s3)", "aws s3 cp"]),
        ("https://host/path/f3.zgy?token=a.b", ["remote store (https)", "curl -O"]),
        ("gs://bucket/f3.vds", ["remote store (gs)"]),
        ("sd://tenant/project/f3", ["remote store (sd)", "sdutil cp"]),
        ("s3://bucket/f3.zarr", ["copy it to this machine"]),
        ("nosuch://host/f3.zarr", ["copy it to this machine"]),
        ("file:///data/f3.sgy", ["path without file://"]),
    ],
)
def test_remote_addresses_are_refused_with_a_remedy(address, words, monkeypatch):
    """Addresses that cannot be Zarr are refused without a network connection."""
    monkeypatch.setattr("socket.socket.connect", None)
    if address == "s3://bucket/f3.zarr":
        monkeypatch.setitem(__import__("sys").modules, "s3fs", None)
    with pytest.raises(ValueError) as caught:
        open_volume(address)
    assert all(word in str(caught.value) for word in words) and "\n" not in str(caught.value)


def write_lines(folder, values, numbers, *, kind="png", name="inline_{:04d}", turned=False):
    """Write the lines of a volume as files into a folder: pictures of 16 bits, or arrays."""
    folder.mkdir(exist_ok=True)
    for position, number in enumerate(numbers):
        section = (values[:, position] if turned else values[position]).T
        path = folder / f"{name.format(number)}.{kind}"
        if kind == "npy":
            np.save(path, section)
        else:
            Image.fromarray(np.uint16(np.rint(65535 * section))).save(path)
    return folder


@pytest.mark.parametrize("kind", ["png", "npy"])
@pytest.mark.parametrize(("name", "turned"), [("inline_{:04d}", False), ("{}", False), ("f3 XL {} v2", True)])
def test_a_folder_of_lines_is_one_volume(tmp_path, kind, name, turned):
    """Lines get the number that differs between file names, as inlines or crosslines, sorted, and are read lazily."""
    values = np.random.default_rng(0).random((4, 7, 9)).astype(np.float32)
    values += 0.5 - np.median(values)  # zero amplitude is the middle grey
    values = values.clip(0, 1)
    numbers = [99, 100, 1000, 7] if not turned else [310, 300, 320, 330, 340, 350, 1360]
    volume = open_volume(write_lines(tmp_path / "lines", values, numbers, kind=kind, name=name, turned=turned))
    order, axis = np.argsort(numbers), int(turned)
    expected = np.take(values, order, axis)
    assert volume[volume.dims[axis]].values.tolist() == sorted(numbers)
    assert not volume.variable._in_memory and volume.attrs["scaled"] == (kind == "png")
    for key in [(), 2, np.s_[:, 3], np.s_[:, :, 4], np.s_[::-2, ::3, 7:1:-2], np.s_[2:2]]:
        np.testing.assert_allclose(volume[key].values, expected[key], atol=1e-5)
    again = pickle.loads(pickle.dumps(volume))
    np.testing.assert_allclose(again[[3, 0], 1].values, expected[[3, 0], 1], atol=1e-5)
    source, options = json.loads(json.dumps([volume.attrs["source"], volume.attrs["options"]]))
    assert open_volume(source, **options).identical(volume)
    assert sample_unit(volume) is None and describe(volume)["unit"] is None
    assert any(volume.dims[axis] in note for note in volume.attrs["notes"])


def write_segy_line(path, inline, crosslines, values, samples=5):
    """Write a SEG-Y file of one inline."""
    with segy_write.create(path, [inline], crosslines, 4.0 * np.arange(samples)) as write:
        write(0, values)


def test_segy_lines_of_different_lengths_are_joined_by_their_headers(tmp_path):
    """The volume has the crosslines of all lines; traces that a line lacks are missing."""
    first, second = noise((4, 5)), noise((6, 5), seed=1)
    write_segy_line(tmp_path / "b.sgy", 20, np.arange(100, 104), first)
    write_segy_line(tmp_path / "a.sgy", 10, np.arange(98, 104), second)
    (tmp_path / "notes.txt").write_text("of another kind")
    volume = open_volume(tmp_path)
    assert volume.inline.values.tolist() == [10, 20] and volume.crossline.values.tolist() == list(range(98, 104))
    assert volume.attrs["sample_interval"] == 4.0 and "1 other file is ignored" in volume.attrs["notes"]
    np.testing.assert_array_equal(volume.sel(inline=10).values, second)
    np.testing.assert_array_equal(volume.sel(inline=20)[2:].values, first)
    assert np.isnan(volume.sel(inline=20)[:2].values).all()
    assert live_traces(volume).sum() == 10


def test_2d_lines_with_one_number_are_numbered_by_their_names(tmp_path):
    """If headers only count traces, the numbers of the lines come from the file names."""
    for number in (3, 1):
        write_segy_line(tmp_path / f"line-{number}.segy", 0, np.arange(1, 5), noise((4, 5), seed=number))
    volume = open_volume(tmp_path)
    assert volume.inline.values.tolist() == [1, 3]
    np.testing.assert_array_equal(volume.sel(inline=3).values, noise((4, 5), seed=3))


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (["il1.npy", "xl2.npy"], "named in different ways"),
        (["a1_b1.npy", "a2_b2.npy"], "more than one number"),
        (["line_1.npy", "line_01.npy", "line_2.npy"], "2 files of line 1"),
        (["section.npy"], "no number"),
        (["time_100.npy", "time_104.npy"], "time or depth slices"),
        (["1.npy", "2.png"], "pictures and NumPy files"),
        (["job.toml", "1.npy"], "is a job folder"),
        ([], "no Zarr volume and no lines"),
        (["notes.txt"], "no Zarr volume and no lines"),
    ],
)
def test_folders_that_are_no_volume_are_refused(tmp_path, names, words):
    """The error states the problem of the files."""
    for name in names:
        np.save(tmp_path / "x.npy", noise((5, 4)))
        (tmp_path / "x.npy").rename(tmp_path / name)
    with pytest.raises(ValueError, match=words) as caught:
        open_volume(tmp_path)
    assert "\n" not in str(caught.value)


def test_lines_that_do_not_fit_together_are_refused(tmp_path):
    """The error for other lengths, other sampling or repeated traces names the file."""
    np.save(tmp_path / "1.npy", noise((5, 4)))
    for shape, words in (((5, 3), "3 traces, others 4"), ((6, 4), "samples"), ((2, 3, 4), "one line")):
        np.save(tmp_path / "2.npy", noise(shape))
        with pytest.raises(ValueError, match=words):
            open_volume(tmp_path)
    for path in tmp_path.iterdir():
        path.unlink()
    for name in "ab":
        with segy_write.create(tmp_path / f"{name}.sgy", [1, 2], np.arange(4), 4.0 * np.arange(5)) as write:
            write(0, noise((4, 5)))
            write(1, noise((4, 5)))
    with pytest.raises(ValueError, match=r"b\.sgy holds traces that another file"):
        open_volume(tmp_path)


def test_a_folder_of_label_pictures_has_codes(tmp_path):
    """With a class table next to the folder, pixels are label codes."""
    folder = tmp_path / "labels"
    folder.mkdir()
    for number in (1, 2):
        Image.fromarray(np.full((5, 4), number, np.uint8)).save(folder / f"{number}.png")
    class_table.write_class_table(folder, ["fault", "other"])
    volume = open_volume(folder)
    assert volume.attrs["classes"] == ["fault", "other"] and not volume.attrs["scaled"]
    assert volume.values[:, 0, 0].tolist() == [1.0, 2.0]


@real_data
def test_the_f3_pictures_stack_in_the_shell(outcrop):
    """Four pictures are four inlines with the numbers of their files; the expert's .mat files are not read."""
    folder = Path(os.environ["OUTCROP_DATA"]) / "f3_sections"
    code, out, _ = outcrop("info", folder, "--json")
    facts = json.loads(out)
    assert code == 0 and facts["axes"]["inline"] == {"first": 61, "last": 281, "step": None, "count": 4}
    assert (facts["axes"]["crossline"]["count"], facts["axes"]["time"]["count"]) == (951, 442)
    pixels = np.asarray(Image.open(folder / "231.bmp").convert("L")) / 255
    np.testing.assert_allclose(open_volume(folder).sel(inline=231).values.T, pixels, atol=1e-6)


@pytest.mark.parametrize("known", [False, True])
def test_invented_values_are_stated_in_the_text_header(tmp_path, known):
    """If coordinates and sample interval of labels are unknown, the text header states that they are invented."""
    coords = {"inline": [1, 2], "crossline": np.arange(4), "time": (4.0 if known else 1.0) * np.arange(5)}
    attrs = {"classes": ["fault"]} | ({"bin_size": (25.0, 12.5)} if known else {})
    labels = xr.DataArray(np.ones((2, 4, 5), np.uint8), coords, name="label", attrs=attrs)
    export_segy(labels, tmp_path / "labels.sgy")
    text = open_volume(tmp_path / "labels.sgy").attrs["text"]
    assert ("X and Y are invented" in text, "interval is invented" in text) == (not known, not known)


# ---------------------------------------------------------------------------- axes and units


def named(dims, shape=(3, 4, 5), units="", labels=None):
    """Return a volume with named axes, and a unit on the first axis."""
    array = xr.DataArray(noise(shape), dims=dims)
    if labels is not None:
        array = array.assign_coords({dims[0]: (dims[0], labels, {"units": units} if units else {})})
    return array


@pytest.mark.parametrize(
    ("dims", "order"),
    [
        (("twt", "y", "x"), (1, 2, 0)),
        (("x", "y", "TWT"), (1, 0, 2)),
        (("depth", "northing", "easting"), (1, 2, 0)),
        (("time", "crossline", "inline"), (2, 1, 0)),
        (("Two-way time", "In-line", "Cross line"), (1, 2, 0)),
        (("survey", "xline", "twt"), (0, 1, 2)),
        (("dim_0", "dim_1", "dim_2"), (0, 1, 2)),
    ],
)
def test_axes_are_recognised_by_their_names(dims, order):
    """Axes in any order become inline, crossline, and time or depth."""
    array = named(dims)
    volume = open_volume(array)
    np.testing.assert_array_equal(volume.values, array.values.transpose(order))
    assert volume.dims[2] == ("depth" if "depth" in dims else "time")


@pytest.mark.parametrize(
    "dims", [("a", "b", "c"), ("twt", "a", "b"), ("inline", "iline", "twt"), ("inline", "crossline", "band"),
             ("time", "depth", "inline"), ("inline", "crossline", "y")]
)  # fmt: skip
def test_unknown_or_ambiguous_axes_are_refused(dims):
    """Unknown names are not replaced by the order of the axes, because a swapped volume also looks like seismic."""
    with pytest.raises(ValueError, match="not recognised as inline, crossline and time or depth"):
        open_volume(named(dims))


def test_unknown_names_in_zarr_are_refused_too(tmp_path):
    """The names that xarray wrote decide, not the order."""
    named(("y", "x", "band")).to_dataset(name="amplitude").to_zarr(tmp_path / "v.zarr", consolidated=False)
    with pytest.raises(ValueError, match="not recognised as inline"):
        open_volume(tmp_path / "v.zarr")


@pytest.mark.parametrize(
    ("name", "units", "labels", "domain", "expected"),
    [
        ("twt", "s", [0.0, 0.004, 0.008], "time", [0, 4, 8]),
        ("twt", "", [0.1, 0.104, 0.108], "time", [100, 104, 108]),
        ("twt_s", "", [1.0, 2.0, 3.0], "time", [1000, 2000, 3000]),
        ("time", "us", [0.0, 2000.0, 4000.0], "time", [0, 2, 4]),
        ("z", "ft", [0.0, 10.0, 20.0], "depth", [0, 3.048, 6.096]),
        ("depth [km]", "", [1.0, 1.01, 1.02], "depth", [1000, 1010, 1020]),
        ("sample", "m", [5.0, 10.0, 15.0], "depth", [5, 10, 15]),
        ("z", "ms", [4.0, 8.0, 12.0], "time", [4, 8, 12]),
    ],
)
def test_units_become_ms_and_m(name, units, labels, domain, expected):
    """Units come from the axis or from its name, and also distinguish time from depth."""
    volume = open_volume(named((name, "inline", "crossline"), units=units, labels=labels))
    assert volume.dims[2] == domain
    np.testing.assert_allclose(volume[domain].values, expected)
    assert sample_unit(volume) == ("ms" if domain == "time" else "m")


@pytest.mark.parametrize(
    ("name", "units", "words"),
    [("time", "m", "should be time"), ("depth", "ms", "should be depth"), ("twt", "fathom", "convert it to ms or s")],
)
def test_units_that_contradict_or_are_unknown_are_refused(name, units, words):
    """A time axis in metres, a depth axis in milliseconds and an unknown unit give an error."""
    with pytest.raises(ValueError, match=words):
        open_volume(named((name, "inline", "crossline"), units=units, labels=[1.0, 2.0, 3.0]))


def test_only_known_units_are_printed():
    """Figures of a volume without sampling show samples instead of ms."""
    counted, timed = open_volume(noise((2, 8, 9))), open_volume(named(("twt", "inline", "crossline"), (9, 2, 8)))
    timed = timed.assign_coords(time=4.0 * np.arange(9)).assign_attrs(sample_interval=4.0)
    assert plots.section(counted[0]).get_ylabel() == "time (samples)"
    assert plots.section(timed[0]).get_ylabel() == "time (ms)"


@pytest.mark.parametrize(("times", "words"), [([8, 4, 0], "sortby"), ([0, 4, 12], "resample")])
def test_descending_or_uneven_samples_are_refused(times, words):
    """The error for descending or uneven samples states the remedy."""
    volume = xr.DataArray(
        np.ones((2, 3, 3), "f4"),
        {"inline": [1, 2], "crossline": [1, 2, 3], "time": times},
        ["inline", "crossline", "time"],
    )
    with pytest.raises(ValueError, match=words):
        open_volume(volume)
