"""Imported decisions of a colleague: one undo removes them, and they change no decision of this job."""

import pytest

from outcrop.job.decisions import Decisions, import_name
from outcrop.job.imports import import_words


def exemplar(name, place):
    """Return the entry of an exemplar."""
    return {"what": "exemplar", "class": name, "place": list(place)}


def verdict(what, name, place):
    """Return the entry of a verdict."""
    return {"what": what, "class": name, "place": list(place), "along": "inline"}


def stroke(name, line):
    """Return the entry of a stroke."""
    return {"what": "stroke", "class": name, "along": "inline", "points": [[line, 5, 8]], "radius": 2}


@pytest.fixture
def mine(tmp_path):
    """Return the decisions of this job."""
    log = Decisions(tmp_path / "mine")
    log.add({"what": "set", "name": "index", "value": {"size": 48}})
    log.add(exemplar("fault", [1, 2, 3]))
    log.add({"what": "class", "class": "fault", "colour": "#111111"})
    log.add(verdict("reject", "fault", [4, 5, 6]))
    log.add(stroke("fault", 7))
    return log


@pytest.fixture
def hers(tmp_path):
    """Return the decisions of a colleague, who also removed some of hers."""
    log = Decisions(tmp_path / "hers")
    log.add({"what": "set", "name": "index", "value": {"size": 64}})
    log.add(exemplar("fault", [1, 2, 3]))
    log.add(verdict("accept", "fault", [9, 9, 9]))
    log.add({"what": "forget"})
    log.add(verdict("accept", "fault", [4, 5, 6]), verdict("reject", "fault", [8, 8, 8]))
    log.add({"what": "rename", "class": "fault", "name": "crack"})
    log.add({"what": "class", "class": "fault", "colour": "#222222"})
    log.add(exemplar("salt", [2, 2, 2]), stroke("salt", 7))
    log.add({**stroke("salt", 7), "class": "erase"})
    log.add({"what": "remove class", "class": "salt"})
    log.add(exemplar("gas", [3, 3, 3]))
    return log


def test_an_import_removes_no_decision_of_this_job(mine, hers, tmp_path):
    """Imported forget, remove, rename, erase and options do not affect my decisions; her present ones are added."""
    mine.add(exemplar("salt", [5, 5, 5]))
    before = mine.state()
    hers.give(tmp_path / "hers.jsonl")
    # let her decisions be later than mine
    text = (tmp_path / "hers.jsonl").read_text().replace('"time": "20', '"time": "21')
    (tmp_path / "hers.jsonl").write_text(text)
    mine.take(tmp_path / "hers.jsonl")
    after = mine.state()
    assert after.options == before.options
    assert set(before.exemplars) < set(after.exemplars) and set(before.verdicts) < set(after.verdicts)
    assert after.strokes[-1] == before.strokes[0]  # above her strokes
    assert {name: after.classes[name] for name in before.classes} == before.classes
    assert [(one.name, one.place) for one in after.exemplars[-1:]] == [("gas", (3, 3, 3))]
    assert [(one.place, one.accept) for one in after.verdicts] == [((4, 5, 6), False), ((8, 8, 8), False)]
    words = " ".join(import_words(mine.entries, import_name(tmp_path / "hers.jsonl"), before, after))
    assert "1 exemplar," in words and "left out" in words and "index" in words and "1 forget" in words
    assert "On 1 patch the imported verdict differs" in words


def test_one_undo_removes_an_import(mine, hers, tmp_path):
    """Undo removes exactly the imported file; redo, or the same import, restores it."""
    before = mine.state()
    hers.give(tmp_path / "hers.jsonl")
    mine.take(tmp_path / "hers.jsonl")
    after = mine.state()
    assert after != before
    assert mine.undo() and mine.state() == before
    assert mine.redo() and mine.state() == after
    assert mine.undo() and mine.take(tmp_path / "hers.jsonl") and mine.state() == after
    assert mine.undo() and mine.undo() and len(mine.state().strokes) == 0


def test_an_earlier_forget_does_not_affect_an_import(mine, hers, tmp_path):
    """An import has the time when it was made: an earlier forget does not clear its verdicts, a later forget does."""
    hers.give(tmp_path / "hers.jsonl")
    mine.add({"what": "forget"})
    mine.take(tmp_path / "hers.jsonl")
    assert len(mine.state().verdicts) == 2
    mine.add({"what": "forget"})
    assert not mine.state().verdicts


def test_a_job_without_decisions_takes_imported_options_too(hers, tmp_path):
    """Decisions imported into an empty folder give the same state including options, also after a second import."""
    hers.give(tmp_path / "hers.jsonl")
    fresh = Decisions(tmp_path / "fresh")
    fresh.take(tmp_path / "hers.jsonl")
    assert fresh.state().options == hers.state().options
    fresh.give(tmp_path / "again.jsonl")
    third = Decisions(tmp_path / "third")
    third.take(tmp_path / "again.jsonl")
    for log in (fresh, third):
        assert [(one.name, one.place) for one in log.state().exemplars] == [
            (one.name, one.place) for one in hers.state().exemplars
        ]
        assert [one.place for one in log.state().verdicts] == [one.place for one in hers.state().verdicts]
    assert third.undo() and not third.state().exemplars


def test_a_newer_file_of_a_colleague_changes_her_older_one(mine, hers, tmp_path):
    """An exemplar removed in her second file is removed here; undo of the second import restores it."""
    hers.give(tmp_path / "one.jsonl")
    mine.take(tmp_path / "one.jsonl")
    first = mine.state()
    gas = next(one for one in hers.state().exemplars if one.name == "gas")
    hers.add({"what": "remove", "of": gas.id})
    hers.give(tmp_path / "two.jsonl")
    mine.take(tmp_path / "two.jsonl")
    assert len(mine.state().exemplars) == len(first.exemplars) - 1
    assert mine.undo() and mine.state() == first


def test_errors_for_files_that_cannot_be_imported(mine, tmp_path):
    """A missing file, a file of another kind and a truncated file each give their own error."""
    (tmp_path / "a.sgy").write_bytes(bytes(range(256)) * 20)
    (tmp_path / "cut.jsonl").write_text('{"id": "1", "time": "", "who": "x", "what": "forget"}\n{"id"')
    for name, words in (("nix", "There is no file"), ("a.sgy", "not a decision"), ("cut.jsonl", "middle of a line")):
        with pytest.raises(ValueError, match=words):
            mine.take(tmp_path / name)
