"""Fault sticks of a job follow its labels and what the interpreter decides about them."""

import json

import numpy as np
import pandas as pd
import pytest

import outcrop as oc
from outcrop import datasets
from outcrop.geometry.sticks import read_sticks, write_sticks
from outcrop.job import faults
from outcrop.job.fitting import evidence
from outcrop.job.sections import marked_sections
from outcrop.job.strokes import stroke_mask

LINES = [102, 103, 104, 105, 106]


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    """Return the path of a synthetic survey with four domino faults."""
    path = tmp_path_factory.mktemp("survey") / "v.sgy"
    datasets.write_synthetic(path, (10, 200, 200), seed=0)
    return path


@pytest.fixture
def job(source, tmp_path):
    """Yield a job on five labelled lines; of the four faults on each, two are painted as fault and two as other."""
    with oc.Job(tmp_path / "v.outcrop", volume=source) as one:
        one.index(48, step=24)
        one.add_exemplar("fault", (104, 440, 560))
        one.add_exemplar("other", (104, 340, 120))
        for line in LINES:
            for name, trace in (("fault", 441), ("fault", 464), ("other", 416), ("other", 490)):
                one.paint(name, [(line, trace - 5, 320), (line, trace + 5, 790)], radius=9)
        one.label(lines=LINES)
        yield one


def at(sticks):
    """Return the mean positions of sticks, to compare sticks by."""
    middle = sticks.groupby("stick")[["inline", "crossline", "time"]].mean()
    return {tuple(np.round(row, 2)) for row in middle.to_numpy()}


def test_sticks_lie_where_the_labels_show_the_class(job):
    """Both ends of every stick have a label of the class within 2 traces; gaps between them may be bridged."""
    sticks = faults.sticks_of_class(job)
    assert sticks.groupby("inline")["stick"].nunique().to_dict() == dict.fromkeys(LINES, 2)
    assert sticks["surface"].nunique() == 2
    for _, points in sticks.groupby("stick"):
        for _, end in points.iloc[[0, -1]].iterrows():
            traces = np.arange(round(end["crossline"]) - 2, round(end["crossline"]) + 3)
            here = job.labels["label"].sel(inline=end["inline"], time=end["time"]).sel(crossline=traces)
            assert (here == job.classes["fault"]).any()


def test_sticks_of_a_class_are_parts_of_picked_sticks(job):
    """Every point of a stick of the class lies on a picked stick."""
    every, shown = faults.all_sticks(job, LINES), faults.sticks_of_class(job)
    for (line, _), points in shown.groupby(["inline", "stick"]):
        distances = [
            np.abs(points["crossline"] - np.interp(points["time"], one["time"], one["crossline"], np.inf, np.inf)).max()
            for _, one in every[every["inline"] == line].groupby("stick")
        ]
        assert min(distances) < 1e-6


def test_rejected_sticks_are_removed_and_undo_restores_them(job):
    """A rejected stick is removed without a new labelling; sticks of other lines stay, and undo restores it."""
    before = faults.sticks_of_class(job)
    victim = before[before["stick"] == 0]
    faults.judge_sticks(job, victim, "reject")
    assert job.status()["decisions"]["strokes"] == 4 * len(LINES) + 1
    after = faults.sticks_of_class(job)
    assert not at(victim) & at(after)
    other_lines = before["inline"] != victim["inline"].iloc[0]
    assert at(before[other_lines]) <= at(after)
    job.undo()
    pd.testing.assert_frame_equal(faults.sticks_of_class(job), before)


def test_a_rejected_stick_paints_nothing(job):
    """Its samples are excluded from the class in labels and evidence; no sample is painted as another class."""
    victim = faults.sticks_of_class(job).query("stick == 0")
    line = int(victim["inline"].iloc[0])
    before, painted = job.labels["label"].sel(inline=line).values, marked_sections(job, job.plan)[0][0, line - 100]
    known = {point for point in evidence(job, job.plan) if point.name == "other"}
    faults.judge_sticks(job, victim, "reject")
    now, left = job.labels["label"].sel(inline=line).values, marked_sections(job, job.plan)[0][0, line - 100]
    places = victim[["inline", "crossline", "time"]].to_numpy(float).tolist()
    along = stroke_mask({"along": "inline", "points": places, "radius": faults.STROKE}, job.axes)
    assert not (now[along] == job.classes["fault"]).any()
    np.testing.assert_array_equal(now[~along], before[~along])
    np.testing.assert_array_equal(left, np.where(along & (painted == job.classes["fault"]), 0, painted))
    after = evidence(job, job.plan)
    assert {point for point in after if point.name == "other"} == known
    assert {point.name for point in after if point.excluded} == {"fault"}


