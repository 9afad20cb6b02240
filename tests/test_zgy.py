"""ZGY files: samples and axes are equal to the written ones, for any selection; damage gives an error of one line."""

import importlib.util
import json
import pickle

import numpy as np
import pytest
import xarray as xr
from mutations import context, limits, look_at, mutate_zgy

import outcrop as oc
from outcrop.geometry.coordinates import map_grid, trace_coordinates
from outcrop.volumes import segy, zgy
from outcrop.volumes.lazy import live_traces
from outcrop.volumes.opening import open_volume
from outcrop.volumes.summary import describe, sample_unit

pytest.importorskip("openzgy")
from write_zgy import header_size, write_zgy

SHAPE = (21, 18, 35)
BRICK = (8, 8, 16)  # the volume has several bricks along each axis, the last of them incomplete


def noise(seed=0, shape=SHAPE):
    """Return a volume of noise."""
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


@pytest.mark.parametrize("kind", ["float", "int16", "int8"])
def test_samples_are_those_of_openzgy(tmp_path, kind):
    """Any selection of float and scaled integer samples equals the samples that OpenZGY reads."""
    path = write_zgy(tmp_path / "v.zgy", noise(), kind=kind, bricksize=BRICK)
    expected = np.zeros(SHAPE, np.float32)
    with zgy.openzgy().ZgyReader(str(path)) as reader:
        reader.read((0, 0, 0), expected)
    volume = open_volume(path)
    assert volume.dims == ("inline", "crossline", "time") and volume.shape == SHAPE
    for key in [(), 9, np.s_[:, 8], np.s_[:, :, 33], (20, 17, 34), np.s_[::-3, ::5, 30:2:-7], np.s_[5:5]]:
        np.testing.assert_allclose(volume[key].values, expected[key], atol=1e-6)
    np.testing.assert_allclose(
        volume[[19, 2, 7], 3:15, [34, 0]].values, expected[[19, 2, 7], 3:15][..., [34, 0]], atol=1e-6
    )
    if kind == "float":
        np.testing.assert_array_equal(expected, noise())


def test_a_volume_is_lazy_and_can_be_pickled(tmp_path):
    """Samples are read on access, also after pickling, and the attributes state how to open the volume again."""
    volume = open_volume(write_zgy(tmp_path / "v.zgy", noise(), bricksize=BRICK))
    section = pickle.loads(pickle.dumps(volume[4:]))[3]
    np.testing.assert_array_equal(section.values, noise()[7])
    assert not volume.variable._in_memory
    source, options = json.loads(json.dumps([volume.attrs["source"], volume.attrs["options"]]))
    assert open_volume(source, **options).identical(volume)
    write_zgy(tmp_path / "v.zgy", noise(shape=(5, 6, 7)), bricksize=BRICK)
    with pytest.raises(ValueError, match="changed since it was opened"):
        volume[0].values  # noqa: B018


def test_lines_that_descend_in_the_file_ascend_in_the_volume(tmp_path):
    """Labels and samples stay together, and X and Y belong to the lines."""
    corners = [(1000.0, 5000.0), (1000.0, 5400.0), (2700.0, 5000.0), (2700.0, 5400.0)]
    path = write_zgy(tmp_path / "v.zgy", noise(), first=(140, 300), step=(-2, 3), corners=corners, bricksize=BRICK)
    volume = open_volume(path)
    assert volume.inline.values.tolist() == list(range(100, 141, 2))
    assert volume.crossline.values.tolist() == list(range(300, 352, 3))
    np.testing.assert_array_equal(volume.sel(inline=140).values, noise()[0])
    np.testing.assert_array_equal(volume.sel(inline=100, crossline=303).values, noise()[20, 1])
    assert volume.attrs["bin_size"] == (20.0, 100.0)
    for x, y in (map_grid(volume).to_map([140, 100], [300, 351]), trace_coordinates(volume, [140, 100], [300, 351])):
        np.testing.assert_allclose([x, y], [[1000, 2700], [5000, 5400]], atol=1e-6)


