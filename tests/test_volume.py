"""`open_volume` on every kind of source; scaling and description of amplitudes; patch sizes."""

import json
import os
import pickle
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
import zarr
from PIL import Image

from outcrop.volumes import class_table, segy_write
from outcrop.volumes.amplitude import amplitude_clip, scale
from outcrop.volumes.lazy import live_traces
from outcrop.volumes.lengths import parse_size
from outcrop.volumes.opening import open_volume
from outcrop.volumes.summary import describe

INLINES, CROSSLINES, TIMES = np.array([10, 12, 14]), np.arange(100, 105), 8 + 4.0 * np.arange(6)
real_data = pytest.mark.skipif("OUTCROP_DATA" not in os.environ, reason="OUTCROP_DATA does not name the real data")


def position_code():
    """Return an array whose samples encode their position: inline + crossline / 100 + sample / 10000."""
    code = INLINES[:, None, None] + CROSSLINES[:, None] / 100 + np.arange(len(TIMES)) / 10000
    return code.astype(np.float32)


def write_segy(path, values=None, **options):
    """Write a position-coded SEG-Y file, or given values on the same axes."""
    values = position_code() if values is None else values
    with segy_write.create(path, INLINES, CROSSLINES, TIMES, **options) as write:
        for row, section in enumerate(values):
            write(row, section)
    return path


def labelled():
    """Return the position-coded volume as a DataArray."""
    coords = {"inline": INLINES, "crossline": CROSSLINES, "time": TIMES}
    return xr.DataArray(
        position_code(), coords, name="amplitude", attrs={"bin_size": (12.5, 25.0), "classes": ["fault"]}
    )


def write_source(folder, kind):
    """Write the position-coded volume to a kind of store, and return the path or array to open."""
    path = folder / f"volume.{kind.split()[0]}"
    if kind == "sgy":
        return write_segy(path, bin_size=(12.5, 25.0))
    if kind == "npy":
        np.save(path, position_code().astype(np.float64))
    elif kind == "zarr of xarray":
        labelled().to_zarr(path, consolidated=False)
    elif kind == "zarr of xarray, version 2, transposed":
        labelled().transpose("time", "inline", "crossline").to_zarr(path, zarr_format=2, consolidated=False)
    elif kind == "zarr array":
        zarr.save_array(str(path), position_code())
    elif kind == "zarr group":
        group = zarr.open_group(str(path), mode="w")
        group.create_array("other", data=np.zeros(4))
        group.create_array("seismic", data=position_code())
    else:
        return {"array": position_code(), "DataArray": labelled(), "renamed": renamed()}[kind]
    return path


def renamed():
    """Return the position-coded volume with other names and order of axes."""
    return labelled().rename(inline="iline", crossline="xline", time="twt").transpose("twt", "xline", "iline")


KINDS = ["sgy", "npy", "zarr of xarray", "zarr of xarray, version 2, transposed", "zarr array", "zarr group", "array"]
KINDS += ["DataArray", "renamed"]
NAMED = {"sgy", "zarr of xarray", "zarr of xarray, version 2, transposed", "DataArray", "renamed"}


@pytest.mark.parametrize("kind", KINDS)
def test_every_source_gives_the_same_volume_for_any_selection(tmp_path, kind):
    """Volume, line, slice, trace, list of lines and reversed axes have the samples of their positions."""
    volume, code = open_volume(write_source(tmp_path, kind)), position_code()
    assert volume.name == "amplitude" and volume.dims == ("inline", "crossline", "time") and volume.dtype == np.float32
    for key in [(), 1, np.s_[:, 2], np.s_[:, :, 3], (2, 4, 5), np.s_[::-2, ::2, 4:1:-1]]:
        np.testing.assert_allclose(volume[key].values, code[key], atol=1e-6)
    np.testing.assert_allclose(volume[[2, 0], 1:4, [5, 1]].values, code[[2, 0], 1:4][..., [5, 1]], atol=1e-6)
    if kind in NAMED:
        assert volume.inline.values.tolist() == INLINES.tolist() and volume.inline.dtype == np.int64
        assert volume.crossline.values.tolist() == CROSSLINES.tolist() and volume.time.values.tolist() == TIMES.tolist()
        assert (volume.attrs["sample_interval"], volume.attrs["delay"]) == (4.0, 8.0)
        assert volume.attrs["bin_size"] == (12.5, 25.0)
        assert float(volume.sel(inline=12, crossline=103, time=16)) == pytest.approx(12 + 1.03 + 0.0002, abs=1e-6)
    assert live_traces(volume).shape == (3, 5) and live_traces(volume).all()


