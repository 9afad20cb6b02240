"""Decisions: append-only, one file per writer, merged by time; no failure loses an acknowledged decision."""

import json
import multiprocessing
import os
import signal
import time
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest

import outcrop as oc
from outcrop.job import decisions
from outcrop.job.decisions import Decisions
from outcrop.job.entries import parse
from outcrop.job.state import acts, fold
from outcrop.job.strokes import covered, painted_sections, runs, stroke_mask
from outcrop.retrieval.exemplars import exemplar_patch
from outcrop.storage.stages import append_line

PLACE = [310, 547, 1600]
context = multiprocessing.get_context("spawn")


def exemplar(name="fault", place=PLACE):
    """Return the entry of an exemplar."""
    return {"what": "exemplar", "class": name, "place": list(place)}


def test_two_writers_see_each_other_and_undo_their_own(tmp_path):
    """Two writers in one folder: both see all decisions, each undoes only its own decisions."""
    one, two = Decisions(tmp_path, origin="shell"), Decisions(tmp_path, origin="page")
    one.add(exemplar("fault"))
    two.add(exemplar("salt dome", [1, 2, 3]))
    assert one.who != two.who
    assert [e.name for e in one.state().exemplars] == [e.name for e in two.state().exemplars] == ["fault", "salt dome"]
    assert one.undo() and [e.name for e in two.state().exemplars] == ["salt dome"]
    assert not one.undo()
    assert two.undo() and two.redo() and one.redo()
    assert len(one.state().exemplars) == 2


def test_a_writer_that_ended_leaves_its_file_to_the_next(tmp_path):
    """The next writer continues the file of a closed one, so that undo works after a restart."""
    one = Decisions(tmp_path)
    one.add(exemplar())
    who = one.who
    one.close()
    two = Decisions(tmp_path)
    assert two.who == who and two.undo() and two.state().exemplars == []


def test_one_act_is_undone_as_one(tmp_path):
    """Entries that were written together are undone and redone together."""
    log = Decisions(tmp_path)
    log.add(exemplar("a"))
    log.add({"what": "class", "class": "b", "colour": "#000000"}, exemplar("b"))
    assert log.undo() and list(log.state().classes) == ["a"]
    assert log.redo() and len(log.state().exemplars) == 2
    log.undo()
    log.add(exemplar("c"))
    assert not log.redo()


def test_an_act_that_fails_leaves_nothing(tmp_path):
    """After an error within an act none of its decisions count, and undo undoes the act before it."""
    log = Decisions(tmp_path)
    log.add(exemplar("a"))
    with pytest.raises(ValueError), log.act():
        log.add(exemplar("b", [1, 1, 1]))
        log.add(exemplar("c", [2, 2, 2]))
        raise ValueError
    assert list(log.state().classes) == ["a"]
    with log.act():
        log.add(exemplar("b", [1, 1, 1]))
        log.add(exemplar("c", [2, 2, 2]))
    assert log.undo() and list(log.state().classes) == ["a"] and log.undo() and not log.state().classes


def test_undo_restores_every_earlier_state(tmp_path):
    """Undoing act after act gives all earlier states in turn, redoing them gives all later states."""
    log, states = Decisions(tmp_path), []
    entries = [
        exemplar("a"), exemplar("b", [1, 1, 1]), {"what": "rename", "class": "a", "name": "c"},
        {"what": "reject", "class": "b", "place": [2, 2, 2], "along": "inline"},
        {"what": "accept", "class": "b", "place": [2, 2, 2], "along": "inline"},
        {"what": "stroke", "class": "a", "along": "inline", "points": [[1, 2, 3]], "radius": 4},
        {"what": "set", "name": "count", "value": {"a": 7}}, {"what": "remove class", "class": "a"}, {"what": "forget"},
    ]  # fmt: skip
    for entry in entries:
        states.append(log.state())
        log.add(entry)
    end = log.state()
    for state in reversed(states):
        assert log.undo() and log.state() == state
    for state in [*states[1:], end]:
        assert log.redo() and log.state() == state


