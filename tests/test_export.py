"""Exports keep the headers of the source, describe their content, open in other programs, and are never partial."""

import json
import os
import pickle
import sys
import tomllib
import tracemalloc
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import segyio
import torch
import xarray as xr
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.colors import to_rgb
from PIL import Image
from test_segy import CROSSLINES, INLINES, in_order, write_by_segyio

from outcrop import PatchGrid, WeakLabels, open_volume
from outcrop.evaluate.pixels import pixel_scores
from outcrop.export.label_segy import export_segy
from outcrop.export.label_zarr import export_zarr
from outcrop.export.training_set import TrainingSet, export_training_set, split_by_lines
from outcrop.mapping.confidence import as_codes, labelled
from outcrop.plots.colours import COLOURS
from outcrop.volumes import class_table, segy, segy_headers

DATA = os.environ.get("OUTCROP_DATA")
CLASSES = ["chaotic", "other", "fault", "salt dome"]


def labels_on(inlines, crosslines, times, *, dims=("inline", "crossline", "time")):
    """Return random labels, confidence and scores."""
    shape, rng = (len(inlines), len(crosslines), len(times)), np.random.default_rng(0)
    return xr.Dataset(
        {
            "label": (dims, rng.choice(np.array([0, 1, 2, 3, 4, 255], np.uint8), shape)),
            "confidence": (dims, rng.integers(0, 256, shape, np.uint8)),
            "score": (("class", *dims), rng.integers(0, 256, (4, *shape), np.uint8)),
        },
        coords=dict(zip(dims, (inlines, crosslines, times), strict=True)),
        attrs={"classes": CLASSES, "source": "", "mapping": "paper", "version": "9.9"},
    )


def labels_for(path):
    """Return random labels on the axes of a SEG-Y file."""
    geometry = segy.scan(path)
    return labels_on(geometry.inlines, geometry.crosslines, geometry.samples)


def assert_like(source, path, values, *, format, tolerance=0.0):
    """Assert equal trace headers, a binary header equal except the format, and the values of each trace by segyio."""
    old, new = segy.scan(source), segy.scan(path)
    raw = [Path(layout.path).read_bytes() for layout in (old.layout, new.layout)]
    assert {i for i in range(3200, 3600) if raw[0][i] != raw[1][i]} <= {3224, 3225}
    headers = [
        np.frombuffer(bytes_, layout.trace, layout.n_traces, layout.start)["header"].tobytes()
        for bytes_, layout in zip(raw, (old.layout, new.layout), strict=True)
    ]
    assert headers[0] == headers[1]
    with segyio.open(str(path), ignore_geometry=True, endian=segy_headers.ENDIANS[new.layout.order]) as file:
        assert int(file.format) == format
        at = [file.attributes(byte)[:] for byte in (189, 193)]
        expected = values.sel(inline=xr.DataArray(at[0]), crossline=xr.DataArray(at[1])).values
        if format == 8 and values.name == "label":
            expected = expected.astype(np.int8)
        np.testing.assert_allclose(file.trace.raw[:], expected, rtol=0, atol=tolerance)


@pytest.mark.parametrize("order", ["inline", "crossline", "shuffled"])
@pytest.mark.parametrize("endian", ["big", "little"])
@pytest.mark.parametrize("format", [1, 5, 8])
def test_labels_have_the_headers_of_their_source(tmp_path, format, endian, order):
    """For every sorting, byte order and sample format, each label is written to its own trace."""
    source = write_by_segyio(tmp_path / "a.sgy", np.zeros((12, 5)), endian=endian, order=in_order(order))
    labels = labels_for(source)
    export_segy(labels, tmp_path / "b.sgy", like=source, format=format)
    assert_like(source, tmp_path / "b.sgy", labels["label"], format=format)


