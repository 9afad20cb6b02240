"""Audits: intervals contain the truth at their confidence level, and answers are stored as decisions."""

import json
import sys

import numpy as np
import pytest

import outcrop as oc
from outcrop.cli.deciding import prompt_audit
from outcrop.cli.program import main
from outcrop.cli.tables import picture
from outcrop.job.unseen import draw_unseen
from outcrop.retrieval.audit import confidence_shift, draw_order, estimate, iou_estimates, similar_groups

PLACES = {"fault": (104, 350, 200), "other": (105, 330, 100), "salt dome": (103, 380, 260)}


@pytest.fixture
def job(source, tmp_path):
    """A job with retrieved patches."""
    with oc.Job(tmp_path / "v.outcrop", volume=source) as one:
        one.index(32, step=16)
        for name, place in PLACES.items():
            one.add_exemplar(name, place)
        yield one


@pytest.mark.parametrize("shares", [(0.5, 0.5, 0.5, 0.5), (1.0, 0.95, 0.4, 0.1), (0.9, 0.9, 0.95, 1.0)])
def test_intervals_contain_the_truth(shares):
    """Intervals of at least 93 % of 400 audits with 30 answers contain the truth; different groups narrow them."""
    groups = np.repeat(np.arange(4), [400, 300, 200, 100])
    right = np.random.default_rng(0).random(1000) < np.repeat(shares, [400, 300, 200, 100])
    sizes, found = np.bincount(groups), []
    for seed in range(400):
        asked = draw_order(groups, 30, seed=seed)
        found.append(estimate(np.arange(4), sizes, groups[asked], right[asked]))
    truth, width = right.mean(), np.mean([(one.high - one.low) / 2 for one in found])
    assert np.mean([one.low <= truth <= one.high for one in found]) >= 0.93
    # an interval of independent answers has a half width of 1.96 sqrt(p (1 - p) / n)
    assert width < 1.1 * 1.96 * np.sqrt(truth * (1 - truth) / 30)
    assert abs(np.mean([one.share for one in found]) - truth) < 0.01  # of 400 audits, six standard errors


def test_equal_answers_do_not_narrow_the_interval():
    """Ten equal answers give the interval of ten independent answers for any number of groups."""
    found = estimate(np.arange(5), np.full(5, 10**6), np.repeat(np.arange(5), 2), np.ones(10))
    assert found.share == found.high == 1
    # Wilson's lower end is n / (n + z^2) where all answers are yes
    assert found.low == pytest.approx(10 / (10 + 1.96**2), abs=1e-3)


def test_a_complete_audit_has_no_uncertainty():
    """If every member has an answer, the interval is the share itself."""
    found = estimate([0, 1], [3, 2], [0, 0, 0, 1, 1], [1, 0, 1, 1, 1])
    assert found.share == pytest.approx(0.8)
    assert found.high - found.low < 0.01


def test_a_longer_draw_extends_a_shorter_one():
    """The questions of a short audit are part of a long audit with the same seed; every group has a question."""
    groups = np.repeat([0, 1, 2], [50, 30, 3])
    short, long = (draw_order(groups, n, seed=5) for n in (8, 20))
    assert set(short) <= set(long) and len(long) == 20
    assert set(groups[short]) == {0, 1, 2}


@pytest.mark.parametrize("n", [1, 3, 4, 12, 40])
def test_the_draw_has_the_requested_size(n):
    """Small groups, each with at least one question, do not make the draw longer."""
    groups = np.repeat(np.arange(10), [200, 150, 120, 90, 2, 2, 2, 1, 1, 1])
    assert len(draw_order(groups, n, seed=2)) == n


def test_groups_hold_similar_patches():
    """Two clouds of descriptors never share a group."""
    rng = np.random.default_rng(0)
    clouds = np.concatenate([rng.normal(size=(40, 5)), 50 + rng.normal(size=(40, 5))])
    groups = similar_groups(clouds, rng.random(80))
    assert not set(groups[:40]) & set(groups[40:])


def test_answers_are_decisions(job):
    """Answers are stored, found on opening the job again, undone together, and do not change retrieved patches."""
    key = job.plan.keys["retrieved"]
    audit = job.audit(12)
    audit.answer(yes=range(1, 9), no=[9, 10], unknown=[11])
    with oc.Job(job.path) as again:
        table = again.audit(12).estimates.set_index("class").loc["all"]
        assert table[["yes", "no", "unknown"]].tolist() == [8, 2, 1]
        assert 0 < table["low"] < table["right"] < table["high"] <= 1
    assert job.plan.keys["retrieved"] == key and (job.decisions["what"] == "audit").sum() == 11
    assert job.decisions["where"].str.endswith(": unknown").sum() == 1
    assert audit.questions["answer"].tolist().count("") == len(audit.questions) - 11
    job.undo()
    assert np.isnan(audit.estimates["right"]).all() and not job.plan.state.audits


