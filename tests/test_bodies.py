"""Geobodies equal a slow count for any slab size; their tops and bases lie between samples."""

import json
import shutil
import sys
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from scipy import ndimage
from xarray.core.indexing import LazilyIndexedArray

import outcrop as oc
from benchmarks.bodies import stripes
from outcrop import datasets
from outcrop.cli.program import main
from outcrop.geometry.bodies import find_bodies
from outcrop.geometry.fusion import decided, lazy_labels
from outcrop.job.bodies import job_bodies
from outcrop.job.fusion import voted_labels
from outcrop.job.labelling import label_view
from outcrop.job.sections import marked_sections
from outcrop.volumes.lazy import LazyVolume

STEP, BINS = 4.0, (25.0, 12.5)


def labels_of(codes, *, domain="time", **more):
    """Return labels of `other` (1) and `salt dome` (2) on every second inline from 100 and all crosslines from 300."""
    dims = ("inline", "crossline", domain)
    axes = {name: first + step * np.arange(n) for name, first, step, n in
            zip(dims, (100, 300, 40.0), (2, 1, STEP), codes.shape, strict=True)}  # fmt: skip
    data = {name: (dims, values) for name, values in {"label": codes, **more}.items()}
    return xr.Dataset(data, axes, {"classes": ["other", "salt dome"], "bin_size": BINS})


def blobs(shape=(13, 17, 19), *, seed=0, share=0.25):
    """Return codes with many geobodies of all sizes."""
    noise = ndimage.gaussian_filter(np.random.default_rng(seed).standard_normal(shape), 1)
    return np.where(noise > np.quantile(noise, 1 - share), 2, 1).astype(np.uint8)


@pytest.mark.parametrize("along", ["inline", "crossline"])
@pytest.mark.parametrize(("seed", "memory"), [(0, 1), (1, 1), (2, 100 * 17 * 19 * 3), (3, 10**9)])
def test_streamed_bodies_equal_bodies_of_the_whole_volume(along, seed, memory):
    """Slabs of 1 line, of 3 and of all lines give the same geobodies as one call on the whole volume."""
    codes = blobs(seed=seed)
    confidence = np.random.default_rng(seed).integers(0, 256, codes.shape, np.uint8)
    labels = labels_of(codes, confidence=confidence)
    numbers, count = ndimage.label(codes == 2)
    found = find_bodies(labels, "salt dome", min_samples=1, along=along, memory=memory)
    sizes = np.bincount(numbers.ravel())[1:]
    assert len(found.table) == count > 5
    assert found.table["samples"].tolist() == sorted(sizes, reverse=True)
    boxes = ndimage.find_objects(numbers)
    key = ["samples", "inline_first", "inline_last", "crossline_first", "crossline_last", "time_first", "time_last"]
    slow = [
        (size, 100 + 2 * box[0].start, 100 + 2 * (box[0].stop - 1), 300 + box[1].start, 300 + box[1].stop - 1,
         max(box[2].start, 0), box[2].stop - 1, round(confidence[numbers == i].mean() / 255, 9))
        for i, (size, box) in enumerate(zip(sizes, boxes, strict=True), 1)
    ]  # fmt: skip
    ours = found.table.assign(  # between two samples: the sample below a top, the sample above a base
        time_first=np.ceil((found.table["time_first"] - 40) / STEP - 1e-4),
        time_last=np.floor((found.table["time_last"] - 40) / STEP + 1e-4),
        confidence=found.table["confidence"].round(9),
    )[[*key, "confidence"]]
    assert sorted(ours.itertuples(index=False, name=None)) == sorted(slow)