def test_many_sticks_are_judged_as_one_decision(job):
    """Sticks of a line that are rejected in one call leave the tables of all classes; one undo restores them."""
    every = faults.judged_sticks(job, "fault", LINES)
    here = every[every["inline"] == LINES[2]]
    assert here["stick"].nunique() > 2
    faults.judge_sticks(job, here, "reject")
    assert faults.rejected_sticks(job)["stick"].nunique() == here["stick"].nunique()
    for left in (faults.judged_sticks(job, "fault", LINES), faults.sticks_of_class(job)):
        assert set(left["inline"]) == {*LINES} - {LINES[2]}
    job.undo()
    pd.testing.assert_frame_equal(faults.judged_sticks(job, "fault", LINES), every)


def test_a_cleared_rejection_restores_the_stick(job):
    """Accepting a rejected stick, or clearing its verdict, cancels the rejection."""
    before = faults.sticks_of_class(job)
    victim = before[before["stick"] == 0]
    faults.judge_sticks(job, victim, "reject")
    faults.judge_sticks(job, victim, "accept")
    assert not len(faults.rejected_sticks(job)) and at(faults.accepted_sticks(job)) == at(victim)
    faults.judge_sticks(job, victim, "reject")
    faults.judge_sticks(job, victim, "forget")
    assert not len(faults.rejected_sticks(job))
    assert at(victim) <= at(faults.judged_sticks(job, "fault", LINES))


@pytest.mark.parametrize("background", [True, False])
def test_accepted_sticks_become_the_class_of_faults_under_any_name(source, tmp_path, background):
    """A class without the word fault in its name is the class of faults once a stick was accepted to it."""
    with oc.Job(tmp_path / "v.outcrop", volume=source) as job:
        job.add_class("Störung")
        if background:
            job.add_class("other")
        with pytest.raises(ValueError, match="called fault"):
            faults.fault_class(job)
        sticks = faults.all_sticks(job, [104])
        one, two = (sticks[sticks["stick"] == number] for number in (0, 1))
        faults.judge_sticks(job, one, "accept", "Störung")
        faults.judge_sticks(job, two, "reject")
        assert faults.fault_class(job) == "Störung"
        job.rename_class("Störung", "Bruch")
        assert faults.fault_class(job) == "Bruch" and at(faults.accepted_sticks(job)) == at(one)
        assert at(faults.rejected_sticks(job)) == at(two)
        assert set(job.classes) == ({"Bruch", "other"} if background else {"Bruch"})


def test_an_accepted_stick_outside_the_labels_is_added(job):
    """A stick outside the labels of a class belongs to the class once it is accepted."""
    every, before = faults.all_sticks(job, LINES), faults.sticks_of_class(job)
    outside = [
        one for _, one in every.groupby("stick") if not at(one) & at(before) and one["inline"].iloc[0] == LINES[2]
    ]
    wanted = max(outside, key=len)
    faults.judge_sticks(job, wanted, "accept")
    after = faults.sticks_of_class(job, lines=[LINES[2]])
    middle = wanted[["crossline", "time"]].mean()
    near = after.groupby("stick")[["crossline", "time"]].mean() - middle
    assert (near["crossline"].abs().lt(6) & near["time"].abs().lt(60)).any()


def test_an_accepted_stick_keeps_its_points(job):
    """An accepted stick on one line of five keeps all its points, independent of the labels; undo removes it."""
    before = faults.sticks_of_class(job)
    line = LINES[2]
    drawn = pd.DataFrame(
        {"stick": 0, "inline": line, "crossline": [330.0, 333.5, 338.0], "time": [120.0, 200.0, 290.0]}
    )
    faults.judge_sticks(job, drawn, "accept")
    after = faults.sticks_of_class(job)
    assert after["accepted"].sum() == 3 and not before["accepted"].any()
    kept = after.loc[after["accepted"], ["inline", "crossline", "time"]].to_numpy()
    np.testing.assert_array_equal(kept, drawn[["inline", "crossline", "time"]].to_numpy())
    assert at(before) <= at(after)
    job.undo()
    pd.testing.assert_frame_equal(faults.sticks_of_class(job), before)