def test_irregular_surveys_stay_irregular(tmp_path):
    """A missing trace, a missing line, a duplicate trace and a dead trace are exported as in the source."""
    places = [(i, x) for i in (10, 11, 13, 14) for x in CROSSLINES if (i, x) not in {(10, 100), (13, 102)}]
    places.append((14, 103))
    source = write_by_segyio(tmp_path / "a.sgy", np.zeros((len(places), 5)), labels=np.array(places))
    with segyio.open(str(source), "r+", ignore_geometry=True) as file:
        file.header[3] = {segyio.su.trid: 2}
    labels = labels_for(source)
    export_segy(labels, tmp_path / "b.sgy", like=source)
    assert_like(source, tmp_path / "b.sgy", labels["label"], format=5)


@pytest.mark.skipif(not DATA, reason="needs the real data in OUTCROP_DATA")
@pytest.mark.parametrize("format", [1, 5, 8])
@pytest.mark.parametrize("name", ["f3_inlines_110_111.sgy", "f3.sgy", "f3-lsb.sgy"])
def test_labels_of_real_files_have_their_headers(tmp_path, name, format):
    """Labels of F3 have its headers, including wrong header values."""
    source = Path(str(DATA), "segy", name)
    labels = labels_for(source)
    export_segy(labels, tmp_path / "b.sgy", like=source, format=format)
    assert_like(source, tmp_path / "b.sgy", labels["label"], format=format)


def test_the_text_header_states_that_the_file_holds_no_amplitudes(tmp_path):
    """The text header names the content of the file, the meaning of codes, the source, and the version of Outcrop."""
    source = write_by_segyio(tmp_path / "survey.sgy", np.zeros((12, 5)))
    labels = labels_for(source)
    for what, title in [
        ("label", "LABEL VOLUME, NOT AMPLITUDES"),
        ("confidence", "CONFIDENCE OF LABELS IN PERCENT, NOT AMPLITUDES"),
        ("score:salt dome", "SCORE OF CLASS SALT DOME IN PERCENT, NOT AMPLITUDES"),
    ]:
        export_segy(labels, tmp_path / "b.sgy", like=source, what=what)
        with segyio.open(str(tmp_path / "b.sgy"), ignore_geometry=True) as file:
            text = file.text[0].decode("ascii")
        assert text.startswith(f"C 1 {title}")
        for part in ("Source: survey.sgy", "Mapping: paper", "Outcrop 9.9", "exported 20"):
            assert part in text
        codes = "0 = not labelled, 255 = uncertain, 1 = chaotic, 2 = other"
        assert (codes in text) == (what == "label")


@pytest.mark.parametrize("table", ["cp500", "cp273", "cp1140", "cp875"])
def test_the_text_header_reads_the_same_in_every_ebcdic_table(tmp_path, table):
    """Brackets of lists and in class names are replaced, because their EBCDIC codes differ between tables."""
    labels = labels_on([1, 2], [3, 4], [0.0, 4.0]).assign_attrs(classes=["a [1]", "b {2}", "c", "d"])
    export_segy(labels, tmp_path / "b.sgy", provenance={"lines": [330, 310], "options": {"size": [99, 99]}})
    raw = (tmp_path / "b.sgy").read_bytes()[:3200]
    assert raw.decode(table) == raw.decode("cp037")
    text = raw.decode(table)
    assert "lines: (330, 310)" in text and "1 = a (1)" in text


def test_numbers_outside_the_codes_are_refused():
    """300 must not become class 44, nor -2 class 254; the error names them. NaN is 0, -1 and 255 are uncertain."""
    for wrong in (300, 256, -2):
        with pytest.raises(ValueError, match=f"code {wrong}"):
            as_codes(np.array([0, 1, wrong]))
    assert as_codes(np.array([np.nan, -1, 254, 255])).tolist() == [0, 255, 254, 255]