def test_surfaces_are_the_shallowest_and_deepest_samples():
    """Top and base of every geobody lie half a sample outside its first and last sample on each trace, else NaN."""
    codes = blobs(seed=4)
    numbers, _ = ndimage.label(codes == 2)
    found = find_bodies(labels_of(codes), "salt dome", min_samples=30, memory=1)
    for body in found.table["body"]:
        row = found.table.iloc[body - 1]
        sizes = np.bincount(numbers.ravel())
        candidates = [i for i in range(1, len(sizes)) if sizes[i] == row["samples"]]
        tops = []
        for i in candidates:
            inside = numbers == i
            first, last = inside.argmax(axis=2), inside.shape[2] - 1 - inside[..., ::-1].argmax(axis=2)
            seen = inside.any(axis=2)
            top = np.where(seen & (first > 0), 40 + STEP * (first - 0.5), np.nan)
            base = np.where(seen & (last < inside.shape[2] - 1), 40 + STEP * (last + 0.5), np.nan)
            tops.append((top, base))
        axes = {"inline": 100 + 2 * np.arange(13), "crossline": 300 + np.arange(17)}
        ours = tuple(found.surface("salt dome", body, side).reindex(axes).values for side in ("top", "base"))
        assert any(all(np.array_equal(a, b, equal_nan=True) for a, b in zip(ours, pair, strict=True)) for pair in tops)


def test_legs_that_meet_on_the_last_line_are_one_body():
    """Two separate legs, connected on the last line alone, are one geobody if read line by line."""
    codes = np.ones((9, 20, 12), np.uint8)
    codes[:, 2:5, 3:9] = codes[:, 14:17, 3:9] = 2
    assert len(find_bodies(labels_of(codes), "salt dome", min_samples=1, memory=1).table) == 2
    codes[-1, 2:17, 5] = 2
    table = find_bodies(labels_of(codes), "salt dome", min_samples=1, memory=1).table
    assert table["samples"].tolist() == [(codes == 2).sum()]


def test_unlabelled_and_uncertain_samples_separate_bodies():
    """A missing line and an uncertain plane belong to no geobody."""
    codes = np.ones((9, 20, 12), np.uint8)
    codes[1:8, 2:18, 3:9] = 2
    codes[4] = 0
    codes[:, 10] = 255
    assert oc.bodies(labels_of(codes), "salt dome", min_samples=1)["samples"].tolist() == [144, 144, 126, 126]
    assert len(oc.bodies(labels_of(codes), "salt dome", min_samples=130)) == 2


def test_volumes_are_in_units_of_the_survey():
    """The unit is m3 in depth or with a velocity, m2 ms in time without one, and samples without bin sizes."""
    codes = np.ones((9, 20, 12), np.uint8)
    codes[2:7, 2:12, 3:9] = 2
    area = 300 * BINS[0] * BINS[1]
    deep = oc.bodies(labels_of(codes, domain="depth"), min_samples=1).iloc[0]
    assert (deep["class"], deep["volume"], deep["unit"]) == ("salt dome", area * STEP, "m3")
    assert deep[["depth_first", "depth_last"]].tolist() == [50.0, 74.0] and not deep["at_edge"]
    row = oc.bodies(labels_of(codes), min_samples=1).iloc[0]
    assert (row["volume"], row["unit"]) == (area * STEP, "m2 ms")
    row = oc.bodies(labels_of(codes), min_samples=1, velocity=3000).iloc[0]
    assert (row["volume"], row["unit"]) == (area * 6.0, "m3")  # 4 ms two-way at 3000 m/s
    for bins in (None, (25.0, np.nan)):
        labels = labels_of(codes)
        del labels.attrs["bin_size"]
        row = oc.bodies(labels, min_samples=1, bin_size=bins).iloc[0]
        assert (row["volume"], row["unit"]) == (300, "samples")