def test_an_accepted_pick_is_listed_once(job):
    """A picked stick that was accepted is not listed a second time."""
    before = faults.sticks_of_class(job)
    faults.judge_sticks(job, before[before["stick"] == 0], "accept")
    assert at(faults.sticks_of_class(job)) == at(before)


def test_an_extended_stick_reaches_the_place(job):
    """A stick that is extended twice is one stick up to its new ends; clearing its verdict removes it."""
    before = faults.sticks_of_class(job)
    stick = before[before["stick"] == 0].iloc[2:-2]  # leaves space above and below
    line, base = stick["inline"].iloc[0], stick.iloc[-1]
    faults.extend_stick(job, stick, (line, base["crossline"] + 2, base["time"] + 40))
    once = faults.accepted_sticks(job)
    assert len(once) == len(stick) + 1 and once["time"].max() == base["time"] + 40
    faults.extend_stick(job, once, (line, stick["crossline"].iloc[0] - 2, stick["time"].iloc[0] - 40))
    twice = faults.accepted_sticks(job)
    assert twice["stick"].nunique() == 1 and len(twice) == len(stick) + 2
    assert faults.sticks_of_class(job).groupby("inline")["stick"].nunique().to_dict() == dict.fromkeys(LINES, 2)
    with pytest.raises(ValueError, match="above or below"):
        faults.extend_stick(job, twice, (line, base["crossline"], base["time"] - 20))
    with pytest.raises(ValueError, match="on its section"):
        faults.extend_stick(job, twice, (line + 1, base["crossline"], base["time"] + 20))
    faults.judge_sticks(job, twice, "forget")
    assert not len(faults.accepted_sticks(job))


def test_rejecting_removes_an_accepted_stick(job):
    """The later of two verdicts on a stick counts."""
    stick = faults.sticks_of_class(job).query("stick == 0")
    faults.judge_sticks(job, stick, "accept")
    faults.judge_sticks(job, stick, "reject")
    assert not len(faults.accepted_sticks(job))
    assert not at(stick) & at(faults.sticks_of_class(job))


def test_sticks_of_picked_lines_are_stored(job, monkeypatch):
    """Lines are picked only once, so that an interrupted run continues."""
    once = faults.all_sticks(job, LINES[:3])
    picked = []

    def watched(volume, along, positions, *rest, **options):
        picked.extend(positions)
        return pick(volume, along, positions, *rest, **options)

    pick = faults.line_sticks
    monkeypatch.setattr(faults, "line_sticks", watched)
    again = faults.all_sticks(job, LINES)
    assert picked == [5, 6]
    pd.testing.assert_frame_equal(again[again["inline"].isin(LINES[:3])].reset_index(drop=True), once)


def test_cleaning_keeps_the_sticks_in_use(job):
    """`clean` does not remove the latest picked sticks."""
    faults.all_sticks(job, LINES[:1])
    job.clean()
    assert list(job.stages.root.glob("faults/*/102.csv"))


def test_sticks_of_a_class_need_labels(source, tmp_path):
    """Without labels, or for an unknown class, the error names the command to run or the problem."""
    with oc.Job(tmp_path / "v.outcrop", volume=source) as job:
        job.add_class("fault")
        with pytest.raises(ValueError, match="outcrop label"):
            faults.sticks_of_class(job)
        with pytest.raises(ValueError, match="unknown"):
            faults.sticks_of_class(job, "dyke")


@pytest.mark.parametrize("name", ["hers.dat", "hers.charisma", "hers.csv"])
def test_sticks_of_a_file_become_accepted_ones(job, tmp_path, name):
    """Imported sticks are decisions of the class with the points of the file, and one act that one undo cancels."""
    sticks = faults.all_sticks(job, LINES[:2]).assign(surface=0)
    write_sticks(sticks, tmp_path / name, job.volume)
    before = job.status()["decisions"]["strokes"]
    count = faults.import_sticks(job, tmp_path / name)
    assert count == sticks["stick"].nunique() == job.status()["decisions"]["strokes"] - before
    kept = faults.accepted_sticks(job)
    assert kept["stick"].nunique() == count
    places = ["inline", "crossline", "time"]
    np.testing.assert_allclose(kept[places], sticks[places], atol=0.01)  # metres are written to a centimetre
    job.undo()
    assert job.status()["decisions"]["strokes"] == before