def test_two_hundred_classes_fit_the_text_header(tmp_path):
    """A list of classes too long for the header is shortened, and the header names the file with all classes."""
    labels = labels_on(INLINES, CROSSLINES, np.arange(5.0))
    labels.attrs["classes"] = [f"structure of kind {i}" for i in range(200)]
    export_segy(labels, tmp_path / "b.sgy")
    assert "... all in b.sgy.classes.toml" in " ".join(segy.scan(tmp_path / "b.sgy").text.split())
    assert class_table.read_class_table(tmp_path / "b.sgy") == labels.attrs["classes"]
    with pytest.raises(ValueError, match="up to 127"):
        export_segy(labels, tmp_path / "b.sgy", format=8)


@pytest.mark.parametrize("format", [1, 5, 8])
def test_confidence_and_scores_are_written_in_percent(tmp_path, format):
    """255 becomes 100 in every format, whole percent in bytes; scores in bytes and as shares give the same file."""
    source = write_by_segyio(tmp_path / "a.sgy", np.zeros((12, 5)))
    labels = labels_for(source)
    shares = labels.assign(score=labels["score"] / np.float32(255))
    tolerance = 0.5 if format == 8 else 1e-4  # half a percent; IBM holds 21 bits
    cases = [("confidence", labels, labels["confidence"]), ("score:fault", labels, labels["score"][2])]
    for what, exported, values in [*cases, ("score:fault", shares, labels["score"][2])]:
        export_segy(exported, tmp_path / "b.sgy", like=source, what=what, format=format)
        assert_like(source, tmp_path / "b.sgy", values * (100 / 255), format=format, tolerance=tolerance)
        assert sorted(os.listdir(tmp_path)) == ["a.sgy", "b.sgy"]


@pytest.mark.parametrize("format", [5, 8])
@pytest.mark.parametrize("n_classes", [1, 2, 4, 9, 100])
def test_colour_tables_give_every_code_its_colour(tmp_path, n_classes, format):
    """Petrel (one of 256 rows for each code) and OpendTect (nearest segment) find each colour, from code 0 or -1 on."""
    names = [*CLASSES, *(f"class {i}" for i in range(4, n_classes))][:n_classes]
    labels = labels_on(INLINES, CROSSLINES, np.arange(5.0)).assign_attrs(classes=names)
    labels["label"] = labels["label"].clip(max=n_classes)
    export_segy(labels, tmp_path / "b.sgy", format=format)
    petrel = np.loadtxt(tmp_path / "b.sgy.alut", delimiter=",", dtype=int)
    assert petrel.shape == (256, 4)
    header, body, _ = (tmp_path / "b.sgy.coltab").read_text().split("!\n")
    assert header.startswith("dTect V") and header.splitlines()[1] == "Default settings"
    keys = dict(line.split(": ", 1) for line in body.splitlines())
    segments, lowest = int(keys["1.Nr segments"]), -1 if format == 8 else 0
    for code, name in {0: "", **dict(enumerate(names, 1)), (-1 if format == 8 else 255): "uncertain"}.items():
        rgb = petrel[code - lowest]
        position, *opendtect = map(float, keys[f"1.Value-Color.{code - lowest}"].split("`"))
        see_through = float(keys[f"1.Transparency.{code - lowest}"].split("`")[1])
        assert round(position * (segments - 1)) == code - lowest  # position of the segment of this code
        assert rgb[:3].tolist() == opendtect[:3] and rgb[3] == 255 - see_through == 255 * (code != 0)
        if name in COLOURS:
            np.testing.assert_allclose(np.array(opendtect[:3]) / 255, to_rgb(COLOURS[name]), atol=1 / 255)