def test_surfaces_lie_between_the_samples_where_votes_tie():
    """Votes that decrease around two dipping planes give these within 0.05 samples, also with four classes.

    Votes are bytes: near the plane one of 255 is about a fiftieth of a sample.
    """
    shape = (12, 40, 60)
    line, trace, sample = np.ogrid[: shape[0], : shape[1], : shape[2]]
    top, base = (level + 0.31 * line + 0.173 * trace + 0 * sample for level in (10.2, 35.6))
    salt = np.clip(0.3 + 0.15 * np.minimum(sample - top, base - sample), 0.02, 0.58)
    score = np.round(255 * np.stack([0.6 - salt, salt, 0 * salt + 0.2, 0 * salt + 0.2])).astype(np.uint8)
    label = (1 + score.argmax(axis=0)).astype(np.uint8)
    confidence = score.max(axis=0)
    labels = labels_of(label, confidence=confidence)
    labels["score"] = ("class", "inline", "crossline", "time"), score
    labels.attrs["classes"] = ["other", "salt dome", "chaotic", "fault"]
    for side, true in (("top", top), ("base", base)):
        ours = (oc.surface(labels, "salt dome", side=side).values - 40) / STEP
        error = ours - true[..., 0]
        assert np.abs(error).max() < 0.05 and np.sqrt(np.mean(error**2)) < 0.02


def test_confidence_alone_places_a_surface_between_two_classes():
    """With two classes and no scores, the confidence gives the position of the surface."""
    shape = (6, 30, 40)
    line, trace, sample = np.ogrid[: shape[0], : shape[1], : shape[2]]
    top = 12.2 + 0.31 * line + 0.173 * trace
    salt = np.clip(0.5 + 0.2 * (sample - top), 0.0, 1.0)
    confidence = np.round(255 * np.maximum(salt, 1 - salt)).astype(np.uint8)
    labels = labels_of(np.where(salt > 0.5, 2, 1).astype(np.uint8), confidence=confidence)
    error = (oc.surface(labels, "salt dome").values - 40) / STEP - top[..., 0]
    assert np.sqrt(np.mean(error**2)) < 0.03
    hard = (oc.surface(labels[["label"]], "salt dome").values - 40) / STEP - top[..., 0]
    assert 0.2 < np.sqrt(np.mean(hard**2)) < 0.35  # halfway: 1 / sqrt(12)


def test_true_labels_of_salt_give_its_volume_and_top():
    """The volume is within 1 % of the modelled one, the top within half a sample; the base is below the volume."""
    shape = (60, 160, 200)
    _, truth = datasets.synthetic(shape, seed=1)
    top = datasets.synthetic_top(shape, seed=1)
    true = float(np.maximum(STEP * (shape[2] - 0.5) - top, 0).sum()) * 625
    found = find_bodies(truth, "salt dome", bin_size=(25.0, 25.0))
    assert len(found.table) == 1 and found.table["volume"][0] == pytest.approx(true, rel=0.01)
    error = (found.surface("salt dome").reindex_like(top) - top).values
    np.testing.assert_array_equal(np.isfinite(error), np.isfinite(top.values))
    assert np.nanmax(np.abs(error)) <= STEP / 2 + 1e-3
    assert found.table["at_edge"][0] and np.isnan(found.surface("salt dome", side="base")).all()


def test_no_more_than_a_slab_is_read_at_once():
    """200 lines are read in slabs of ten; each line is read once as label and once as confidence."""
    shape, lines_read = (200, 40, 50), []

    def read(key):
        lines_read.append(len(range(*key[0].indices(shape[0]))))
        codes = np.ones((lines_read[-1], *shape[1:]), np.uint8)
        codes[:, 10:30, 20:40] = 2
        return codes

    axes = {"inline": np.arange(200), "crossline": np.arange(40), "time": STEP * np.arange(50)}
    lazy = LazilyIndexedArray(LazyVolume(read, shape, "u1"))
    labels = xr.Dataset({name: (list(axes), lazy) for name in ("label", "confidence")}, axes)
    labels.attrs["classes"] = ["other", "salt dome"]
    table = oc.bodies(labels, "salt dome", memory=100 * 40 * 50 * 10)
    assert table["samples"].tolist() == [200 * 20 * 20] and max(lines_read) == 10 and sum(lines_read) == 400


