"""State machine that applies random actions of people, programs and disks to a job, and checks laws after each.

Command line (in this process), page and notebook work on one folder in turn: they decide, confirm lines, import, undo,
index again, retrieve, label and export. The volume is touched and moved, reads fail, the disk is full, the process is
killed before a write, and stages are damaged. A model records every acknowledged decision. Laws after every step: the
job has exactly the acknowledged decisions; confirmed lines keep their labels; fresh labels equal the labels of a new
folder with the same decisions; a return to earlier decisions finds the earlier result.
"""

import contextlib
import errno
import hashlib
import io
import os
import shutil
import sys
import tempfile
from pathlib import Path
from unittest import mock

import numpy as np
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from matplotlib.figure import Figure

import outcrop as oc
from outcrop import cli, datasets
from outcrop.app.session import Session
from outcrop.job.labelling import label_view, vote_keys
from outcrop.storage.workspace import Damaged

SIZE, SHAPE = 32, (6, 64, 64)
NAMES = ("fault", "other", "salt dome")
LINES = tuple(range(100, 106))
PLACES = [(line, x, t) for line in (101, 103, 104) for x in (320, 335, 345) for t in (72, 120, 180)]


class Killed(BaseException):
    """Raised in place of a kill of the process: nothing after it runs."""


class Model:
    """The acknowledged acts in order, each with its entries, its effect, and whether it is undone."""

    def __init__(self):
        self.acts = []  # [ids of its entries, kind, payload, undone]
        self.known = set()  # ids of all entries so far

    def add(self, entries, kind, payload):
        """Record an act that consists of the new entries."""
        ids = {entry["id"] for entry in entries} - self.known
        self.known |= ids
        self.acts.append([ids, kind, payload, False])

    def step(self, entry):
        """Undo or redo the act that an entry of the log names."""
        self.known.add(entry["id"])
        for act in self.acts:
            if act[0] & set(entry["of"]):
                act[3] = entry["what"] == "undo"

    def state(self):
        """Return the present exemplars, verdicts, strokes and confirmed lines."""
        exemplars, verdicts, strokes, confirmed = set(), {}, [], []
        for _, kind, payload, undone in self.acts:
            if undone:
                continue
            if kind == "exemplars":
                exemplars |= set(payload)
            elif kind == "remove":
                exemplars -= {payload}
            elif kind == "verdicts":
                places = [place for _, place in payload]  # the last verdict on a patch counts
                verdicts = {key: value for key, value in verdicts.items() if key[1] not in places} | payload
            elif kind == "forget":
                verdicts = {}
            elif kind == "stroke":
                strokes.append(payload)
            elif kind == "confirm":
                confirmed += payload[0]
            elif kind == "unconfirm":
                confirmed = [line for line in confirmed if line != payload]
        return exemplars, verdicts, strokes, sorted(confirmed)

    def shown(self):
        """Return line -> labels of confirmed lines that no later stroke or exemplar can change."""
        found = {}
        for _, kind, payload, undone in self.acts:
            if undone:
                continue
            if kind == "confirm" and payload[1] is not None:
                found[payload[0][0]] = payload[1]
            elif kind == "unconfirm":
                found.pop(payload, None)
            elif kind in ("exemplars", "stroke"):
                found = {}
        return found


def actual(job):
    """Return the state of a job in the form of `Model.state`."""
    state = job.plan.state
    exemplars = {(one.name, tuple(map(float, one.place))) for one in state.exemplars}
    verdicts = {(one.name, tuple(map(float, one.place))): one.accept for one in state.verdicts}
    strokes = [(stroke["class"], tuple(map(tuple, stroke["points"]))) for stroke in state.strokes]
    return exemplars, verdicts, strokes, sorted(one["line"] for one in state.confirmed)