@pytest.mark.parametrize(
    ("unit", "start", "interval", "domain", "first", "step", "shown"),
    [
        ("ms", 8.0, 4.0, "time", 8.0, 4.0, "ms"),
        ("s", 0.1, 0.002, "time", 100.0, 2.0, "ms"),
        ("m", 1000.0, 5.0, "depth", 1000.0, 5.0, "m"),
        ("ft", 100.0, 10.0, "depth", 30.48, 3.048, "m"),
        ("", 8.0, 4.0, "time", 8.0, 4.0, None),
    ],
)
def test_units_are_those_of_the_file(tmp_path, unit, start, interval, domain, first, step, shown):
    """Any unit of the file becomes ms or m; without a unit in the file the volume has none."""
    volume = open_volume(write_zgy(tmp_path / "v.zgy", noise(), unit=unit, start=start, interval=interval))
    assert volume.dims[2] == domain
    np.testing.assert_allclose(volume[domain].values[:2], [first, first + step], atol=1e-4)
    assert sample_unit(volume) == shown == describe(volume)["unit"]
    assert ("sample_interval" in volume.attrs) == (shown is not None)


def test_a_domain_that_contradicts_the_file_is_refused(tmp_path):
    """A depth volume is not opened as time; if the file does not state the domain, the user can."""
    path = write_zgy(tmp_path / "v.zgy", noise(), unit="m")
    with pytest.raises(ValueError, match="says that its samples are depth"):
        open_volume(path, domain="time")
    assert open_volume(write_zgy(tmp_path / "u.zgy", noise(), unit=""), domain="depth").dims[2] == "depth"


def test_bricks_never_written_are_missing_traces(tmp_path):
    """Bricks that were never written are NaN and not live; a constant brick has its value."""
    api = zgy.openzgy()
    options = {"zunitdim": api.UnitDimension.time, "zunitfactor": 0.001, "zstart": 0.0, "zinc": 4.0}
    options |= {"size": (16, 16, 16), "bricksize": (8, 8, 8), "annotstart": (1, 1), "annotinc": (1, 1)}
    with api.ZgyWriter(str(tmp_path / "v.zgy"), datatype=api.SampleDataType.float, **options) as writer:
        writer.write((0, 0, 0), noise(shape=(8, 16, 16)))
        writer.write((8, 0, 0), np.full((8, 8, 16), 7, np.float32))
    volume = open_volume(tmp_path / "v.zgy")
    assert (~live_traces(volume)).sum() == 64 and not live_traces(volume)[8:, 8:].any()
    assert np.isnan(volume.values[8:, 8:]).all() and np.isfinite(volume.values[:8]).all()
    assert (volume.values[8:, :8] == 7).all()


@pytest.fixture(scope="module")
def labelled(tmp_path_factory):
    """Return two equal jobs on the same synthetic volume as SEG-Y and as ZGY, indexed and labelled."""
    folder = tmp_path_factory.mktemp("same")
    oc.datasets.write_synthetic(folder / "v.sgy", (10, 100, 96), seed=3)
    volume = open_volume(folder / "v.sgy")
    corners = [(5e5, 6e6), (5e5, 6e6 + 9 * 25), (5e5 + 99 * 25, 6e6), (5e5 + 99 * 25, 6e6 + 9 * 25)]
    first = (int(volume.inline[0]), int(volume.crossline[0]))
    options = {"first": first, "start": float(volume.time[0]), "interval": float(volume.time[1] - volume.time[0])}
    write_zgy(folder / "v.zgy", volume.values, corners=corners, **options)
    jobs = []
    for name in ("v.sgy", "v.zgy"):
        job = oc.Job(folder / f"{name}.outcrop", volume=folder / name)
        job.index(size=32, step=16)
        for row, (class_, trace) in enumerate({"fault": 50, "other": 20}.items()):
            place = [volume.inline[4 + row], volume.crossline[trace], volume.time[48]]
            job.add_exemplar(class_, [float(one) for one in place])
        job.label([first[0] + 3, first[0] + 4])
        jobs.append(job)
    return jobs


def test_labels_equal_those_of_segy(labelled):
    """Labels and confidence are identical."""
    ours, theirs = (job.labels for job in labelled)
    assert (ours["label"].values > 0).any()
    for name in ("label", "confidence"):
        np.testing.assert_array_equal(ours[name].values, theirs[name].values)