def test_invalid_arguments_are_refused_in_one_line():
    """The error names problem, value and remedy."""
    labels = labels_of(blobs())
    for call, words in [
        (lambda: oc.bodies(labels, "salt"), "choose one of other, salt dome"),
        (lambda: oc.bodies(labels, min_samples=0), "choose 1 or more"),
        (lambda: oc.bodies(labels, velocity=-1), "positive"),
        (lambda: oc.bodies(labels, along="time"), "inline or crossline"),
        (lambda: oc.bodies(labels["label"]), "attrs['classes']"),
        (lambda: oc.bodies(labels.isel(inline=0)), "crossline and time or depth"),
        (lambda: oc.surface(labels, "salt dome", 99, min_samples=1), "choose 1 to"),
        (lambda: oc.surface(labels, "salt dome", 1, min_samples=10**6), "large enough"),
        (lambda: oc.surface(labels, "salt dome", 1, "left", min_samples=1), "top or base"),
    ]:
        with pytest.raises(ValueError) as error:
            call()
        assert words in str(error.value) and "\n" not in str(error.value)
    assert len(oc.bodies(labels, min_samples=10**6)) == 0


def test_bodies_in_seconds_equal_bodies_in_milliseconds():
    """Labels with times in seconds give the same size in the same unit, and the same top."""
    codes = blobs()
    labels = labels_of(codes)
    seconds = labels.assign_coords(time=labels["time"] / 1000)
    pd.testing.assert_frame_equal(
        oc.bodies(seconds, "salt dome", min_samples=5), oc.bodies(labels, "salt dome", min_samples=5)
    )
    xr.testing.assert_allclose(
        oc.surface(seconds, "salt dome", min_samples=5), oc.surface(labels, "salt dome", min_samples=5)
    )


@pytest.mark.parametrize("along", ["inline", "crossline"])
@pytest.mark.parametrize(("far", "sizes"), [("inline", [144, 108]), ("crossline", [168, 84])])
def test_lines_far_apart_hold_different_bodies(along, far, sizes):
    """A gap of 100 line numbers splits a box into two geobodies, in both directions of reading."""
    codes = np.ones((9, 8, 12), np.uint8)
    codes[1:8, 1:7, 3:9] = 2
    labels = labels_of(codes)
    assert len(oc.bodies(labels, "salt dome", min_samples=1)) == 1
    labels = labels.assign_coords({far: labels[far] + np.where(np.arange(labels.sizes[far]) > 4, 100, 0)})
    for attrs in (labels.attrs, {"classes": labels.attrs["classes"]}):
        table = oc.bodies(labels.drop_attrs().assign_attrs(attrs), "salt dome", min_samples=1, along=along)
        assert table["samples"].tolist() == sizes
        assert (table[f"{far}_last"] - table[f"{far}_first"]).max() < 100


def test_code_255_is_no_class():
    """Labels may name at most 254 classes, because 255 is uncertain."""
    codes = xr.DataArray(np.ones((2, 3, 4), np.uint8), dims=("inline", "crossline", "time"))
    names = ["other", *(f"class {n}" for n in range(254))]
    with pytest.raises(ValueError, match="at most 254"):
        oc.bodies(codes.assign_attrs(classes=names), min_samples=1)
    assert not len(oc.bodies(codes.assign_attrs(classes=names[:-1]), min_samples=1))


def striped(seed, axis, shape=(30, 40, 50)):
    """Return labels of a ball whose votes change from line to line, so that they are striped, and the true codes."""
    rng = np.random.default_rng(seed)
    place = np.stack(np.meshgrid(*map(np.arange, shape), indexing="ij")).astype(float)
    apart = np.linalg.norm(place - np.array(shape).reshape(3, 1, 1, 1) / 2, axis=0)
    wide = [1, 1, 1]
    wide[axis] = shape[axis]
    salt = 1 / (1 + np.exp(apart - 12 + 2.5 * rng.standard_normal(wide)))
    score = np.round(255 * np.stack([1 - salt, salt])).astype(np.uint8)
    labels = labels_of((1 + score.argmax(axis=0)).astype(np.uint8), confidence=score.max(axis=0))
    labels["score"] = ("class", "inline", "crossline", "time"), score
    return labels, np.where(apart < 12, 2, 1)