class JobMachine(RuleBasedStateMachine):
    """One job folder, used by command line, page and notebook, with failures of process and disk."""

    def __init__(self):
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.path, self.volume = self.folder / "j.outcrop", self.folder / "v.sgy"
        self.model, self.seen = Model(), {}
        self.stack = contextlib.ExitStack()
        drawn = mock.patch.object(Figure, "savefig", lambda _, path, **options: Path(path).write_bytes(b"picture"))
        self.stack.enter_context(drawn)  # drawing a figure takes a second
        self.page = None
        self.damaged_lines = set()

    @initialize()
    def make(self):
        """Make the volume and the job, with an exemplar of each of two classes."""
        made = Path(tempfile.gettempdir()) / f"outcrop-stateful-{os.getpid()}.sgy"
        if not made.exists():
            datasets.write_synthetic(made, SHAPE, seed=1)
        shutil.copy(made, self.volume)
        self.notebook = oc.Job(self.path, volume=self.volume)
        self.notebook.choose_index(size=SIZE, step=16)
        self._note("other", None)
        for name, place in (("fault", PLACES[4]), ("other", PLACES[8])):
            self.notebook.add_exemplar(name, place)
            self._note("exemplars", [(name, tuple(map(float, place)))])

    def teardown(self):
        """Close and remove the job."""
        if self.page is not None:
            self.page.close()
        self.notebook.close()
        self.stack.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    # ---- helpers ----------------------------------------------------------------------------------------------------

    def _note(self, kind, payload):
        self.model.add(self._own_entries(), kind, payload)

    def _own_entries(self):
        """Return the entries of this job, without imported entries."""
        return [entry for entry in oc.Job(self.path).log.entries if not entry.get("import")]

    def _shell(self, *words):
        """Run a command in this process; return its exit code and its output."""
        out = io.StringIO()
        with (
            mock.patch.object(sys, "argv", ["outcrop", *map(str, words)]),
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(out),
        ):
            try:
                cli.main()
            except SystemExit as stop:
                return stop.code, out.getvalue()
        raise AssertionError("the command did not end")

    def _entries(self):
        return len(oc.Job(self.path).log.entries)

    # ---- decisions --------------------------------------------------------------------------------------------------

    @rule(name=st.sampled_from(NAMES), place=st.sampled_from(PLACES))
    def exemplar_in_the_notebook(self, name, place):
        """Add an exemplar in the notebook; the same exemplar is added once."""
        before = self._entries()
        self.notebook.add_exemplar(name, place)
        if self._entries() > before:
            self._note("exemplars", [(name, tuple(map(float, place)))])

    @rule(name=st.sampled_from(NAMES), place=st.sampled_from(PLACES))
    def exemplar_in_the_shell(self, name, place):
        """Add an exemplar and search with one command."""
        before = self._entries()
        text = f"{name.replace(' ', '-')}={','.join(map(str, place))}"
        code, output = self._shell("retrieve", self.path, "--exemplar", text)
        if self._entries() > before:
            self._note("exemplars", [(name, tuple(map(float, place)))])
        assert code == 0 or "damaged" in output, output

    @rule(name=st.sampled_from(NAMES), place=st.sampled_from(PLACES))
    def exemplar_on_the_page(self, name, place):
        """Add an exemplar by a click on the page."""
        page = self._page()
        if name not in page.job.classes:
            page.decide(page.job.add_class, name)
            self._note("other", None)
        before = self._entries()
        page.add_exemplar(name, place)
        if self._entries() > before:
            self._note("exemplars", [(name, tuple(map(float, place)))])

    def _page(self):
        if self.page is None:
            before = self._snapshot()
            self.page = Session(self.path)
            after = self._snapshot()
            changed = {str(name) for name in before.keys() | after.keys() if before.get(name) != after.get(name)}
            assert not changed or self.damaged_lines, f"opening the page changed {changed}"
        return self.page

    def _snapshot(self):
        """Return the digests of all files of the folder except the view and locks."""
        files = (p for p in self.path.rglob("*") if p.is_file() and p.suffix != ".lock" and p.name != "view.json")
        return {p.relative_to(self.path): hashlib.sha256(p.read_bytes()).digest() for p in files}

    @rule()
    def close_the_page(self):
        """Close the page."""
        if self.page is not None:
            self.page.close()
            self.page = None

    @rule(number=st.integers(0, 30), accept=st.booleans(), where=st.sampled_from(["notebook", "shell"]))
    def judge(self, number, accept, where):
        """Accept or reject a row of the retrieved patches."""
        try:
            table = self.notebook.retrieve().table
        except Damaged:
            return
        one = table.iloc[number % len(table)]
        payload = {(one["class"], tuple(float(one[name]) for name in ("inline", "crossline", "time"))): accept}
        if where == "notebook":
            (self.notebook.accept if accept else self.notebook.reject)(int(one["row"]))
            self._note("verdicts", payload)
            return
        before = self._entries()
        code, output = self._shell("retrieve", self.path, "--accept" if accept else "--reject", int(one["row"]))
        if self._entries() > before:
            self._note("verdicts", payload)
        assert code == 0 or "No patch is most similar" in output or "damaged" in output, output

    @rule(name=st.sampled_from(NAMES[:2]), place=st.sampled_from(PLACES), radius=st.integers(1, 6))
    def paint(self, name, place, radius):
        """Paint a stroke in the notebook."""
        self.notebook.paint(name, [place], radius=radius)
        self._note("stroke", (name, (tuple(map(float, place)),)))

    @rule(who=st.sampled_from(["notebook", "page", "shell"]), redo=st.booleans())
    def undo(self, who, redo):
        """Undo or redo the last act of a writer."""
        before = self._entries()
        if who == "shell":
            code, output = self._shell("decisions", self.path, "--redo" if redo else "--undo")
            assert code == 0, output
        else:
            target = self.notebook if who == "notebook" else self._page()
            (target.redo if redo else target.undo)()
        if self._entries() > before:
            self.model.step(self._own_entries()[-1])

    # ---- work -------------------------------------------------------------------------------------------------------

    @rule(step=st.sampled_from([16, 20]))
    def index_again(self, step):
        """Index with another step on the command line."""
        before = self._entries()
        code, output = self._shell("index", self.volume, "-o", self.path, "--size", SIZE, "--step", step)
        assert code == 0, output
        if self._entries() > before:
            self._note("other", None)

    @rule(
        lines=st.lists(st.sampled_from(LINES), min_size=1, max_size=2, unique=True), seed=st.sampled_from([0, 0, 0, 5])
    )
    def label(self, lines, seed):
        """Label lines in the notebook."""
        labelled = set(self.notebook.labelled)
        before = self._entries()
        for attempt in range(4):
            try:
                labels = self.notebook.label(sorted(lines), seed=seed)
                labels["label"].load()
                break
            except Damaged:
                if attempt == 3:
                    raise
            except ValueError as error:
                if not any(text in str(error) for text in ("two classes", "no exemplars", "more like")):
                    raise
                break
        if self._entries() > before:
            self._note("other", None)
        assert set(self.notebook.labelled) >= labelled - self.damaged_lines

    @rule(limit=st.sampled_from([0.3, 0.6, None]))
    def limit_in_the_shell(self, limit):
        """Set another limit of confidence, which makes no line stale."""
        status = oc.Job(self.path).status()
        if not status["lines"]["labelled"] or status["lines"]["stale"] or self.damaged_lines:
            return
        line = LINES[min(oc.Job(self.path).labelled)]
        if oc.Job(self.path).plan.keys["votes"] is None:  # all lines are confirmed
            return
        before = self._entries()
        words = [] if limit is None else ["--min-confidence", limit]
        code, output = self._shell("label", self.path, "--lines", line, *words)
        if self._entries() > before:
            self._note("other", None)
        assert code == 0, output
        assert oc.Job(self.path).status()["lines"] == status["lines"]

    @rule()
    def export(self):
        """Export labels; stale labels are refused."""
        status = oc.Job(self.path).status()
        code, output = self._shell("export", self.path, self.folder / "out.sgy")
        if status["lines"]["labelled"] and not status["lines"]["stale"] and not self.damaged_lines:
            assert code == 0, output
        elif status["lines"]["stale"]:
            assert code == 2, output

    # ---- file system ------------------------------------------------------------------------------------------------

    @rule()
    def touch(self):
        """Change the time stamp of the volume file, which makes no line stale."""
        before = oc.Job(self.path).status()["lines"]
        os.utime(self.volume)
        assert oc.Job(self.path).status()["lines"] == before

    @rule()
    def move(self):
        """Rename the volume file, which makes no line stale."""
        before = oc.Job(self.path).status()["lines"]
        target = self.folder / ("w.sgy" if self.volume.name == "v.sgy" else "v.sgy")
        os.rename(self.volume, target)
        self.volume = target
        self.notebook.close()
        self.close_the_page()
        self.notebook = oc.Job(self.path, volume=target)
        assert oc.Job(self.path).status()["lines"] == before

    @rule(
        at=st.integers(0, 12),
        what=st.sampled_from(["label", "retrieve", "exemplar"]),
        how=st.sampled_from(["kill", "full"]),
    )
    def interrupt(self, at, what, how):
        """Kill the process before its nth write, or let the disk be full from then on."""
        self.close_the_page()  # its threads would be killed too
        before = actual(oc.Job(self.path))
        count, job = [0], oc.Job(self.path)
        place = PLACES[at % len(PLACES)]
        failure = Killed() if how == "kill" else OSError(errno.ENOSPC, "No space left on device")

        def failing(function):
            def call(*arguments, **options):
                count[0] += 1
                if count[0] > at:
                    raise failure
                return function(*arguments, **options)

            return call

        patches = [mock.patch.object(os, name, failing(getattr(os, name))) for name in ("replace", "write", "rename")]
        with contextlib.ExitStack() as stack:
            for one in patches:
                stack.enter_context(one)
            with contextlib.suppress(Killed, OSError, ValueError):
                if what == "label":
                    job.label([LINES[2]])
                elif what == "retrieve":
                    job.retrieve()
                else:
                    job.add_exemplar("fault", place)
        job.close()
        after = actual(oc.Job(self.path))
        if after != before:
            assert what == "exemplar"
            self._note("exemplars", [("fault", tuple(map(float, place)))])
        self._sync_others()

    def _sync_others(self):
        """Record options that interrupted work has set as an act without effect on the model."""
        if any(entry["id"] not in self.model.known for entry in self._own_entries()):
            self._note("other", None)

    @rule(what=st.sampled_from(["label", "index"]))
    def reads_fail(self, what):
        """Let reads of the volume fail during a command."""
        before = actual(oc.Job(self.path))
        failing = mock.patch(
            "outcrop.volumes.opening.LazyVolume.block", side_effect=OSError(errno.EIO, "Input/output error")
        )
        job = oc.Job(self.path)
        with failing, contextlib.suppress(OSError, ValueError):
            if what == "label":
                job.label([LINES[4]], seed=7)
            else:
                job.index(SIZE, step=18)
        job.close()
        assert actual(oc.Job(self.path)) == before
        self._sync_others()

    @rule(number=st.integers(0, 10**6), how=st.sampled_from(["truncate", "flip", "remove"]))
    def damage_a_stage(self, number, how):
        """Damage a file of a stage; decisions stay, and results that are computed again are equal."""
        files = sorted(p for p in (self.path / "stages").rglob("*") if p.is_file() and "damaged" not in str(p))
        files = [
            p for p in files if p.name not in ("stage.json", "journal.txt", "published.txt") and p.suffix != ".csv"
        ]
        if not files:
            return
        path = files[number % len(files)]
        data = bytearray(path.read_bytes())
        path.unlink()
        if how == "truncate":
            path.write_bytes(data[: len(data) // 2])
        elif how == "flip" and data:
            data[number % len(data)] ^= 255
            path.write_bytes(data)
        self.damaged_lines = set(range(SHAPE[0]))  # any line may have to be labelled again
        self.seen = {}
        self.notebook._memory.clear()
        self.close_the_page()

    # ---- laws -------------------------------------------------------------------------------------------------------

    @invariant()
    def the_job_has_exactly_the_acknowledged_decisions(self):
        """The job, opened again, has the state of the model."""
        if hasattr(self, "notebook"):
            for found, known in zip(actual(oc.Job(self.path)), self.model.state(), strict=True):
                assert found == known, f"{found} is not {known}"

    @invariant()
    def votes_of_a_key_do_not_change(self):
        """The votes of a line under a key never change, and no labelled line disappears."""
        if not hasattr(self, "notebook"):
            return
        job = oc.Job(self.path)
        current = job.plan.keys["votes"]
        sources = vote_keys(job, job.plan)
        view, stale = label_view(job, job.plan)
        for line, store in view.stores.items():
            if line not in sources:  # a confirmed line without votes
                assert line in view.confirmed.own
                continue
            try:
                votes = hashlib.sha256(store.read(line).tobytes()).hexdigest()
            except ValueError:
                continue
            known = self.seen.setdefault((sources[line], line), votes)
            assert known == votes, "votes of a key changed"
            assert (line in stale) == (sources[line] != current) or line in view.confirmed.own - stale
        for key, line in self.seen:
            if key == current:
                assert sources.get(line) == current, "a return to earlier decisions does not find the earlier result"

    @invariant()
    def a_confirmed_line_keeps_its_labels(self):
        """Every sample that was labelled with certainty when the line was confirmed keeps its label."""
        if not hasattr(self, "notebook"):
            return
        for line, codes in self.model.shown().items():
            with contextlib.suppress(Damaged):
                now = oc.Job(self.path).labels["label"].sel(inline=line).values
                sure = (codes > 0) & (codes < 255)
                np.testing.assert_array_equal(now[sure], codes[sure])

    @rule(line=st.sampled_from(LINES))
    def a_fresh_folder_agrees(self, line):
        """The labels of a fresh line equal the labels of a new folder with the same decisions."""
        job = oc.Job(self.path)
        position = LINES.index(line)
        if job.labelled.get(position, True):
            return
        try:
            here = job.labels["label"].isel(inline=position).values
        except Damaged:
            return
        job.log.give(self.folder / "all.jsonl")
        other = oc.Job(self.folder / "fresh.outcrop", volume=self.volume)
        other.log.take(self.folder / "all.jsonl")
        options = other.plan.state.options
        try:
            again = other.label([line], seed=options.get("label", {}).get("seed", 0), **options.get("limits", {}))
        except ValueError:  # without exemplars only confirmed lines have labels
            assert position in label_view(job, job.plan)[0].confirmed.own
            again = other.labels.sel(inline=[line])
        np.testing.assert_array_equal(again["label"].values[0], here)
        other.close()
        shutil.rmtree(self.folder / "fresh.outcrop")
        (self.folder / "all.jsonl").unlink()
