"""A plan is a plain value, resolved from a volume and decisions without a folder; options, keys and background."""

import shutil
from dataclasses import replace

import numpy as np
import pytest

import outcrop as oc
from outcrop.job.entries import valid_option
from outcrop.job.options import IndexOptions, LabelOptions, RetrievalOptions
from outcrop.job.plan import resolve
from outcrop.job.state import fold
from outcrop.labels.decision import confidence_for, decide
from outcrop.retrieval.ranking import retrieve

VOLUME = {
    "digest": "0" * 16,
    "samples": "0" * 16,
    "shape": [8, 110, 96],
    "dims": ["inline", "crossline", "time"],
    "source": "",
}
PLACES = {"fault": (104, 350, 200), "layering": (105, 330, 100)}


def entries(*decisions):
    """Return log entries of decisions, in order."""
    return [
        {"id": str(number), "time": f"2026-01-01T00:00:{number:02d}", "who": "a@b-1", **decision}
        for number, decision in enumerate(decisions)
    ]


def planned(*decisions):
    """Return the plan of some decisions on a volume that does not exist."""
    state = fold(entries(*decisions))
    return resolve(VOLUME, state, {name: code for code, name in enumerate(state.classes, 1)})


FAULT = {"what": "exemplar", "class": "fault", "place": [104, 350, 200]}
OTHER = {"what": "exemplar", "class": "other", "place": [105, 330, 100]}
STROKE = {"what": "stroke", "class": "fault", "along": "inline", "points": [[104, 350, 200]], "radius": 4.0}


def test_a_plan_needs_no_folder_and_compares_by_value():
    """The same decisions give equal plans with the same keys; automatic values are filled in."""
    plan, again = planned(FAULT, OTHER), planned(FAULT, OTHER)
    assert plan == again and plan.keys == again.keys and "fault" in repr(plan)
    assert plan.size == (96, 99) and plan.index.step == (10, 11)
    assert plan.background == "other" and plan.classes == {"fault": 1, "other": 2}


def test_stages_other_than_the_index_need_an_exemplar():
    """The index has a key from the start, the other stages have none before the first exemplar."""
    keys = planned().keys
    assert keys["index"] and keys["retrieved"] is keys["mapper"] is keys["votes"] is None


@pytest.mark.parametrize(
    ("decision", "stages"),
    [
        (STROKE, {"mapper", "votes"}),
        ({"what": "set", "name": "label", "value": {"seed": 3}}, {"mapper", "votes"}),
        ({"what": "set", "name": "limits", "value": {"max_error": 0.1}}, set()),
        ({"what": "class", "class": "fault", "colour": "#ff0000"}, set()),
        ({"what": "rename", "class": "fault", "name": "rift"}, set()),
        ({"what": "set", "name": "count", "value": 7}, {"retrieved"}),
        ({"what": "set", "name": "index", "value": {"size": 48}}, {"index", "retrieved"}),
        ({"what": "set", "name": "background", "value": "fault"}, {"retrieved", "mapper", "votes"}),
    ],
)
@pytest.mark.parametrize("mapping", ["points", "paper"])
def test_a_decision_changes_the_keys_of_the_stages_that_use_it(mapping, decision, stages):
    """A stroke does not change the index; a limit or a colour changes no key; `paper` depends on retrieved patches."""
    chosen = {"what": "set", "name": "label", "value": {"mapping": mapping}}
    if decision.get("name") == "label":
        decision = decision | {"value": decision["value"] | chosen["value"]}
    before, after = (planned(FAULT, OTHER, *more).keys for more in ([chosen], [chosen, decision]))
    stages = stages | ({"mapper", "votes"} if mapping == "paper" and "retrieved" in stages else set())
    assert {name for name in before if before[name] != after[name]} == stages


def test_options_that_are_not_named_keep_their_value():
    """Updates change only the named options of every stage; auto resets one option."""
    index = IndexOptions(size=64, every=3).updated(step=16, every=None)
    assert index == IndexOptions(size=64, step=16, every=3)
    assert index.updated(size="auto") == IndexOptions(step=16, every=3)
    assert RetrievalOptions(7, True).updated(count="auto") == RetrievalOptions("auto", True)
    assert LabelOptions(seed=3, step=9).updated(mapping="paper") == LabelOptions("paper", 3, 9)


@pytest.mark.parametrize(
    ("options", "given", "message"),
    [
        (IndexOptions, {"size": 0}, "size is 0"),
        (IndexOptions, {"step": (1, 2, 3)}, "step is"),
        (IndexOptions, {"along": "time"}, "Direction 'time'"),
        (IndexOptions, {"area": {"inline": [1]}}, "area is"),
        (RetrievalOptions, {"count": 0}, "Count is 0"),
        (LabelOptions, {"seed": -1}, "seed is -1"),
        (LabelOptions, {"max_error": 1.5}, "between 0 and 1"),
        (LabelOptions, {"max_error": 0.1, "min_confidence": 0.2}, "do not give min_confidence too"),
    ],
)
def test_invalid_options_are_refused(options, given, message):
    """Options are checked when they are made; a log entry with an invalid value is refused too."""
    with pytest.raises(ValueError, match=message):
        options(**given)
    name = {IndexOptions: "index", LabelOptions: "limits"}.get(options, "count")
    assert not valid_option(name, given["count"] if name == "count" else given)