def test_fused_labels_are_less_striped_and_nearer_to_the_truth():
    """The votes of the crosslines reduce differences between adjacent inlines, and vice versa."""
    inlines, truth = striped(0, 0)
    crosslines, _ = striped(1, 1)
    total = inlines["score"].values.astype(np.uint16) + crosslines["score"].values
    axes = {name: inlines[name].values for name in inlines["label"].dims}
    fused = lazy_labels(lambda key: decided(total[(slice(None), *key)]), axes, inlines.attrs)
    labels = {"inlines": inlines, "crosslines": crosslines, "fused": fused}
    codes = {name: part["label"].assign_attrs(classes=["other", "salt dome"]) for name, part in labels.items()}
    striped_share = {name: stripes(part, "salt dome") for name, part in codes.items()}
    assert striped_share["fused"]["inline"] < 0.6 * striped_share["inlines"]["inline"]
    assert striped_share["fused"]["crossline"] < 0.6 * striped_share["crosslines"]["crossline"]
    wrong = {name: (part.values != truth).mean() for name, part in codes.items()}
    assert wrong["fused"] < min(wrong["inlines"], wrong["crosslines"])
    np.testing.assert_array_equal(fused["label"].values, 1 + total.argmax(axis=0))
    np.testing.assert_allclose(fused["confidence"].values, 255.0 * total.max(0) / total.sum(0), atol=0.51)
    sides = [oc.surface(fused, "salt dome", side=side) for side in ("top", "base")]
    assert np.isfinite(sides[0]).sum() == np.isfinite(sides[1]).sum() > 300


# ---- geobodies of a job ---------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def labelled(tmp_path_factory):
    """Return the folder of a job on a small synthetic survey with all lines labelled."""
    folder = tmp_path_factory.mktemp("bodies")
    truth = datasets.write_synthetic(folder / "v.sgy", (36, 120, 140), seed=0)
    places = datasets.exemplars(oc.open_volume(truth).astype("uint8"), 32, min_share=0.5, seed=0)
    with oc.Job(folder / "v.outcrop", volume=folder / "v.sgy") as job:
        job.choose_index(size=32)
        for name, positions in places.items():
            job.add_exemplar(name, positions[0])
        job.label()
    return folder


@pytest.fixture
def job(labelled, tmp_path):
    """Yield a copy of the labelled job."""
    shutil.copytree(labelled, tmp_path, dirs_exist_ok=True)
    with oc.Job(tmp_path / "v.outcrop", volume=tmp_path / "v.sgy") as one:
        yield one


def around(votes):
    """Return the votes of the middle of three lines plus those of its eight neighbouring traces, 0 where it has 0."""
    total = np.pad(votes.sum(axis=1), [(0, 0), (1, 1), (0, 0)])
    return (total[:, 2:] + total[:, 1:-1] + total[:, :-2]) * (votes[:, 1] > 0)