def test_the_last_answer_counts(job):
    """A question that is answered again has only its last answer."""
    audit = job.audit(10)
    audit.answer(yes=[1])
    audit.answer(no=[1])
    assert audit.questions["answer"][1] == "no" and len(job.plan.state.audits) == 1


def test_answers_of_another_table_are_kept_and_not_counted(job):
    """Another exemplar changes the patches: their audit starts again and reports the number of older answers."""
    job.audit(10).answer(yes=[1, 2, 3])
    job.add_exemplar("fault", (106, 352, 220))
    audit = job.audit(10)
    assert audit.older == 3 and audit.estimates["yes"].sum() == 0
    job.undo()
    assert job.audit(10).older == 0


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (lambda job: job.audit(0), "number of clicks is 0"),
        (lambda job: job.audit(5, of="lines"), "choose patches or samples"),
        (lambda job: job.audit(5).answer(yes=[99]), "no question 99"),
        (lambda job: job.audit(5).answer(yes=[1], no=[1]), "give one answer"),
        (lambda job: job.audit(5, of="samples"), "outcrop label"),
    ],
)
def test_wrong_input_is_refused(job, asked, message):
    """Wrong input gives an error with a remedy, and no decision is stored."""
    job.retrieve()
    before = len(job.decisions)
    with pytest.raises(ValueError, match=message):
        asked(job)
    assert len(job.decisions) == before


def test_classes_without_answers_have_no_estimate(job):
    """A class without answers has neither share nor IoU; if one class lacks them, so does the mean."""
    job.label([103, 104])
    audit = job.audit(30, of="samples")
    name = audit.questions["class"][1]
    audit.answer(yes=[number for number, other in audit.questions["class"].items() if other == name])
    table = audit.estimates.set_index("class")
    numbers = ["right", "low", "high", "IoU", "IoU_low", "IoU_high"]
    assert table.loc[name, numbers].notna().all()
    others = table.drop(index=[name, "all"])
    assert len(others) and others[numbers].isna().all().all() and np.isnan(table["IoU"]["all"])
    assert audit.job.audit(5).estimates[["right", "low", "high"]].isna().all().all()


def test_samples_of_labels(job):
    """Samples are drawn from labelled lines, with the class and position of the labels."""
    job.label([103, 104])
    audit = job.audit(20, of="samples")
    labels = job.labels
    for _, row in audit.questions.iterrows():
        code = labels["label"].sel(inline=row["inline"], crossline=row["crossline"], time=row["time"]).item()
        assert labels.attrs["classes"][code - 1] == row["class"]
    assert audit.population.sizes.sum() == (labels["label"].sel(inline=[103, 104]) > 0).sum().item()
    audit.answer(yes=range(1, 21))
    assert audit.estimates.set_index("class")["right"]["all"] == 1
    assert audit.draw().is_file()


def test_patches_unlike_anything_marked_are_unlike_the_exemplars(job):
    """The groups hold patches less similar to all exemplars than most are; one can become an exemplar."""
    table = job.unseen(3)
    assert set(table["group"]) == {1, 2, 3} and table["share"].groupby(table["group"]).first().is_monotonic_decreasing
    weak = job.retrieve()
    assert table["similarity"].max() < np.median(weak.similarity)
    assert not set(table["row"]) & set(weak.rows[:5])
    assert draw_unseen(job, table).is_file()
    job.add_exemplar("new", table[list(job.volume.dims)].iloc[0].tolist())
    assert "new" in job.retrieve().classes


def test_the_shell_asks_and_answers(job, monkeypatch, capsys):
    """`outcrop audit` draws its questions, stores answers, and prints shares with their intervals."""

    def outcrop(*words):
        monkeypatch.setattr(sys, "argv", ["outcrop", *map(str, words)])
        with pytest.raises(SystemExit) as stop:
            main()
        return stop.value.code, *capsys.readouterr()

    code, _, messages = outcrop("audit", job.path, "--clicks", 12)
    assert code == 0 and "12 of 12 questions are open" in messages and (job.path / "audit-patches.png").is_file()
    code, shown, _ = outcrop("audit", job.path, "--clicks", 12, "--yes", "1,2,3,4,5", "--no", "6", "--json")
    total = json.loads(shown)["estimates"][-1]
    assert (total["class"], total["yes"], total["no"]) == ("all", 5, 1) and total["low"] < total["right"]
    assert outcrop("audit", job.path, "--yes", "1", "--no", "1")[0] == 2
    assert outcrop("unseen", job.path, "--groups", 2)[0] == 0 and (job.path / "unseen.png").is_file()


def test_questions_are_asked_on_a_terminal(job, monkeypatch, capsys):
    """Each open question is drawn and its answer stored; any other input ends the questions."""
    replies = iter(["y", "n", "q"])
    monkeypatch.setattr("typer.prompt", lambda *_, **__: next(replies))
    for stream in (sys.stdin, sys.stdout):
        monkeypatch.setattr(stream, "isatty", lambda: True, raising=False)
    found = job.audit(4, seed=5)
    prompt_audit(found, job.palette)
    assert sorted(found.questions["answer"]) == ["", "", "no", "yes"] and "▀" in capsys.readouterr().out


