"""A job with the mapping by points labels from the first click, without an index; clicked samples keep their class."""

import shutil

import numpy as np
import pytest
import segyio

import outcrop as oc
from outcrop.job.bodies import write_bodies
from outcrop.job.choices import judge
from outcrop.job.fitting import evidence
from outcrop.job.hints import Advice


@pytest.fixture(scope="module")
def made():
    """Return a synthetic volume and its truth."""
    return oc.datasets.synthetic((6, 160, 128), seed=4)


@pytest.fixture
def job(made, tmp_path):
    """Yield a job with one click for each class on one line."""
    volume, truth = made
    with oc.Job(tmp_path / "v.outcrop", volume=volume) as one:
        for code, name in enumerate(truth.attrs["classes"], 1):
            places = np.argwhere(truth.values[2] == code)
            trace, sample = places[len(places) // 2]
            one.add_exemplar(name, (102, float(volume["crossline"][trace]), float(volume["time"][sample])))
        yield one


def shown(job, labels, place):
    """Return the class at a position in labels; None if it has none."""
    code = int(labels["label"].sel(dict(zip(labels["label"].dims, place, strict=True)), method="nearest"))
    return labels.attrs["classes"][code - 1] if 0 < code < 255 else None


def test_labels_need_no_index_and_every_click_has_its_class(job):
    """Labels are computed without an index; each clicked sample has its class."""
    labels = job.label([102], mapping="points")
    assert not job.stages.keys("index") and not job.stages.keys("retrieved")
    for one in job.plan.state.exemplars:
        assert shown(job, labels, one.place) == one.name


def test_the_same_decisions_give_the_same_labels(job, tmp_path, made):
    """A copy of the decisions in another job gives equal labels; after an undo the old votes are used again."""
    before = job.label([101], mapping="points").load()
    key = job.plan.keys["votes"]
    job.add_exemplar("other", (103, 310, 100))
    assert job.plan.keys["votes"] != key
    job.undo()
    assert job.plan.keys["votes"] == key and not job.label([101])["stale"].any()
    job.log.give(tmp_path / "all.jsonl")
    with oc.Job(tmp_path / "o.outcrop", volume=made[0]) as other:
        other.log.take(tmp_path / "all.jsonl")
        again = other.label([101], mapping="points")
        np.testing.assert_array_equal(again["label"].values, before["label"].values)
        np.testing.assert_array_equal(again["confidence"].values, before["confidence"].values)


def test_a_rejected_patch_and_a_stroke_teach(job):
    """The centre of a rejected patch is not of its class, and a stroke changes lines without strokes."""
    labels = job.label(mapping="points").load()
    code = job.classes["fault"]
    line, trace, sample = (int(part[0]) for part in np.nonzero(labels["label"].values == code))
    place = [float(labels[name][at]) for name, at in zip(labels["label"].dims, (line, trace, sample), strict=True)]
    judge(job, [("fault", place, "inline")], "reject")
    assert shown(job, job.label(), place) != "fault"
    before = job.label([105])["label"].values
    job.paint("salt dome", [(102, 400.0, 80.0), (102, 440.0, 80.0)], radius=10)
    assert (job.label([105])["label"].values != before).any()


@pytest.mark.parametrize("away", [(0, 0, 4), (0, 1, 0), (0, 0, 0)])
def test_a_rejected_patch_next_to_a_click_counts(job, away):
    """The click keeps its class; the centre of a rejected patch has another class, unless it is the click."""
    click = (103, 380, 240)
    rejected = [part + step for part, step in zip(click, away, strict=True)]
    job.add_exemplar("fault", click)
    judge(job, [("fault", rejected, "inline")], "reject")
    labels = job.label([103])
    assert shown(job, labels, click) == "fault"
    assert (shown(job, labels, rejected) == "fault") == (not any(away))
    job.paint("fault", [rejected], radius=0.5)
    assert shown(job, job.label([103]), rejected) == "fault"


def test_a_place_of_another_survey_teaches_nothing(job):
    """Clicks and verdicts on lines and at times outside this volume are kept and not used."""
    for name, place in {"salt dome": [477, 340, 100], "fault": [103, 340, 9000]}.items():
        job.log.add({"what": "exemplar", "class": name, "place": place})
        judge(job, [("fault", place, "inline")], "reject")
    axes = {(point.line, point.trace, point.sample) for point in evidence(job, job.plan)}
    job.undo()
    assert len(axes) == len(evidence(job, job.plan)) == len(job.classes)


def test_a_borrowed_mapper_uses_features_without_positions(job, tmp_path):
    """A borrowed mapper labels another volume by features alone; the labels of the first job do not change."""
    before = job.label([102], mapping="points").load()
    volume, _ = oc.datasets.synthetic((4, 160, 128), seed=5)
    with oc.Job(tmp_path / "b.outcrop", volume=volume) as other:
        other.borrow_mapper(job)
        mapper = other.mapper()
        assert not mapper.points_ and not mapper.layered_ and mapper.forest_ is None
        assert (other.label([101])["label"] > 0).all()
    np.testing.assert_array_equal(job.label([102])["label"].values, before["label"].values)


def test_a_saved_mapper_labels_any_volume_without_places(job, tmp_path, made):
    """A saved mapper has no positions of clicks; the job itself keeps them."""
    before = job.label([102]).load()
    job.mapper().save(tmp_path / "mapper")
    loaded = oc.load_mapper(tmp_path / "mapper")
    assert job.mapper().points_ and not loaded.points_
    again = oc.Job(job.path, volume=made[0])  # reads its mapper from the folder
    assert again.mapper().points_
    np.testing.assert_array_equal(again.label([102])["label"].values, before["label"].values)


def test_cleaning_keeps_the_sample_of_the_survey(job):
    """`clean` keeps the sample of the survey that the present decisions use."""
    job.label([102], mapping="points")
    job.clean()
    assert job.stages.keys("survey") == [job.plan.survey_stage.key]


def test_a_background_that_was_removed_is_not_added_again(job):
    """After a person removed the background class, labelling does not add it again."""
    job.remove_class("other")
    labels = job.label([102])
    assert "other" not in job.classes and job.plan.background_name is None
    assert set(np.unique(labels["label"])) <= {0, *job.classes.values()}


def test_a_missing_background_is_added_once(made, tmp_path):
    """Samples that look like no click become 'other'; after an undo they belong to the clicked classes."""
    volume, truth = made
    with oc.Job(tmp_path / "n.outcrop", volume=volume) as job:
        for code, name in enumerate(truth.attrs["classes"], 1):
            places = np.argwhere(truth.values[2] == code)
            trace, sample = places[len(places) // 2]
            if name in ("fault", "salt dome"):
                job.add_exemplar(name, (102, float(volume["crossline"][trace]), float(volume["time"][sample])))
        with pytest.warns(Advice, match="looks like none of the classes, so class 'other' was added"):
            labels = job.label([102])
        assert job.plan.background_name == "other" and (labels["label"] == job.classes["other"]).mean() > 0.2
        job.undo()
        with pytest.warns(Advice, match="No class is the background"):
            labels = job.label([102])
        assert job.plan.background_name is None and set(np.unique(labels["label"])) <= {0, *job.classes.values()}


def test_labelling_warns_of_similar_classes_and_of_a_single_class(tmp_path, made):
    """Clicks of two classes on similar samples give a warning, and so does a single class, which has no labels."""
    volume, truth = made
    job = oc.Job(tmp_path / "a.outcrop", volume=volume)
    lines, traces, samples = (volume[dim].values for dim in volume.dims)
    names = list(truth.attrs["classes"])
    away = np.argwhere(truth[2].values == names.index("other") + 1)
    first, last = away[len(away) // 4], away[3 * len(away) // 4]
    for name, (trace, sample) in [("other", first), ("other", last), ("salt dome", first + 4)]:
        job.add_exemplar(name, (lines[2], traces[trace], samples[sample]))
    with pytest.warns(Advice, match="looks more like"):
        job.label(lines=[lines[2]])
    alone = oc.Job(tmp_path / "b.outcrop", volume=volume)
    alone.add_exemplar("salt dome", (lines[2], traces[60], samples[100]))
    with pytest.warns(Advice, match="only class, so there are scores and no labels"):
        alone.label(lines=[lines[2]])


def test_a_joined_job_teaches_with_its_clicks_and_strokes(job, tmp_path, made):
    """Labels with two jobs equal those of one job with the decisions of both, with different patch sizes too."""
    volume, _ = made
    place, stroke = (103, 340.0, 60.0), [(104, 400.0, 80.0), (104, 420.0, 80.0)]
    with oc.Job(tmp_path / "w.outcrop", volume=volume) as other:
        other.choose_index(size=48)
        other.add_exemplar("fault", place)
        other.paint("salt dome", stroke, radius=5)
    joined = job.label([105], with_jobs=[other.path])["label"].values
    alone = job.label([105], with_jobs=[])["label"].values
    job.add_exemplar("fault", place)
    job.paint("salt dome", stroke, radius=5)
    both = job.label([105])["label"].values
    np.testing.assert_array_equal(joined, both)
    assert (joined != alone).any()
    job.label([105], with_jobs=[other.path])
    shutil.rmtree(other.path)
    with pytest.raises(ValueError, match="given with --with, does not exist"):
        job.label([105])
    with pytest.raises(ValueError, match="learns from one job"):
        job.label([105], mapping="paper", with_jobs=[job.path])


def test_a_stroke_across_the_lines_teaches(job):
    """A stroke on a crossline gives points on at most eight of the lines that it crosses."""
    job.paint("salt dome", [(101, 400.0, 80.0), (104, 400.0, 80.0)], radius=1.5, along="crossline")
    strokes = [point for point in evidence(job, job.plan) if point.kind == "stroke"]
    trace = int(np.flatnonzero(job.axes[1] == 400)[0])
    assert strokes and {(point.trace, point.name) for point in strokes} == {(trace, "salt dome")}
    assert {point.line for point in strokes} <= set(range(6)) and len({point.line for point in strokes}) <= 8
    before = job.mapper()
    job.undo()
    assert not np.array_equal(before.votes(job.grid().section(job.volume, 0, 5)[0].T, 5), votes_of(job, 5))


def votes_of(job, line):
    """Return the votes of the mapper of a job on a line."""
    return job.mapper().votes(job.grid().section(job.volume, 0, line)[0].T, line)


def test_a_job_that_chose_a_removed_mapping_is_labelled_by_the_default(job):
    """Its decisions stay; a warning reports that the default mapping is used instead."""
    job.log.add({"what": "set", "name": "label", "value": {"mapping": "encoder"}})
    with pytest.warns(UserWarning, match="Mapping 'encoder' no longer exists"):
        opened = oc.Job(job.path, job.volume)
    assert opened.plan.label.mapping == "points" and opened.status()["label"]["mapping"] == "points"
    assert (opened.label([101])["label"] > 0).all()
    opened.close()


@pytest.mark.parametrize("shape", [(4, 26, 128), (2, 128, 20), (1, 1, 200), (3, 32, 64)])
def test_a_survey_too_small_for_patches_is_labelled(tmp_path, shape):
    """Fewer than 32 traces or samples are labelled without patches; a search is refused with a remedy."""
    volume = np.random.default_rng(0).standard_normal(shape).cumsum(axis=-1)
    with oc.Job(tmp_path / "s.outcrop", volume=volume) as small:
        small.add_exemplar("salt", (0, shape[1] // 2, 2))
        small.add_exemplar("other", (shape[0] - 1, shape[1] // 3, shape[2] - 2))
        labels = small.label()
        assert labels["label"].values.all() and set(np.unique(labels["label"])) == {1, 2}
        np.testing.assert_array_equal(small.labels["label"][:, 0, :5], labels["label"][:, 0, :5])
        if min(shape[1:]) < 32:
            with pytest.raises(ValueError, match="Only searching needs patches: label from exemplars"):
                small.retrieve()


def test_a_survey_with_traces_missing_everywhere_is_labelled(tmp_path):
    """Labels need no patches between gaps; bodies of a file without coordinates are written as csv."""
    volume = oc.datasets.synthetic((3, 64, 96), seed=3)[0].values.copy()
    rng = np.random.default_rng(0)
    live = rng.random((3, 64)) > 0.6
    live[0, -1], live[-1, -1] = True, False
    places = np.argwhere(live)
    spec = segyio.spec()
    spec.format, spec.samples, spec.tracecount = 5, np.arange(96) * 4, len(places)
    with segyio.create(str(tmp_path / "s.sgy"), spec) as file:
        file.bin.update({segyio.BinField.Interval: 4000})
        for number, (row, column) in enumerate(places.tolist()):
            file.header[number] = {189: 100 + row, 193: 300 + column, 115: 96, 117: 4000}
            file.trace[number] = volume[row, column]
    with oc.Job(tmp_path / "s.outcrop", volume=tmp_path / "s.sgy") as sparse:
        for name, (row, column), time in (("fault", places[3], 200), ("other", places[-3], 100)):
            sparse.add_exemplar(name, (100 + int(row), 300 + int(column), time))
        sparse.paint("fault", [(100, 310, 180), (100, 330, 220)], radius=8)
        labels = sparse.label()["label"].values
        assert labels[live].all()
        notes = write_bodies(sparse, tmp_path / "bodies", min_samples=5)[1]
        assert any("hold no coordinates" in note for note in notes)
        assert (tmp_path / "bodies" / "bodies.csv").is_file()
        with pytest.raises(ValueError, match="No patch of 96 x 64 fits"):
            sparse.retrieve()


def test_neighbouring_clicks_keep_their_classes(tmp_path):
    """Clicked samples have their classes, however near they are and at any limit of confidence."""
    volume, _ = oc.datasets.synthetic((6, 160, 128), seed=4)
    line, traces, times = (volume[name].values for name in volume.dims)
    job = oc.Job(tmp_path / "j.outcrop", volume=volume)
    clicks = [("fault", 60, 60), ("chaotic", 63, 60), ("salt dome", 61, 61), ("other", 100, 20)]
    for name, trace, sample in clicks:
        job.add_exemplar(name, (line[2], traces[trace], times[sample]))
    for limit in (None, 0.99):
        found = job.label([line[2]], min_confidence=limit)
        codes = found["label"].sel(inline=line[2]).values
        assert [found.attrs["classes"][codes[trace, sample] - 1] for _, trace, sample in clicks] == [
            name for name, *_ in clicks
        ]