def test_a_job_is_fused_by_the_votes_of_both_directions(job):
    """Fused labels are those of the summed votes; the votes are kept, and the labels of the job do not change."""
    before = job.labels.load()
    fused = job.fused_labels()
    works = [job.plan, replace(job.plan, across=True)]
    views = [label_view(job, work)[0] for work in works]
    names = views[0].votes(7)[0]
    inlines = np.stack([views[0].votes(i)[1] for i in (6, 7, 8)], axis=1).astype(int)
    crosslines = np.stack([views[1].votes(j)[1][:, 6:9] for j in range(120)], axis=2).astype(int)
    codes = np.array([job.classes[name] for name in names])
    for one_sided in ([], ["fault"]):
        both = inlines + crosslines
        for name in one_sided:  # the votes of the inlines replace those of both directions
            both[names.index(name)] = 2 * inlines[names.index(name)]
        both = around(both)
        ours = voted_labels(job, works, dict.fromkeys(one_sided, 0.1))
        np.testing.assert_array_equal(ours["label"][7].values, codes[both.argmax(axis=0)])
        np.testing.assert_allclose(ours["confidence"][7].values, 255 * both.max(0) / both.sum(0), atol=0.51)
        ranked = np.sort(both, axis=0)
        np.testing.assert_allclose(ours["margin"][7].values, 255 * (ranked[-1] - ranked[-2]) / both.sum(0), atol=0.51)
    parts = [ours["label"][rows].values for rows in (slice(0, 7), slice(7, 8), slice(8, None))]
    np.testing.assert_array_equal(np.concatenate(parts), ours["label"].values)  # for any blocks
    crossing = [view["label"].values for view in (voted_labels(job, works[:1]), voted_labels(job, works[1:]))]
    for name, share in fused.attrs["one_sided"].items():
        one, other = (labels == job.classes[name] for labels in crossing)
        assert share < 0.3 and abs(share - (one & other).sum() / (one | other).sum()) < 0.1
    assert (
        fused.attrs["bin_size"] == before.attrs["bin_size"] == [25.0, 25.0]
        and len(fused.attrs["provenance"]["votes"]) == 2
    )
    assert job.labels.load().equals(before)
    assert not any(row["kind"] == "votes" for row in job.clean())
    assert (fused["label"] != before["label"]).any()


def test_strokes_hold_in_fused_labels(job):
    """Fused labels keep strokes on inlines and crosslines; labels painted as wrong do not return."""
    job.paint("fault", [(120, 320, 100), (120, 340, 140)], radius=3)
    job.paint("fault", [(118, 360, 300), (124, 360, 300)], radius=2, along="crossline")
    job.paint("wrong", [(112, 330, 300), (112, 380, 300)], radius=5)
    job.label()
    fused = job.fused_labels()["label"].load()
    for (direction, position), codes in marked_sections(job, job.plan)[0].items():
        section = fused.isel({("inline", "crossline")[direction]: position}).values
        assert (codes > 0).any() and (section[codes > 0] == codes[codes > 0]).all()
    for (direction, position), wrong in marked_sections(job, job.plan)[1].items():
        section = fused.isel({("inline", "crossline")[direction]: position}).values
        assert wrong.any() and not any((section[mask] == code).any() for code, mask in enumerate(wrong, 1))


def test_bodies_of_a_job_need_labels_that_are_up_to_date(job):
    """Missing labels are refused in one line; stale labels too unless requested, with a note on the directions used."""
    job.add_exemplar("other", (115, 340, 120))
    with pytest.raises(ValueError, match=r"older decisions.*--stale"):
        job_bodies(job)
    found, labels, notes = job_bodies(job, stale=True, fuse=False)
    assert len(found.table) and not labels.attrs["fused"] and "inlines alone" in notes[0]
    job.undo()
    found, labels, _ = job_bodies(job, min_samples=1)
    assert labels.attrs["fused"]
    total = {name: int((labels["label"] == code).sum()) for name, code in job.classes.items()}
    for name in ("fault", "salt dome"):
        assert found.table.loc[found.table["class"] == name, "samples"].sum() == total[name]
    new = oc.Job(job.path.parent / "new.outcrop", volume=job.volume)
    with new, pytest.raises(ValueError, match="no labels yet"):
        job_bodies(new)


def test_narrow_surveys_are_not_fused(job):
    """If crosslines are shorter than a patch, the inlines are used alone, and a request to fuse is refused."""
    job.choose_index(size=(32, 40))
    _, labels, _ = job_bodies(job, stale=True)
    assert not labels.attrs["fused"]
    with pytest.raises(ValueError, match="36 traces, fewer than a patch"):
        job_bodies(job, stale=True, fuse=True)