@pytest.mark.parametrize("kind", KINDS)
def test_volumes_are_lazy_and_can_be_pickled(tmp_path, kind):
    """A volume from a file is read only on access, and a pickled volume has the same samples."""
    volume = open_volume(write_source(tmp_path, kind))
    in_memory = kind in ("array", "DataArray", "renamed")
    assert volume.variable._in_memory == in_memory
    section = pickle.loads(pickle.dumps(volume[1:]))[0]
    np.testing.assert_allclose(section.values, position_code()[1], atol=1e-6)
    assert volume.variable._in_memory == in_memory


def test_attributes_of_a_volume_are_kept_in_zarr(tmp_path):
    """A SEG-Y volume with missing traces and classes, saved by xarray and opened again, has both."""
    values = position_code()
    values[1, 2] = np.nan
    path = write_segy(tmp_path / "a.sgy", values)
    class_table.write_class_table(path, ["fault", "other"])
    volume = open_volume(path)
    assert volume.attrs["classes"] == ["fault", "other"]
    volume.to_zarr(tmp_path / "a.zarr", consolidated=False)
    again = open_volume(tmp_path / "a.zarr")
    np.testing.assert_array_equal(again, volume)
    np.testing.assert_array_equal(live_traces(again), live_traces(volume))
    assert np.argwhere(~live_traces(again)).tolist() == [[1, 2]]
    for name in ("classes", "bin_size", "sample_interval", "delay", "domain", "text"):
        assert again.attrs[name] == volume.attrs[name]


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind.startswith(("sgy", "npy", "zarr"))])
@pytest.mark.parametrize("options", [{}, {"domain": "depth"}])
def test_a_volume_states_how_to_open_it_again(tmp_path, monkeypatch, kind, options):
    """Source and options of a volume, saved as JSON, open the same volume from another working directory."""
    path = write_source(tmp_path, kind)
    monkeypatch.chdir(tmp_path)
    volume = open_volume(path.name, **options)
    monkeypatch.chdir(tmp_path.parent)
    source, options = json.loads(json.dumps([volume.attrs["source"], volume.attrs["options"]]))
    again = open_volume(source, **options)
    assert again.identical(volume)
    json.dumps(volume.attrs)


def test_header_bytes_and_byte_order_are_recorded(tmp_path):
    """The options of a volume have its header bytes, byte order and domain, given or detected."""
    path = write_segy(tmp_path / "a.sgy")
    given = {"header_bytes": [189, 21], "endian": "big", "domain": "depth"}
    assert open_volume(path, **given).attrs["options"] == given
    found = open_volume(path).attrs["options"]
    assert found == {"header_bytes": [189, 193], "endian": "big", "domain": "time"}


def test_options_of_another_file_are_not_used(tmp_path):
    """A SEG-Y volume that was saved as Zarr has no options of SEG-Y."""
    open_volume(write_segy(tmp_path / "a.sgy")).to_zarr(tmp_path / "a.zarr", consolidated=False)
    assert open_volume(tmp_path / "a.zarr").attrs["options"] == {}