@pytest.mark.parametrize("format", [1, 5, 8])
def test_labels_are_read_back_and_exported_again(tmp_path, format):
    """Uncertain is -1 in signed bytes, else 255; both are read back as 255 and give the same scores."""
    labels = labels_on(INLINES, CROSSLINES, np.arange(5.0))
    export_segy(labels, tmp_path / "b.sgy", format=format)
    back = open_volume(tmp_path / "b.sgy")
    assert ((back.values == (-1 if format == 8 else 255)) == (labels["label"].values == 255)).all()
    np.testing.assert_array_equal(as_codes(back.values), labels["label"])
    truth = labels["label"].copy(data=np.ones(labels["label"].shape)).assign_attrs(classes=CLASSES)
    scores = [pixel_scores(codes, truth) for codes in (back, labels["label"].assign_attrs(classes=CLASSES))]
    assert str(scores[0]) == str(scores[1])
    for again in (5, 8):
        export_segy(back, tmp_path / "c.sgy", format=again)
        np.testing.assert_array_equal(as_codes(open_volume(tmp_path / "c.sgy").values), labels["label"])


def test_exports_hold_their_provenance(tmp_path):
    """Given provenance, or that of the labels, is in the text header (if it fits), JSON, Zarr and the training set."""
    origin = {"version": "9.9", "volume sha256": "ab" * 32, "lines": {"labelled": 3, "stale": 0, "missing": 1}}
    labels = labels_on(INLINES, CROSSLINES, np.arange(5.0))
    much = origin | {f"key {i}": "x" * 70 for i in range(60)}
    for exported, given_ in ((labels, much), (labels.assign_attrs(provenance=origin), None)):
        expected = given_ or origin
        export_segy(exported, tmp_path / "b.sgy", provenance=given_)
        assert json.loads((tmp_path / "b.sgy.provenance.json").read_text()) == expected
        text = "".join(line[3:].strip() for line in segy.scan(tmp_path / "b.sgy").text.splitlines())
        assert f"volume sha256: {'ab' * 32}" in text.replace("sha256:ab", "sha256: ab")
        export_zarr(exported, tmp_path / f"{len(expected)}.zarr", provenance=given_)
        assert zarr.open_group(tmp_path / f"{len(expected)}.zarr", mode="r").attrs["provenance"] == expected
    export_segy(labels, tmp_path / "b.sgy")
    assert not (tmp_path / "b.sgy.provenance.json").exists()
    volume = open_volume(np.random.default_rng(0).random((3, 4, 5)).astype("f4")).assign_attrs(scaled=True)
    exported = labels.assign_coords({name: volume[name].values for name in volume.dims})
    grid = PatchGrid(volume, size=4, step=1)
    export_training_set(exported, tmp_path / "set", volume=volume, grid=grid, provenance=origin)
    assert json.loads((tmp_path / "set" / "provenance.json").read_text()) == origin


def test_lines_without_labels_become_zero(tmp_path):
    """If labels cover one line, or some of its traces and samples, the remaining samples of the file are 0."""
    source = write_by_segyio(tmp_path / "a.sgy", np.zeros((12, 5)))
    full = labels_for(source)
    for traces, samples in [(slice(1, 3), slice(2, 5)), ([0, 1, 3], [4, 0, 1]), ([3, 0], slice(None))]:
        part = full.isel(inline=[1], crossline=traces, time=samples)
        export_segy(part, tmp_path / "b.sgy", like=source)
        expected = part["label"].reindex_like(full["label"], fill_value=0)
        assert_like(source, tmp_path / "b.sgy", expected, format=5)
        assert int(expected.sum()) > 0
    strangers = full.assign_coords(inline=INLINES + 1)
    with pytest.raises(ValueError, match=r"inline 11, .*a\.sgy does not"):
        export_segy(strangers, tmp_path / "c.sgy", like=source)


@pytest.mark.parametrize("vertical", ["time", "depth"])
def test_labels_without_a_source_get_new_headers(tmp_path, vertical):
    """Axes, bin size, domain and class names are read back; a missing trace stays missing."""
    dims = ("inline", "crossline", vertical)
    labels = labels_on(INLINES, CROSSLINES, 100 + 5.0 * np.arange(5), dims=dims)
    live = np.ones((3, 4), bool)
    live[1, 2] = False
    labels = labels.assign_coords(live=(("inline", "crossline"), live))
    labels["label"].attrs["bin_size"] = (12.5, 30.0)
    export_segy(labels, tmp_path / "b.sgy", format=8)
    back = open_volume(tmp_path / "b.sgy")
    signed = labels["label"].astype("i1")  # uncertain is -1
    xr.testing.assert_equal(back.drop_vars("live"), signed.drop_vars("live").where(live[:, :, None]))
    assert back.attrs["classes"] == CLASSES and back.attrs["bin_size"] == (12.5, 30.0)
    np.testing.assert_array_equal(back["live"], live)
    with segyio.open(str(tmp_path / "b.sgy")) as file:
        np.testing.assert_array_equal(segyio.tools.cube(file), signed.where(live[:, :, None], 0))