def test_a_picture_in_the_shell_has_its_frame():
    """Two pixels per character: grey for amplitudes, and the frame in the colour of the class."""
    text = picture(np.full((8, 6), 0.5), (2, 1, 4, 3), "#ff0000")
    assert text.plain.count("\n") == 4 and all(len(line) == 6 for line in text.plain.split())
    assert any("#ff0000" in str(span.style) for span in text.spans)
    assert any("#7f7f7f" in str(span.style) for span in text.spans)


def confusions(seed):
    """Groups of four classes by three levels of confidence: sizes, labels, and the shares of the true classes."""
    rng = np.random.default_rng(seed)
    sizes, labels, shares = [], [], []
    for label, size in enumerate(rng.dirichlet([4, 2, 1, 1.5])):
        for part, right in zip(rng.dirichlet([1, 2, 5]), (0.5, 0.75, 0.95), strict=True):
            right = float(np.clip(right + rng.normal(0, 0.1), 0.1, 0.99))
            sizes.append(1e5 * size * part + 1)
            labels.append(label)
            shares.append(np.insert(rng.dirichlet(np.ones(3)) * (1 - right), label, right))
    return np.array(sizes), np.array(labels), np.array(shares)


def test_intervals_of_iou_contain_the_truth():
    """Intervals of about 90 % of 120 audits with some 30 answers contain IoU of each class and its mean, unbiased."""
    names, held, off = np.array(list("abcd")), [], []
    for number in range(120):
        sizes, labels, shares = confusions(number)
        matrix = np.stack([(sizes[:, None] * shares)[labels == c].sum(axis=0) for c in range(4)])
        right = np.diagonal(matrix)
        truth = right / (matrix.sum(axis=0) + matrix.sum(axis=1) - right)
        rng = np.random.default_rng(number)
        asked = np.repeat(np.arange(len(sizes)), np.maximum(30 * sizes / sizes.sum(), 1).astype(int))
        answers = [names[rng.choice(4, p=shares[group])] for group in asked]
        found = iou_estimates(sizes, names[labels], asked, answers, names)
        wanted = dict(zip(names, truth, strict=True)) | {"all": truth.mean()}
        held.append([found[name].low <= value <= found[name].high for name, value in wanted.items()])
        off.append(found["all"].share - truth.mean())
    assert np.mean(held, axis=0).min() > 0.88
    assert abs(np.mean(off)) < 0.03


def test_answers_move_the_confidence():
    """Overconfident labels need a higher minimum confidence; a few answers change it little."""
    rng = np.random.default_rng(0)
    confidence = rng.uniform(0.6, 0.99, 400)
    right = rng.random(400) < 1 / (1 + np.exp(-(np.log(confidence / (1 - confidence)) - 1)))
    assert confidence_shift(confidence, right) == pytest.approx(-1, abs=0.3)
    assert abs(confidence_shift(confidence[:2], [False, True])) < 0.7


def test_audits_of_samples_move_the_limit_of_error(job):
    """An audit that finds overconfident labels raises the minimum confidence for an error rate; undo restores it."""
    job.label(lines=[103, 104], max_error=0.4)
    limit = job.labels.attrs["min_confidence"]
    audit = job.audit(20, of="samples")
    audit.answer(no=range(1, 21))
    assert job.labels.attrs["min_confidence"] > limit
    job.undo()
    assert job.labels.attrs["min_confidence"] == limit


def test_labels_that_are_all_uncertain_have_no_questions(job):
    """If all labels are uncertain, the audit has no questions, and its error says what to change."""
    for one in job.plan.state.exemplars:
        if one.name != "fault":
            job.remove_exemplar(one.id)
    job.remove_class("other")  # a single class labels nothing
    with pytest.warns(UserWarning, match="the only class"):
        job.label(lines=[103])
    with pytest.raises(
        ValueError, match="all samples are uncertain, painted or confirmed; choose a lower minimum confidence"
    ):
        job.audit(20, of="samples")


def test_wrong_samples_with_their_class_give_iou(job):
    """IoU by class and its mean need the true class of every wrong sample; without one they are missing."""
    job.label(lines=[103, 104])
    audit = job.audit(20, of="samples")
    other = next(name for name in job.classes if name != audit.questions["class"][1])
    audit.answer(yes=range(2, 21), really={1: other})
    table = audit.estimates.set_index("class")
    assert (table["IoU_low"] <= table["IoU"]).all() and (table["IoU"] <= table["IoU_high"]).all()
    audit.answer(no=[2])
    assert "IoU" not in audit.estimates
    with pytest.raises(ValueError, match="no class 'granite'"):
        audit.answer(really={3: "granite"})
    with pytest.raises(ValueError, match="answer yes"):
        audit.answer(really={3: audit.questions["class"][3]})