def test_a_truncated_line_is_ignored(tmp_path):
    """After a kill in the middle of a line, decisions acknowledged before and after it are read."""
    log = Decisions(tmp_path)
    log.add(exemplar("a"))
    path = log.folder / f"{log.who}.jsonl"
    with open(path, "a") as handle:
        handle.write('{"what": "exempl')
    log.add(exemplar("b", [1, 1, 1]))
    again = Decisions(tmp_path)
    assert [e.name for e in again.state().exemplars] == ["a", "b"]
    assert again.damaged == {path.name: 1}


def test_an_imported_file_counts_once(tmp_path):
    """Imported decisions keep their author; importing them twice changes nothing."""
    one, two = Decisions(tmp_path / "a"), Decisions(tmp_path / "b")
    one.add(exemplar("fault"))
    one.add(exemplar("fault", [5, 6, 7]))
    assert one.give(tmp_path / "all.jsonl") == 2
    two.add(exemplar("salt dome", [1, 2, 3]))
    assert two.take(tmp_path / "all.jsonl") == 2 and two.take(tmp_path / "all.jsonl") == 2
    assert len(two.state().exemplars) == 3
    assert {entry["id"] for entry in one.entries} < {entry["id"] for entry in two.entries}
    (tmp_path / "bad.jsonl").write_text('{"what": "exemplar"}\n')
    with pytest.raises(ValueError, match=r"Line 1 of .* is not a decision"):
        two.take(tmp_path / "bad.jsonl")
    assert len(two.state().exemplars) == 3


def test_a_clock_that_is_behind_does_not_reorder(tmp_path, monkeypatch):
    """A decision has a later time than all decisions that its writer has read, even if its clock is behind."""
    one, two = Decisions(tmp_path), Decisions(tmp_path)
    one.add({"what": "set", "name": "count", "value": 5})
    real = decisions.datetime.datetime

    class Behind(real):
        @classmethod
        def now(cls, tz=None):
            return real.now(tz).replace(year=2001)

    monkeypatch.setattr(decisions.datetime, "datetime", Behind)
    two.add({"what": "set", "name": "count", "value": 9})
    assert one.state().options["count"] == 9


def test_a_class_keeps_its_patches_under_any_name(tmp_path):
    """Renaming changes only the name; replay ignores a new name that another class has."""
    log = Decisions(tmp_path)
    log.add(exemplar("a"), exemplar("b", [1, 1, 1]))
    log.add({"what": "rename", "class": "a", "name": "salt"})
    log.add({"what": "rename", "class": "b", "name": "salt"})
    state = log.state()
    assert {first: facts["name"] for first, facts in state.classes.items()} == {"a": "salt", "b": "b"}
    assert state.first_name("salt") == "a" and [e.name for e in state.exemplars] == ["a", "b"]


@pytest.mark.parametrize(
    "line",
    ["", "{", "[]", "null", '"a"', '{"what": "exemplar", "id": "1", "time": "", "who": "", "class": "a"}',
     '{"what": "exemplar", "id": "1", "time": "", "who": "", "class": "a", "place": [1, 2, NaN]}',
     '{"what": "stroke", "id": "1", "time": "", "who": "", "class": "a", "along": "time", "points": [], "radius": 1}',
     '{"what": "set", "id": "1", "time": "", "who": "", "name": 3, "value": 1}', "[" * 5000],
)  # fmt: skip
def test_a_line_that_is_not_a_decision_is_skipped(line):
    """Anything but a complete decision gives None."""
    assert parse(line) is None


def test_a_full_disk_acknowledges_nothing(tmp_path, monkeypatch):
    """If a line cannot be written completely, the file is unchanged and the caller gets an error."""
    log = Decisions(tmp_path)
    log.add(exemplar("a"))
    before = (log.folder / f"{log.who}.jsonl").read_bytes()
    write = os.write
    monkeypatch.setattr(os, "write", lambda handle, data: write(handle, data[:10]))
    with pytest.raises(OSError, match="No space"):
        log.add(exemplar("b", [1, 1, 1]))
    monkeypatch.undo()
    assert (log.folder / f"{log.who}.jsonl").read_bytes() == before
    log.add(exemplar("c", [2, 2, 2]))
    assert [e.name for e in log.state().exemplars] == ["a", "c"]


def _write_until_killed(folder, count):
    log = Decisions(folder)
    while True:
        log.add(exemplar("a", [count.value, 1, 1]))
        count.value += 1