@pytest.mark.parametrize("kind", ["sgy", "npy", "png", "palette.png", "zarr"])
def test_a_class_table_names_the_codes_of_any_file(tmp_path, kind):
    """Codes of true labels get their names in every format; a class table takes precedence over attributes."""
    codes, path = np.arange(30).reshape(6, 5).astype(np.uint8) % 3, tmp_path / f"truth.{kind}"
    if kind == "sgy":
        write_segy(path, np.repeat(codes.T[None], 3, 0), format=8)
    elif kind == "npy":
        np.save(path, codes)
    elif kind == "zarr":
        stored = xr.DataArray(codes.T[None], dims=("inline", "crossline", "time"), name="label")
        stored.assign_attrs(classes=["a", "b"]).to_zarr(path, consolidated=False)
    else:
        picture = Image.fromarray(codes)
        if kind == "palette.png":
            picture.putpalette([200, 0, 0, 0, 200, 0, 0, 0, 200])
        picture.save(path)
    class_table.write_class_table(path, ["fault", "other"])
    truth = open_volume(f"{path}/" if kind == "zarr" else path)
    assert truth.attrs["classes"] == ["fault", "other"] and not truth.attrs["scaled"]
    np.testing.assert_array_equal(truth[0].values.T, codes)


def with_times(times, *, name="time", **attrs):
    """Return the position-coded volume with other times, and attributes of the time axis."""
    volume = labelled().assign_coords(time=np.asarray(times, np.float32)).rename(time=name)
    volume[name].attrs.update(attrs)
    return volume


@pytest.mark.parametrize("stored", [False, True])
@pytest.mark.parametrize(
    ("times", "attrs"),
    [
        (TIMES / 1000, {}),
        (TIMES / 1000, {"name": "twt"}),
        (TIMES / 1000, {"units": "s"}),
        (TIMES / 1000, {"unitsV1": {"time": "s"}}),
        (60 + 0.5 * np.arange(6), {"units": " Seconds"}),
    ],
)
def test_seconds_become_milliseconds(tmp_path, stored, times, attrs):
    """A time axis in seconds, by units or steps, is converted to ms once, and a note states the conversion."""
    source = with_times(times, **attrs)
    if stored:
        source.to_zarr(tmp_path / "a.zarr", consolidated=False)
    volume = open_volume(tmp_path / "a.zarr" if stored else source)
    np.testing.assert_array_equal(volume.time, np.round(1000 * times, 3))
    assert volume.attrs["delay"] == 1000 * times[0]
    assert volume.attrs["sample_interval"] == pytest.approx(1000 * (times[1] - times[0]))
    assert any("seconds" in note for note in volume.attrs["notes"])
    again = open_volume(volume)
    assert again.identical(volume)


@pytest.mark.parametrize(
    ("times", "attrs"),
    [
        (np.arange(6), {}),
        (0.25 * np.arange(6), {}),
        (8.0 * np.arange(6), {}),
        (4 + 4 * np.arange(6), {"units": "ms"}),
        (4 + 4 * np.arange(6), {"units": "milliseconds"}),
        (0.05 * np.arange(6), {"units": "ms"}),
        (0.05 * np.arange(6), {"name": "depth"}),
        (np.arange(6), {"name": "depth", "units": "m"}),
    ],
)
def test_milliseconds_and_metres_stay(tmp_path, times, attrs):
    """Steps of 0.25 to 8 ms, axes with units and depths of any step are not converted, in memory or in Zarr."""
    source = with_times(times, **attrs)
    source.to_zarr(tmp_path / "a.zarr", consolidated=False)
    for opened in (source, tmp_path / "a.zarr"):
        volume = open_volume(opened)
        np.testing.assert_array_equal(volume[volume.dims[2]].values, np.float32(times))
        assert not volume.attrs.get("notes")


def test_bin_size_comes_from_zarr_coordinates(tmp_path):
    """Bin size and missing traces come from the CDP coordinates and the trace mask of MDIO."""
    x, y = np.meshgrid(25.0 * np.arange(5), 12.5 * np.arange(3))
    live = np.ones((3, 5), bool)
    live[0, 4] = False
    plane = ("inline", "crossline")
    data = labelled().drop_attrs().to_dataset().assign_coords(cdp_x=(plane, x + y), cdp_y=(plane, y - x))
    data.assign(trace_mask=(plane, live)).to_zarr(tmp_path / "a.mdio", consolidated=False)
    volume = open_volume(tmp_path / "a.mdio")
    np.testing.assert_allclose(volume.attrs["bin_size"], (12.5 * 2**0.5, 25 * 2**0.5), atol=0.01)
    np.testing.assert_array_equal(live_traces(volume), live)