def run(capsys, monkeypatch, *words):
    """Run the command line, and return exit code, standard output and standard error."""
    monkeypatch.setattr(sys, "argv", ["outcrop", *map(str, words)])
    with pytest.raises(SystemExit) as stop:
        main()
    return stop.value.code, *capsys.readouterr()


def test_bodies_at_the_command_line(job, tmp_path, capsys, monkeypatch):
    """The command writes a table, equal horizons in two formats, figures and a report, but not into a used folder."""
    out, top = tmp_path / "out", tmp_path / "top.csv"
    exact = datasets.synthetic_top(job.volume.shape, seed=0)
    exact.to_dataframe().dropna().reset_index().to_csv(top, index=False)
    words = ["bodies", job.path, "-o", out, "--min-samples", 200, "--top", f"salt-dome={top}", "--json"]
    code, output, error = run(capsys, monkeypatch, *words)
    assert code == 0, error
    answer = json.loads(output)
    table = pd.read_csv(out / "bodies.csv")
    assert table["class"].tolist() == [row["class"] for row in answer["bodies"]]
    assert "salt dome" in set(table["class"]) and "other" not in set(table["class"])
    points = pd.read_csv(out / "salt-dome-1-top.csv")
    assert list(points.columns) == ["inline", "crossline", "x", "y", "time"]
    irap = np.loadtxt(out / "salt-dome-1-top.poi")
    np.testing.assert_allclose(irap, points[["x", "y", "time"]], atol=0.005)
    assert answer["tops"][0]["traces"] > 0 and 0 < answer["tops"][0]["found"] <= 1
    assert {"report.html", "tops.png", "salt-dome.png", "provenance.json"} <= {path.name for path in out.iterdir()}
    assert "m2 ms" in (out / "report.html").read_text()
    code, _, error = run(capsys, monkeypatch, *words)
    assert code == 2 and "already there" in error


def test_wrong_requests_for_bodies_are_one_line(job, tmp_path, capsys, monkeypatch):
    """The exit code is 2, the message names problem, value and remedy, and no file is written."""
    (tmp_path / "bad.poi").write_text("not a horizon\n")
    out = tmp_path / "out"
    for words, remedy in [
        (["--class", "channel"], "choose one of"),
        (["--min-samples", 0], "1 or more"),
        (["--velocity", -3], "positive"),
        (["--top", "salt-dome"], "CLASS=FILE"),
        (["--top", "channel=top.csv"], "choose one of"),
        (["--top", "salt-dome=nowhere.csv"], "No such file"),
        (["--top", f"salt-dome={tmp_path / 'bad.poi'}"], "lines with x, y, time"),
    ]:
        code, _, error = run(capsys, monkeypatch, "bodies", job.path, "-o", out, "--no-fuse", *words)
        assert (code, error.count("\n")) == (2, 1) and remedy in error and not out.exists()


def test_a_job_along_crosslines_is_fused_with_its_inlines(job):
    """The votes of all crosslines are combined with those of the inlines."""
    job.choose_index(size=32, along="crossline")
    job.label()
    found, labels, _ = job_bodies(job, min_samples=1)
    assert labels.attrs["fused"] and len(job.labelled) == 120
    views = [label_view(job, job.plan)[0], label_view(job, replace(job.plan, across=True))[0]]
    names = views[0].votes(11)[0]
    crosslines = np.stack([views[0].votes(j)[1] for j in (10, 11, 12)], axis=1).astype(int)
    inlines = np.stack([views[1].votes(i)[1][:, 10:13] for i in range(36)], axis=2).astype(int)
    both = inlines + crosslines
    for name in labels.attrs["one_sided"]:
        both[names.index(name)] = 2 * crosslines[names.index(name)]
    codes = np.array([job.classes[name] for name in names])
    np.testing.assert_array_equal(labels["label"][:, 11].values, codes[around(both).argmax(axis=0)])
    samples = {name: int((labels["label"] == code).sum()) for name, code in job.classes.items()}
    for name, rows in found.table.groupby("class"):
        assert rows["samples"].sum() == samples[name]