def test_the_grid_of_an_open_volume_is_used(tmp_path):
    """The header bytes with which a volume was opened are used again; a volume that is not SEG-Y gives its axes."""
    source = write_by_segyio(tmp_path / "a.sgy", np.zeros((12, 5)), header_bytes=(45, 49))
    volume = open_volume(source, header_bytes=(45, 49))
    labels = labels_on(*(volume[name].values for name in volume.dims))
    export_segy(labels, tmp_path / "b.sgy", like=volume)
    np.testing.assert_array_equal(open_volume(tmp_path / "b.sgy", header_bytes=(45, 49)), labels["label"])
    array = open_volume(xr.DataArray(np.zeros((3, 4, 5)), dict(labels.coords), volume.dims))
    export_segy(labels.isel(inline=[2]), tmp_path / "c.sgy", like=array)
    back = open_volume(tmp_path / "c.sgy")
    xr.testing.assert_equal(back, labels["label"].where(labels["inline"] == 14, 0))


def test_wrong_requests_are_refused_in_one_line(tmp_path):
    """The source is never overwritten; an error names the invalid request and the valid ones."""
    source = write_by_segyio(tmp_path / "a.sgy", np.ones((12, 5)))
    labels = labels_for(source)
    bare = labels.drop_vars("score")
    cases = [
        (labels, {"like": source}, "choose another name"),
        (labels.assign_attrs(source=str(source)), {}, "choose another name"),
        (labels, {"what": "score"}, "score:fault"),
        (labels, {"what": "score:sand"}, "score:fault"),
        (labels, {"what": "inline"}, "label, confidence"),
        (bare, {"what": "score:fault"}, "these labels have label, confidence"),
        (labels, {"like": source, "format": 4}, "format is 4"),
        (labels.assign_attrs(classes=[]), {}, "classes"),
        (labels["label"].drop_attrs(), {}, "classes"),
        (labels.isel(inline=0), {}, "axes"),
    ]
    before = source.read_bytes()
    for given_, options, words in cases:
        path = source if words.startswith("choose") else tmp_path / "b.sgy"
        with pytest.raises(ValueError, match=words) as error:
            export_segy(given_, path, **options)
        assert "\n" not in str(error.value)
    assert source.read_bytes() == before
    assert os.listdir(tmp_path) == ["a.sgy"]


@pytest.fixture
def damaged(tmp_path):
    """Return lazy labels whose last line cannot be read."""
    store = tmp_path / "damaged.zarr"
    group = zarr.open_group(store, mode="w", attributes={"classes": CLASSES})
    shape, dims = (40, 30, 30), ("inline", "crossline", "time")
    group.create_array("label", data=np.ones(shape, "u1"), chunks=(1, 30, 30), dimension_names=dims)
    for name, n in zip(dims, shape, strict=True):
        group.create_array(name, data=np.arange(float(n)), dimension_names=(name,))
    (store / "label" / "c" / "39" / "0" / "0").write_bytes(b"garbage")
    return xr.open_zarr(store, consolidated=False, chunks=None)