def test_killed_writers_lose_nothing_they_acknowledged(tmp_path):
    """Of three writers that are killed while they write, every decision whose call had returned is read."""
    counts = [context.Value("i", 0) for _ in range(3)]
    writers = [context.Process(target=_write_until_killed, args=(tmp_path, count)) for count in counts]
    for writer in writers:
        writer.start()
    while min(count.value for count in counts) < 20:
        pass
    for writer in writers:
        os.kill(writer.pid, signal.SIGKILL)
        writer.join()
    entries = Decisions(tmp_path).entries
    for who, acknowledged in zip(sorted({e["who"] for e in entries}), sorted(c.value for c in counts), strict=True):
        assert who.count("@") == 1 and acknowledged >= 20
    by_writer = sorted(len([e for e in entries if e["who"] == who]) for who in {e["who"] for e in entries})
    assert all(n >= c.value for n, c in zip(by_writer, sorted(counts, key=lambda c: c.value), strict=True))


def test_acts_and_fold_of_nothing():
    """Without entries there are no acts and no classes."""
    assert acts([]) == ([], []) and fold([]).classes == {}


def test_a_stroke_covers_what_lies_within_its_radius():
    """The covered samples are those of a slow twin: distances of all samples to many points on the line."""
    spots, radius = [(5, 5), (20, 9), (12, 30)], 3.3
    ends = np.array(spots, float)
    fine = np.concatenate([a + (b - a) * np.linspace(0, 1, 2000)[:, None] for a, b in pairwise(ends)])
    grid = np.stack(np.indices((32, 40)), -1).reshape(-1, 1, 2)
    slow = (np.sqrt(((grid - fine) ** 2).sum(-1)).min(1) <= radius).reshape(32, 40)
    assert (covered((32, 40), spots, radius) != slow).sum() <= 2  # samples exactly on the rim
    disc = covered((32, 40), [(10, 10)], 4)
    a, b = np.ogrid[:32, :40]
    np.testing.assert_array_equal(disc, (a - 10) ** 2 + (b - 10) ** 2 <= 16)


def test_strokes_are_painted_in_their_order_and_runs_come_back():
    """Later strokes win, erase clears, runs of a mask give that mask again; strokes outside the volume are ignored."""
    axes = [np.arange(100, 105), np.arange(300, 340), np.arange(0, 160, 4.0)]
    stroke = {"class": "a", "along": "inline", "points": [[102, 310, 40], [102, 320, 80]], "radius": 3}
    crossing = {"class": "b", "along": "inline", "points": [[102, 310, 80], [102, 320, 40]], "radius": 2}
    erase = {"class": "erase", "along": "inline", "points": [[102, 320, 80]], "radius": 2}
    far = {"class": "a", "along": "inline", "points": [[999, 310, 40]], "radius": 3}
    sections = painted_sections([stroke, crossing, erase, far], ["a", "b"], axes)
    assert list(sections) == [(0, 2)]
    codes, masks = sections[0, 2], [stroke_mask(one, axes) for one in (stroke, crossing, erase)]
    np.testing.assert_array_equal(codes == 2, masks[1] & ~masks[2])
    np.testing.assert_array_equal(codes == 1, masks[0] & ~masks[1] & ~masks[2])
    again = {"class": "a", "along": "inline", "line": 102, "runs": runs(masks[0], axes[1], axes[2])}
    np.testing.assert_array_equal(stroke_mask(again, axes), masks[0])
    json.dumps(again)


def test_appending_ends_a_broken_line_first(tmp_path):
    """A line appended to a file that ends in the middle of a line begins on a new line."""
    path = tmp_path / "x.txt"
    path.write_bytes(b"one\ntw")
    append_line(path, "three")
    assert path.read_bytes() == b"one\ntw\nthree\n"


def test_undo_reaches_all_ended_writers_of_a_person(tmp_path):
    """Two commands that ran at once are two writers; once both have ended, undo begins with the later act."""
    one, two = Decisions(tmp_path), Decisions(tmp_path)
    one.add(exemplar("fault"))
    two.add(exemplar("salt dome", [1, 2, 3]))
    one.close()
    two.close()
    three = Decisions(tmp_path)
    assert three.undo() and [e.name for e in three.state().exemplars] == ["fault"]
    assert three.undo() and three.state().exemplars == []
    assert three.redo() and [e.name for e in three.state().exemplars] == ["fault"]