def test_command_writes_sticks_and_surfaces(outcrop, source, tmp_path):
    """`outcrop faults VOLUME` writes sticks that read back and a table of surfaces; truth is scored."""
    out = tmp_path / "all.csv"
    code, answer, error = outcrop("faults", source, "-o", out, "--lines", "104,105", "--json")
    assert code == 0, error
    answer = json.loads(answer)
    sticks = read_sticks(out, oc.open_volume(source))
    assert answer["sticks"] == sticks["stick"].nunique() > 3
    assert len(pd.read_csv(f"{out}.surfaces.csv")) == answer["surfaces"]
    _, scored, _ = outcrop("faults", source, "-o", tmp_path / "b.dat", "--lines", "105", "--truth", out, "--json")
    assert json.loads(scored)["F1"] > 0.95


def test_command_accepts_and_extends_sticks_and_undo_cancels_them(job, outcrop, tmp_path):
    """A command accepts or extends sticks of a file by number; one `decisions --undo` cancels all of a command."""
    out = tmp_path / "sticks.csv"
    outcrop("faults", job.path, "-o", out)
    stick = pd.read_csv(out).query("stick == 3")
    place = f"{stick['inline'].iloc[0]},{stick['crossline'].iloc[0]},{stick['time'].iloc[0] - 60}"
    code, _, error = outcrop("faults", job.path, "-o", out, "--accept", "0,1", "--extend", f"3={place}")
    assert code == 0, error
    after = pd.read_csv(out)
    assert after.loc[after["accepted"], "stick"].nunique() == 3
    assert after["time"].min() <= stick["time"].iloc[0] - 60
    outcrop("decisions", job.path, "--undo")
    outcrop("faults", job.path, "-o", out)
    assert not pd.read_csv(out)["accepted"].any()


def test_refused_commands_decide_nothing(job, outcrop, tmp_path):
    """A command with one wrong number, place or file records no decision and overwrites no file."""
    out = tmp_path / "sticks.csv"
    outcrop("faults", job.path, "-o", out)
    stick = pd.read_csv(out).query("stick == 3")
    outside = f"{stick['inline'].iloc[0]},{stick['crossline'].iloc[-1]},90000"
    before, decided = out.read_bytes(), len(job.decisions)
    for words, message in (
        (["--accept", "5", "--reject", "9999"], "9999"),
        (["--accept", "3", "--reject", "3"], "twice"),
        (["--accept", "5", "--extend", f"3={outside}"], "outside the survey"),
        (["--truth", out], "is an input"),
        (["--report", out], "written twice"),
        (["--report", tmp_path / "x.sgy"], "name of a volume"),
        (["--velocity", "0"], "velocity is 0"),
        (["--along", "crossline"], "need a volume"),
    ):
        code, _, error = outcrop("faults", job.path, "-o", out, *words)
        assert code == 2 and message in error and len(error.strip().splitlines()) == 1
        assert out.read_bytes() == before and len(job.decisions) == decided


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["-o", "sticks.csv", "--extend", "3=1,2"], "STICK=INLINE"),
        (["-o", "sticks.xyz"], "format"),
        (["-o", "sticks.csv", "--class", "fault"], "is not a job"),
        (["-o", "sticks.csv", "--lines", "7"], "no inline 7"),
        (["-o", "sticks.csv", "--threshold", "3"], "between 0 and 1"),
    ],
)
def test_wrong_commands_are_refused_in_one_line(outcrop, source, tmp_path, arguments, words):
    """Wrong arguments give exit code 2, one line and no file."""
    code, _, error = outcrop("faults", source, *[tmp_path / a if a.startswith("sticks") else a for a in arguments])
    assert code == 2 and words in error
    assert len(error.strip().splitlines()) == 1
    assert not list(tmp_path.iterdir())