def test_a_failed_export_changes_no_files(tmp_path, damaged, monkeypatch):
    """If labels cannot be read to the end, no file or folder is made, and an earlier export with its tables stays."""
    monkeypatch.setattr("outcrop.export.lines.BLOCK", 1)  # the first block of lines is written before the second fails
    good = damaged.isel(inline=slice(0, 33))
    folder = tmp_path / "out"
    folder.mkdir()
    export_segy(good, folder / "b.sgy")
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    volume = open_volume(np.zeros(damaged["label"].shape, np.float32)).assign_attrs(scaled=True)
    grid = PatchGrid(volume, size=20, step=10)
    for attempt in (
        lambda: export_segy(damaged.assign_attrs(classes=["a", "b"]), folder / "b.sgy"),
        lambda: export_zarr(damaged, folder / "b.zarr"),
        lambda: export_training_set(damaged, folder / "set", volume=volume, grid=grid, gap=2),
    ):
        with pytest.raises(RuntimeError):  # raised by the decoder
            attempt()
        assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_zarr_opens_with_xarray_alone(tmp_path):
    """A program without Outcrop reads values, axes, names, colours and CF flags."""
    labels = labels_on(np.arange(100, 170), np.arange(300, 440), 4.0 * np.arange(1, 31))
    live = xr.DataArray(np.arange(70 * 140).reshape(70, 140) % 3 > 0, dims=("inline", "crossline"))
    labels = labels.assign_coords(live=live)
    export_zarr(labels, tmp_path / "b.zarr")
    back = xr.open_zarr(tmp_path / "b.zarr", chunks=None)
    xr.testing.assert_equal(back, labels)
    assert back["label"].dtype == np.uint8
    assert back.attrs["classes"] == back["label"].attrs["classes"] == CLASSES
    assert back.attrs["mapping"] == "paper"
    assert back["label"].attrs["colours"] == ["#ffffff", "#227700", "#33ffff", "#eeee00", "#990066", "#999999"]
    assert back["label"].attrs["flag_meanings"] == "not_labelled chaotic other fault salt_dome uncertain"
    assert back["label"].attrs["flag_values"] == [0, 1, 2, 3, 4, 255]
    assert open_volume(tmp_path / "b.zarr").attrs["classes"] == CLASSES
    assert zarr.open_group(tmp_path / "b.zarr", mode="r").metadata.zarr_format == 3
    with pytest.raises(ValueError, match="already there"):
        export_zarr(labels, tmp_path / "b.zarr")


def test_a_large_volume_passes_through_little_memory(tmp_path, monkeypatch):
    """The export of 32 MB of lazy labels holds one block of lines at a time, for SEG-Y and for Zarr."""
    monkeypatch.setattr("outcrop.export.lines.BLOCK", 1 << 18)
    shape, dims = (512, 128, 512), ("inline", "crossline", "time")
    group = zarr.open_group(tmp_path / "a.zarr", mode="w", attributes={"classes": CLASSES})
    group.create_array("label", shape=shape, chunks=(1, 128, 512), dtype="u1", dimension_names=dims, fill_value=3)
    for name, n in zip(dims, shape, strict=True):
        group.create_array(name, data=np.arange(float(n)), dimension_names=(name,))
    labels = xr.open_zarr(tmp_path / "a.zarr", consolidated=False, chunks=None)
    for export, path in [(export_segy, tmp_path / "b.sgy"), (export_zarr, tmp_path / "b.zarr")]:
        tracemalloc.start()
        export(labels, path)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < 16 << 20
    assert (xr.open_zarr(tmp_path / "b.zarr", chunks=None)["label"] == 3).all()


@pytest.fixture(scope="module")
def survey():
    """Return a volume of 90 lines and its labels."""
    rng = np.random.default_rng(0)
    coords = {"inline": 200 + 2 * np.arange(90), "crossline": 300 + np.arange(48), "time": 4.0 * np.arange(1, 41)}
    volume = xr.DataArray(rng.normal(size=(90, 48, 40)).astype("f4"), coords, list(coords), attrs={"source": "x.sgy"})
    return volume, labels_on(*coords.values())