def test_a_job_resolves_its_plan_once(source, tmp_path, monkeypatch):
    """Repeated requests return the same plan; a decision makes another one."""
    shutil.copy(source, tmp_path / "v.sgy")
    with oc.Job(tmp_path / "v.outcrop", volume=tmp_path / "v.sgy") as job:
        plan = job.plan
        monkeypatch.setattr("outcrop.job.folder.resolve", None)
        assert job.plan is plan and job.status()["keys"] == plan.keys
        monkeypatch.undo()
        job.add_class("fault")
        assert job.plan is not plan and job.plan != plan


def test_the_background_of_a_job_reaches_the_ranking(source, tmp_path):
    """A class of any name that is chosen as background is treated like a class named other."""
    shutil.copy(source, tmp_path / "v.sgy")
    with oc.Job(tmp_path / "v.outcrop", volume=tmp_path / "v.sgy") as job:
        index = job.index(32, step=8)
        for name, place in PLACES.items():
            job.add_exemplar(name, place)
        job.set_background("layering")
        weak = job.retrieve(count=30)
        places = {name: [place] for name, place in PLACES.items()}
        expected = retrieve(index, places, 30, background="layering")
        np.testing.assert_array_equal(weak.rows, expected.rows)
        assert not np.array_equal(weak.rows, retrieve(index, places, 30, background="other").rows)


def test_labels_within_a_limit_of_error_stay_labelled():
    """Samples with the limit of confidence keep their label, and samples below it are uncertain."""
    rng = np.random.default_rng(0)
    shares = rng.dirichlet((4, 1), 5000)
    votes = np.round(255 * shares).astype(np.uint8).T
    for max_error in (0.02, 0.05, 0.1, 0.2):
        sure = decide(votes)[1]
        limit = confidence_for(sure, max_error)
        labels, _ = decide(votes, limit)
        np.testing.assert_array_equal(labels != 255, sure >= round(255 * limit))
        assert (1 - sure[labels != 255] / 255).mean() <= max_error
        if (labels == 255).any():  # the next lower confidence would give too many errors
            assert (1 - sure[sure >= sure[labels == 255].max()] / 255).mean() > max_error


def test_scores_and_stale_labels_are_refused(source, tmp_path):
    """The default mapping keeps no scores to export, and a net cannot be trained on stale labels."""
    from outcrop.job.exports import export
    from outcrop.job.training import train_net

    shutil.copy(source, tmp_path / "v.sgy")
    with oc.Job(tmp_path / "v.outcrop", volume=tmp_path / "v.sgy") as job:
        job.index(32, step=16)
        for name, place in PLACES.items():
            job.add_exemplar(name, place)
        job.set_background("layering")
        labels = job.label([103])
        with pytest.raises(ValueError, match="stores no scores"):
            export(job, tmp_path / "x.zarr", what="score:fault", labels=labels)
        job.paint("fault", [(104, 350, 200)])
        with pytest.raises(ValueError, match="older decisions"):
            train_net(job)


@pytest.mark.parametrize("mapping", ["points", "paper"])
def test_lines_of_the_other_direction_have_other_votes(mapping):
    """Mappings of patches are equal for both directions; `points` is fitted for each direction with its own lines."""
    plan = planned(FAULT, OTHER, {"what": "set", "name": "label", "value": {"mapping": mapping}})
    across = replace(plan, across=True)
    assert across.along == 1 - plan.along and (across.mapper_key == plan.mapper_key) == (mapping == "paper")
    assert across.keys["votes"] != plan.keys["votes"] and across.keys["index"] == plan.keys["index"]


def test_an_exemplar_near_missing_traces_is_accepted_and_one_on_them_refused(source, tmp_path):
    """Missing samples around a click are no error; a click on a missing sample is refused and not logged."""
    volume = oc.open_volume(source).load()
    values = volume.values.copy()
    values[:, 48:53] = np.nan
    with oc.Job(tmp_path / "m.outcrop", volume=volume.copy(data=values)) as job:
        job.index(32, step=16)
        gap, near = (float(volume["crossline"][at]) for at in (50, 56))
        before = job.plan.state
        with pytest.raises(ValueError, match="is missing"):
            job.add_exemplar("fault", (104, gap, 200))
        assert job.plan.state == before
        job.add_exemplar("fault", (104, near, 200))
        job.add_exemplar("other", (105, 330, 100))
        assert set(job.retrieve(count=4).classes) == {"fault", "other"}