def test_labels_are_exported_as_segy_with_coordinates_or_as_zarr(labelled, tmp_path):
    """Exports have the axes of the ZGY file, and the trace headers have X and Y from its corners."""
    job = labelled[1]
    job.export(tmp_path / "labels.sgy")
    job.export(tmp_path / "labels.zarr")
    found, stored = open_volume(tmp_path / "labels.sgy"), xr.open_zarr(tmp_path / "labels.zarr")
    np.testing.assert_array_equal(found.values, job.labels["label"].values)
    np.testing.assert_array_equal(stored["label"].values, job.labels["label"].values)
    for axis in found.dims:
        np.testing.assert_array_equal(found[axis].values, job.volume[axis].values)
    geometry = segy.scan(tmp_path / "labels.sgy")
    assert geometry.bin_size == (25.0, 25.0)
    x, y = map_grid(found).to_map(found.inline.values[[0, -1]], found.crossline.values[[0, -1]])
    np.testing.assert_allclose([x, y], [[5e5, 5e5 + 99 * 25], [6e6, 6e6 + 225]], atol=0.02)


def test_without_pyzgy_the_error_states_what_to_install(tmp_path, monkeypatch):
    """The format is recognised by the content of the file, not by its name."""
    path = write_zgy(tmp_path / "v.sgy", noise())
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ValueError, match=r"is a ZGY file.*pip install 'outcrop\[zgy\]'"):
        open_volume(path)


def test_compressed_bricks_need_zfpy(tmp_path):
    """With zfpy, samples are read within the error of the compression; without it, the error names zfpy."""
    path = tmp_path / "v.zgy"
    if importlib.util.find_spec("zfpy") is None:
        raw = bytearray(write_zgy(path, noise(), bricksize=(32, 32, 64)).read_bytes())
        entry = zgy.scan(path).table[0, 0, 0].tobytes()
        at = raw.rindex(entry, 0, 1 << 16)
        raw[at + 7] = zgy.COMPRESSED
        path.write_bytes(raw)
        with pytest.raises(ValueError, match=r"is a compressed ZGY file.*pip install zfpy"):
            open_volume(path)
        return
    compressor = zgy.openzgy().ZgyCompressFactory("ZFP", snr=70)
    volume = open_volume(write_zgy(path, noise(), compressor=compressor, bricksize=(32, 32, 64)))
    np.testing.assert_allclose(volume[3].values, noise()[3], atol=0.01)


def log_mutations(raw, header, seeds, folder, log_path):
    """Mutate headers, open each file, and log the outcomes."""
    limits(6 << 30)
    with open(log_path, "a") as log:
        for seed in seeds:
            kind, damaged = mutate_zgy(raw, np.random.default_rng(seed), header)
            (folder / "m.zgy").write_bytes(damaged)
            print(json.dumps([seed, kind, look_at(folder / "m.zgy")]), file=log, flush=True)


def test_mutated_headers_give_a_volume_or_an_error_of_one_line(tmp_path):
    """Any content of the headers gives a volume or an error of one line; `benchmarks/zgy.py` tries 500 mutations."""
    pytest.importorskip("resource", reason="limits on a process are POSIX's")
    path = write_zgy(tmp_path / "v.zgy", noise(), bricksize=BRICK)
    arguments = (path.read_bytes(), header_size(path), range(60), tmp_path, tmp_path / "cases")
    process = context.Process(target=log_mutations, args=arguments)
    process.start()
    process.join(300)
    cases = [json.loads(line) for line in (tmp_path / "cases").read_text().splitlines()]
    assert process.exitcode == 0 and len(cases) == 60
    assert [case for case in cases if case[-1] not in ("answered", "refused")] == []
    assert {case[-1] for case in cases} == {"answered", "refused"}


def test_the_command_line_prints_one_error(tmp_path, outcrop):
    """A damaged file gives exit code 2 and no output of OpenZGY."""
    raw = bytearray(write_zgy(tmp_path / "v.zgy", noise()).read_bytes())
    raw[103:107] = (-5).to_bytes(4, "little", signed=True)
    (tmp_path / "bad.zgy").write_bytes(raw)
    assert outcrop("info", tmp_path / "v.zgy")[0] == 0
    code, out, err = outcrop("info", tmp_path / "bad.zgy")
    assert code == 2 and out == "" and len(err.strip().splitlines()) <= 3 and "damaged headers" in " ".join(err.split())