def weak_labels(grid, n=60):
    """Return weak labels on random patches of a grid, and on one patch off the grid, added twice by hand."""
    rows = np.random.default_rng(1).permutation(len(grid))[:n]
    classes = np.array(CLASSES)[np.arange(n + 2) % 4]
    along = "crossline" if grid.along == "crossline" else "inline"
    added = grid.start_at((250.0, 317.0, 97.0), along=along)
    starts = np.concatenate([grid.places(rows), [added, added]])
    rows = np.append(rows, [-1, -1])
    return WeakLabels(rows, classes, np.linspace(1, 0.5, n + 2), np.zeros(n + 2, int), starts, grid)


@pytest.mark.parametrize("along", ["inline", "crossline", "both"])
@pytest.mark.parametrize("format", ["png", "npy"])
def test_a_training_set_is_read_back_unchanged(tmp_path, survey, format, along):
    """Image, mask and confidence of every patch equal volume and labels at its position, through torch too."""
    volume, labels = survey
    grid = PatchGrid(volume, size=(16, 12), step=12, along=along)
    weak = weak_labels(grid)
    written = export_training_set(labels, tmp_path / "set", volume=volume, grid=grid, weak=weak, format=format, gap=1)
    manifest = pd.read_csv(tmp_path / "set" / "manifest.csv")
    assert list(manifest["file"]) == list(written["file"]) and len(manifest) > 30
    assert set(manifest["split"]) == {"train", "val", "test"}
    seen = 0
    for split in ("train", "val", "test"):
        items = TrainingSet(tmp_path / "set", split)
        assert isinstance(items, torch.utils.data.Dataset) and items.classes == CLASSES
        for place, (image, mask, weight) in zip(items.manifest.itertuples(), items, strict=True):
            at = grid.start_at((place.inline, place.crossline, place.time), along=place.along)
            np.testing.assert_allclose(image[0], grid.cut(volume, at)[0], atol=0 if format == "npy" else 0.5 / 255)
            _, line, trace, top = at
            section = labels.isel({place.along: line})
            window = section.isel({section["label"].dims[0]: slice(trace, trace + 12), "time": slice(top, top + 16)})
            np.testing.assert_array_equal(mask, window["label"].values.T)
            confidence = np.where(labelled(window["label"]), window["confidence"], 0).T / 255
            np.testing.assert_allclose(weight, confidence, atol=1e-6)
            assert place.confidence == pytest.approx(confidence[labelled(mask)].mean(), abs=1e-4)
            seen += 1
    assert (image.dtype, mask.dtype, weight.dtype) == (torch.float32, torch.int64, torch.float32)
    assert (image.shape, mask.shape, weight.shape) == ((1, 16, 12), (16, 12), (16, 12))
    key = ["inline", "crossline", "time", "along", "class", "similarity"]
    given_ = weak.table[key].replace({"time": {97.0: 96.0}})  # a position between samples becomes the nearest sample
    assert seen == len(manifest) == len(manifest.merge(given_, on=key))
    table = tomllib.loads((tmp_path / "set" / "classes.toml").read_text())
    assert table["classes"]["3"] == "fault" and table["colours"]["255"] == "#999999" and table["made"]["gap"] == 1


def test_a_training_set_serves_a_loader_and_other_readers(tmp_path, survey):
    """A pickled copy, a loader and Pillow read the same masks; pictures are grey, masks hold codes."""
    volume, labels = survey
    grid = PatchGrid(volume, size=16, step=16, every=4)
    manifest = export_training_set(labels, tmp_path / "set", volume=volume, grid=grid)
    assert not manifest["similarity"].notna().any() and set(manifest["class"]) <= set(CLASSES)
    items = TrainingSet(tmp_path / "set")
    again = pickle.loads(pickle.dumps(items))
    image, mask, weight = next(iter(torch.utils.data.DataLoader(again, batch_size=4)))
    assert image.shape == (4, 1, 16, 16) and mask.shape == weight.shape == (4, 16, 16)
    with Image.open(tmp_path / "set" / items.manifest["mask"][0]) as picture:
        assert picture.mode == "L"
        np.testing.assert_array_equal(np.asarray(picture), mask[0])