def test_missing_traces_keep_their_positions_if_axes_are_transposed():
    """The map of live traces is transposed with the axes."""
    live = np.ones((3, 5), bool)
    live[0, 4] = False
    turned = labelled().assign_coords(live=(("inline", "crossline"), live)).transpose("time", "crossline", "inline")
    np.testing.assert_array_equal(live_traces(open_volume(turned)), live)


def test_nothing_in_a_zarr_folder_is_unpickled(tmp_path):
    """A coordinate that hides a pickle in its filters is refused, not executed."""
    trap, folder = tmp_path / "trap", tmp_path / "a.zarr"
    common = {"zarr_format": 2, "compressor": None, "fill_value": 0, "order": "C"}
    filters = [{"id": "vlen-utf8"}, {"id": "pickle"}]
    for name, shape, kind, steps in [("amplitude", [2, 2, 2], "<f4", None), ("inline", [2], "|O", filters)]:
        (folder / name).mkdir(parents=True)
        array = common | {"shape": shape, "chunks": shape, "dtype": kind, "filters": steps}
        (folder / name / ".zarray").write_text(json.dumps(array))
        (folder / name / ".zattrs").write_text(
            json.dumps({"_ARRAY_DIMENSIONS": ["inline", "xline", "time"][: len(shape)]})
        )
    (folder / ".zgroup").write_text(json.dumps({"zarr_format": 2}))
    (folder / "inline" / "0").write_bytes(f"cpathlib\nPath\n(V{trap}\ntRp0\n0cos\nmkdir\n(V{trap}\ntR.".encode())
    pickle.loads((folder / "inline" / "0").read_bytes())
    trap.rmdir()  # the pickle works if it is executed
    with pytest.raises(ValueError):
        open_volume(folder)
    assert not trap.exists()


def test_zarr_with_impossibly_long_axes_is_refused(tmp_path):
    """The shape in the metadata is checked before axis labels are made."""
    zarr.create_array(str(tmp_path / "a.zarr"), shape=(10**9, 10**9, 4), chunks=(1, 1, 4), dtype="f4")
    with pytest.raises(ValueError, match="1000000000"):
        open_volume(tmp_path / "a.zarr")


def test_missing_chunks_of_zarr_are_its_fill_value(tmp_path):
    """Samples of a missing chunk have the fill value of the array."""
    array = zarr.create_array(
        str(tmp_path / "a.zarr"), shape=(4, 4, 4), chunks=(2, 4, 4), dtype="f4", fill_value=np.nan
    )
    array[:2] = 1.0
    volume = open_volume(tmp_path / "a.zarr")
    assert (volume[:2] == 1).all() and np.isnan(volume[2:]).all()


@pytest.mark.parametrize("suffix", ["png", "bmp", "tif"])
def test_a_picture_is_one_inline_with_time_downwards(tmp_path, suffix):
    """Rows become times, columns crosslines; grey values are scaled to [0, 1]."""
    pixels = np.arange(40, dtype=np.uint8).reshape(8, 5) * 6
    Image.fromarray(np.repeat(pixels[..., None], 3, 2)).save(tmp_path / f"a.{suffix}")
    volume = open_volume(tmp_path / f"a.{suffix}")
    assert volume.sizes == {"inline": 1, "crossline": 5, "time": 8} and volume.attrs["scaled"] is True
    np.testing.assert_allclose(volume[0].values.T, pixels / 255, atol=1e-6)


def test_deep_pictures_keep_their_depth(tmp_path):
    """A picture of 16 bits is not reduced to 8 bits."""
    pixels = np.arange(40, dtype=np.uint16).reshape(8, 5) * 1638
    Image.fromarray(pixels).save(tmp_path / "a.png")
    np.testing.assert_allclose(open_volume(tmp_path / "a.png")[0].values.T, pixels / 65535, atol=1e-6)