def test_an_act_inside_an_act_is_undone_with_it(tmp_path):
    """Acts inside another act are parts of it: they are undone and redone together."""
    log = Decisions(tmp_path)
    with log.act():
        log.add(exemplar("a"))
        with log.act():
            log.add(exemplar("b", [1, 1, 1]))
        log.add(exemplar("c", [2, 2, 2]))
    assert log.undo() and log.state().classes == {}
    with pytest.raises(ValueError), log.act():
        log.add(exemplar("a"))
        with log.act():
            log.add(exemplar("b", [1, 1, 1]))
        raise ValueError
    assert log.state().classes == {} and log.redo() and list(log.state().classes) == ["a", "b", "c"]


def test_undo_and_redo_return_the_entries_of_the_act(tmp_path):
    """The entries name who decided them; without an act to undo or redo the list is empty."""
    log = Decisions(tmp_path)
    written = log.add({"what": "class", "class": "b", "colour": "#000000"}, exemplar("b"))
    assert log.undo() == written and written[0]["who"] == log.who
    assert log.undo() == [] and log.redo() == written and log.redo() == []


def test_answers_to_an_audit_are_undone_together(tmp_path):
    """In the shell one undo undoes all answers to an audit; on the page, one answer."""
    shell, page = Decisions(tmp_path / "a", origin="shell"), Decisions(tmp_path / "b", origin="page")
    answer = {"what": "audit", "class": "fault", "along": "inline", "answer": "yes", "subject": "patches", "stratum": 0}
    for log in (shell, page):
        log.add(exemplar())
        log.add(answer | {"of": "older", "place": PLACE})
        for number in range(3):
            log.add(answer | {"of": "key", "place": [number, 2, 3]})
    assert len(shell.undo()) == 3 and [one["of"] for one in shell.state().audits] == ["older"]
    assert len(shell.redo()) == 3 and len(shell.state().audits) == 4
    assert shell.undo() and len(shell.undo()) == 1
    assert shell.undo()[0]["what"] == "exemplar" and not shell.undo()
    assert len(page.undo()) == 1 and len(page.state().audits) == 3


def test_many_verdicts_are_replayed_fast():
    """The time to replay verdicts grows linearly with their number: these took a minute once."""
    about = {"what": "accept", "class": "a", "along": "inline", "time": "", "who": "me@here-1"}
    entries = [about | {"id": str(i), "place": [i, 2, 3]} for i in range(20_000)]
    begin = time.process_time()
    assert len(fold(entries).verdicts) == len(entries)
    assert time.process_time() - begin < 5  # 0.2 s when this was written


def test_an_accepted_patch_is_searched_for_in_its_direction():
    """A class without exemplars is searched by its accepted patches, cut in the direction of the verdict."""
    volume = oc.open_volume(np.random.default_rng(0).standard_normal((40, 40, 40)))
    grid = oc.PatchGrid(volume, size=32, step=4, along="both")
    place = [float(axis[len(axis) // 2]) for axis in grid.axes]
    for along in ("inline", "crossline"):
        verdict = {"id": "1", "what": "accept", "class": "a", "place": place, "along": along}
        query = fold([verdict]).queries()["a"][0].patch
        found = exemplar_patch(SimpleNamespace(grid=grid, volume=volume), query)
        np.testing.assert_array_equal(found, grid.cut(volume, grid.start_at(place, along=along))[0])


def test_an_act_of_another_kind_or_person_is_undone_by_its_id(tmp_path):
    """One writer undoes an act of another writer that is not the last one; redo repeats it once."""
    one, two = Decisions(tmp_path, origin="page"), Decisions(tmp_path, origin="page")
    (first,) = one.add(exemplar("fault"))
    two.add(exemplar("salt dome", [1, 2, 3]))
    assert [[entry["class"] for entry in act] for act in two.undoable()] == [["salt dome"], ["fault"]]
    assert two.undo(first["id"]) == [first]
    assert [e.name for e in one.state().exemplars] == ["salt dome"]
    assert one.undo() == []
    with pytest.raises(ValueError, match="was undone before"):
        one.undo(first["id"])
    assert two.redo() == [first] and len(one.undoable()) == 2
    assert one.undo() == [first]
    one.close()
    two.close()