def test_only_labelled_patches_are_exported(tmp_path, survey):
    """Labels of a part of three lines give patches inside this part; without confidence, weights are 1."""
    volume, labels = survey
    grid = PatchGrid(volume, size=16, step=8)
    part = labels["label"].isel(inline=[3, 40, 80], crossline=slice(0, 32)).assign_attrs(classes=CLASSES)
    part[1] = 0
    manifest = export_training_set(part, tmp_path / "set", volume=volume, grid=grid)
    assert set(manifest["inline"]) == {206, 360} and manifest["crossline"].max() == 324
    _, mask, weight = TrainingSet(tmp_path / "set")[0]
    np.testing.assert_array_equal(weight, labelled(mask))
    with pytest.raises(ValueError, match="None of these patches"):
        export_training_set(part.isel(inline=[1]), tmp_path / "none", volume=volume, grid=grid)
    with pytest.raises(ValueError, match="already there"):
        export_training_set(part, tmp_path / "set", volume=volume, grid=grid)
    with pytest.raises(ValueError, match="png or npy"):
        export_training_set(part, tmp_path / "jpg", volume=volume, grid=grid, format="jpg")
    assert sorted(os.listdir(tmp_path)) == ["set"]


@given(st.integers(1, 300), st.integers(0, 30), st.integers(1, 40), st.integers(0, 9))
@settings(max_examples=60, deadline=None)
def test_no_patch_lies_within_the_gap_of_another_split(n_lines, gap, width, seed):
    """At least `gap` lines separate patches of different splits."""
    rng = np.random.default_rng(seed)
    first = rng.integers(0, n_lines, 200)
    last = np.minimum(first + rng.integers(0, width, 200), first.max())
    split = split_by_lines(first, last, rng.choice(CLASSES, 200), gap=gap, seed=seed)
    apart = np.maximum(first[:, None] - last, first - last[:, None]) - 1
    different = (split[:, None] != split) & (split[:, None] != "") & (split != "")
    assert not different.any() or apart[different].min() >= gap
    assert (split != "").any()


def test_splits_share_every_class_and_follow_the_seed():
    """On a long survey each split has about its share of each class, although classes lie in different parts of it."""
    lines = np.sort(np.random.default_rng(0).integers(0, 600, 4000))
    classes = np.where(lines < 200, "salt dome", np.where(lines % 2, "fault", "other"))
    split = split_by_lines(lines, lines, classes, gap=10)
    for name in ("salt dome", "fault", "other"):
        share = {s: np.mean(split[classes == name] == s) for s in ("train", "val", "test")}
        assert 0.5 < share["train"] < 0.8 and min(share["val"], share["test"]) > 0.1
    np.testing.assert_array_equal(split, split_by_lines(lines, lines, classes, gap=10))
    assert any((split_by_lines(lines, lines, classes, gap=10, seed=seed) != split).any() for seed in (1, 2, 3))
    assert set(split_by_lines(lines[:2], lines[:2], classes[:2], gap=10)) == {"train"}
    with pytest.raises(ValueError, match="gap is -1"):
        split_by_lines(lines, lines, classes, gap=-1)


def test_a_missing_split_folder_or_torch_is_named(tmp_path, survey, monkeypatch):
    """The message names the existing splits, the missing file, or the package to install."""
    volume, labels = survey
    grid = PatchGrid(volume.isel(inline=slice(0, 4)), size=16, step=16)
    export_training_set(labels, tmp_path / "set", volume=volume, grid=grid)
    with pytest.raises(ValueError, match="split 'test'; it has train"):
        TrainingSet(tmp_path / "set", "test")
    with pytest.raises(ValueError, match=r"manifest\.csv is missing"):
        TrainingSet(tmp_path)
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ImportError, match=r"outcrop\[torch\]"):
        TrainingSet(tmp_path / "set")