def test_a_two_dimensional_array_is_a_section(tmp_path):
    """Two dimensions are one inline with rows as time, unless axis names differ; a scalar line number is kept."""
    section = position_code()[1]
    for source in (section.T, labelled().sel(inline=12), labelled().isel(inline=1).transpose()):
        volume = open_volume(source)
        assert volume.sizes == {"inline": 1, "crossline": 5, "time": 6}
        np.testing.assert_array_equal(volume[0], section)
    assert volume.inline.values.tolist() == [12]
    np.save(tmp_path / "a.npy", section.T)
    np.testing.assert_array_equal(open_volume(tmp_path / "a.npy")[0], section)
    crossline = open_volume(labelled().sel(crossline=103))
    assert crossline.sizes == {"inline": 3, "crossline": 1, "time": 6}


@pytest.mark.parametrize(
    ("text", "domain"),
    [
        ("Depth domain", "depth"),
        ("Sample interval: 4 m", "depth"),
        ("4 ms", "time"),
        ("PSDM, depth migrated, stretched to time", "time"),
    ],
)
def test_depth_is_stated_by_the_text_header_or_by_the_user(tmp_path, text, domain):
    """A text header that states depth makes the last axis depth; the option `domain` takes precedence."""
    path = write_segy(tmp_path / "a.sgy", text=text)
    assert open_volume(path).dims[2] == domain
    assert open_volume(path, domain="depth").dims[2] == "depth"
    np.testing.assert_array_equal(open_volume(path, domain="depth").depth, TIMES)


@pytest.mark.parametrize(
    "name", ["empty.sgy", "text.sgy", "a.npy", "objects.npy", "a.png", "a.zarr", "broken.zarr", "folder", "null\0.sgy"]
)
def test_files_that_are_no_volume_are_refused_in_one_line(tmp_path, name):
    """For any content of the file, the error is a ValueError or an OSError of one line."""
    (tmp_path / "folder").mkdir()
    (tmp_path / "a.zarr").mkdir()
    (tmp_path / "a.zarr" / "zarr.json").write_text('{"zarr_format": 3, "node_type": "array"}')
    (tmp_path / "broken.zarr").mkdir()
    (tmp_path / "broken.zarr" / "zarr.json").write_bytes(b"\xff\x00{")
    np.save(tmp_path / "objects.npy", np.array([{}, None]), allow_pickle=True)
    for file, content in {
        "empty.sgy": b"",
        "text.sgy": b"hello\n",
        "a.npy": b"\x93NUMPY\x01\x00",
        "a.png": b"\x89PNG",
    }.items():
        (tmp_path / file).write_bytes(content)
    with pytest.raises((ValueError, OSError)) as error:
        open_volume(str(tmp_path / name))
    assert str(error.value) and "\n" not in str(error.value)


@pytest.mark.parametrize(
    "source", [np.zeros(3), np.zeros((2, 0, 3)), np.zeros((1, 2, 3, 4)), np.array([["a"]]), None, object()]
)
def test_arrays_that_are_no_volume_are_refused(source):
    """Arrays with wrong dimensions, without samples or without numbers give a ValueError."""
    with pytest.raises(ValueError):
        open_volume(source)


def test_missing_files_and_pipes_are_refused(tmp_path):
    """The error names a missing path; a named pipe, which would block the read, is refused."""
    with pytest.raises(OSError, match="nowhere"):
        open_volume(tmp_path / "nowhere.sgy")
    os.mkfifo(tmp_path / "pipe.sgy")
    with pytest.raises(ValueError, match="neither a file nor a folder"):
        open_volume(tmp_path / "pipe.sgy")


def test_mutated_files_are_read_or_refused_in_one_line(tmp_path):
    """Each of 400 damaged SEG-Y files is read or refused; more damage is in headers than in samples."""
    original = write_segy(tmp_path / "a.sgy", format=3).read_bytes()
    rng = np.random.default_rng(1)
    outcomes = {"opened": 0, "refused": 0}
    for _ in range(400):
        data = bytearray(original[: rng.integers(len(original))] if rng.random() < 0.2 else original)
        low, high = [(0, len(data)), (3200, 3600), (3212, 3230), (3600, 3840)][rng.integers(4)]
        for _ in range(rng.integers(1, 9)):
            if low < len(data):
                data[rng.integers(low, min(high, len(data)))] = rng.integers(256)
        (tmp_path / "b.sgy").write_bytes(data)
        try:
            volume = open_volume(tmp_path / "b.sgy")
            assert volume[volume.shape[0] // 2].values.ndim == 2
            describe(volume)
            outcomes["opened"] += 1
        except (ValueError, OSError) as error:
            outcomes["refused"] += len(str(error).splitlines()) == 1
    assert sum(outcomes.values()) == 400 and min(outcomes.values()) > 50


def test_clip_is_the_percentile_of_live_samples_only():
    """NaN, Inf and zeros do not change the clip."""
    rng = np.random.default_rng(0)
    values = rng.standard_normal((40, 50, 60)) * 100
    expected = amplitude_clip(open_volume(values), percentile=98)
    assert expected == pytest.approx(100 * 2.326, rel=0.02)  # 98 % of a normal distribution lie within 2.326 sigma
    padded = np.pad(values, [(0, 0), (0, 50), (0, 0)])
    padded[:, 70:80], padded[:, 80:90] = np.nan, np.inf
    assert amplitude_clip(open_volume(padded), percentile=98) == pytest.approx(expected)


@pytest.mark.parametrize("value", [0.0, np.nan, np.inf])
def test_a_volume_without_amplitudes_has_no_clip(value):
    """A volume with only zeros, NaN or Inf is refused."""
    with pytest.raises(ValueError, match="only zeros or NaN"):
        amplitude_clip(open_volume(np.full((2, 3, 4), value)))


def test_scaling_is_linear_within_the_clip_and_keeps_nan():
    """-clip, 0 and clip become 0, 1/2 and 1; amplitudes beyond become 0 or 1, and NaN stays."""
    values = np.array([-30, -2, -1, 0, 1, 2, 30, np.nan, np.inf], np.float32)
    np.testing.assert_array_equal(scale(values, 2), np.float32([0, 0, 0.25, 0.5, 0.75, 1, 1, np.nan, 1]))
    assert scale(values, 2).dtype == np.float32 and scale(values.astype(float), 2).dtype == np.float64
    for clip in (0, -1, np.nan, np.inf):
        with pytest.raises(ValueError, match="clip"):
            scale(values, clip)


@real_data
def test_the_published_patches_are_f3_clipped_at_8000():
    """The paper's patch on inline 110 is SEG-Y data scaled from [-8000, 8000] to [0, 1]; 8000 is percentile 98.7."""
    folder = Path(os.environ["OUTCROP_DATA"])
    with np.load(folder / "seg2017_patches.npz") as file:
        i = int(np.flatnonzero(file["inline"] == 110)[0])
        patch, first_crossline, first_sample = (
            file["images"][i] * file["scale"],
            file["crossline"][i],
            file["sample"][i],
        )
    volume = open_volume(folder / "segy" / "f3_inlines_110_111.sgy")
    section = volume.sel(inline=110, crossline=slice(first_crossline, first_crossline + 98))
    ours = scale(section[:, first_sample : first_sample + 99].values.T, 8000)
    np.testing.assert_allclose(ours, patch, atol=1e-5)  # stored in 16 bits
    assert amplitude_clip(volume, percentile=98.7) == pytest.approx(8000, rel=0.02)


def test_description_is_json_and_counts_invalid_samples_and_traces(tmp_path):
    """Axes, geometry, amplitudes and drift of a small volume are described with types of JSON."""
    values = np.random.default_rng(0).standard_normal((3, 5, 6)) * np.array([1, 2, 4])[:, None, None]
    values[0, 0], values[1, 1], values[2, 2, 0], values[2, 2, 1] = np.nan, 0, np.nan, np.inf
    facts = describe(open_volume(write_segy(tmp_path / "a.sgy", values, text="What it is", bin_size=(12.5, 25.0))))
    assert facts == json.loads(json.dumps(facts)) | {"bin_size": (12.5, 25.0), "header_bytes": (189, 193)}
    assert facts["axes"]["inline"] == {"first": 10, "last": 14, "step": 2, "count": 3}
    assert facts["axes"]["time"] == {"first": 8.0, "last": 28.0, "step": 4.0, "count": 6}
    assert facts["geometry"] == {
        "regular": False,
        "sorting": "inline",
        "missing_traces": 0,
        "dead_traces": 2,  # one is marked dead, one holds zeros
        "duplicate_traces": 0,
    }
    assert (facts["sample_interval"], facts["delay"], facts["domain"], facts["unit"]) == (4.0, 8.0, "time", "ms")
    assert facts["format"] == "SEG-Y, IEEE float, 32 bit, big endian" and facts["text"][0] == "C 1 What it is"
    amplitude = facts["amplitude"]
    assert (amplitude["nan"], amplitude["infinite"], amplitude["zero_traces"], amplitude["sampled_traces"]) == (
        7,
        1,
        1,
        15,
    )
    assert facts["rms"]["inline"] == [10, 12, 14] and len(facts["rms"]["by_time"]) == 6


def test_drift_is_the_gain_that_was_applied():
    """Amplitudes that grow by 6 dB along lines and 12 dB along time have these drifts."""
    noise = np.random.default_rng(0).standard_normal((16, 100, 400))
    gain = np.repeat([1.0, 2.0], 8)[:, None, None] * np.repeat([1.0, 4.0], 200)
    rms = describe(open_volume(noise * gain))["rms"]
    assert rms["drift_lines"] == pytest.approx(6.02, abs=0.3) and rms["drift_time"] == pytest.approx(12.04, abs=0.3)


def test_volumes_of_zeros_are_described_and_volumes_of_nan_refused():
    """A volume of zeros (labels without any class) has a description; a volume of NaN gives an error."""
    assert describe(open_volume(np.zeros((2, 3, 4))))["amplitude"]["clip"] == 0
    with pytest.raises(ValueError, match="no finite amplitude"):
        describe(open_volume(np.full((2, 3, 4), np.nan)))


@pytest.mark.parametrize(
    "text",
    ["", "x", "0", "-3", "9.5", "99,", "99,99,99", "400ms", "2500m,400ms", "400 furlong,9", "0.1ms,5", "nan", "1e3"],
)
def test_invalid_sizes_are_refused(text):
    """Unknown units, signs, sizes below one trace, and a single length in ms for both directions give an error."""
    volume = open_volume(np.zeros((2, 3, 4))).assign_attrs(sample_interval=4.0, bin_size=(12.5, 25.0))
    with pytest.raises(ValueError, match="Size"):
        parse_size(text, volume)


def test_sizes_in_metres_follow_the_section():
    """Width follows the crossline spacing on inlines, the inline spacing on crosslines; metres need a bin size."""
    volume = open_volume(np.zeros((2, 3, 4))).assign_attrs(sample_interval=4.0, bin_size=(12.5, 25.0))
    assert parse_size("400ms,2500m", volume) == (100, 100)
    assert parse_size("400ms,2500m", volume, along="crossline") == (100, 200)
    assert parse_size("0.4s,2.5km", volume) == (100, 100) and parse_size(99, volume) == (99, 99)
    with pytest.raises(ValueError, match="spacing"):
        parse_size("99,2500m", open_volume(np.zeros((2, 3, 4))))


def test_a_dataset_is_refused_with_the_names_of_its_arrays():
    """The error for a Dataset lists its arrays, and an array of one dimension is refused."""
    volume = open_volume(np.ones((2, 3, 4)))
    with pytest.raises(ValueError, match=r"give one of its arrays, as dataset\[NAME\]. It has 'amplitude', 'other'"):
        open_volume(xr.Dataset({"amplitude": volume, "other": volume}))
    with pytest.raises(ValueError, match="An array of 1 dimension is not a volume"):
        open_volume(np.ones(3))
