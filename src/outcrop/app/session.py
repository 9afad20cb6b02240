"""Everything the interpreter's page does, without a page: decisions, search, labels, exports, all in a `Job`."""

import re
import threading

import numpy as np

import outcrop as oc
from outcrop.app.audit import Audits
from outcrop.app.geology import Geology
from outcrop.app.labelling import Labelling
from outcrop.app.pictures import crop
from outcrop.app.results import Results
from outcrop.app.search import Search
from outcrop.app.survey import Survey, open_job
from outcrop.app.unseen import Unseen
from outcrop.app.view import View
from outcrop.app.words import in_words
from outcrop.app.work import Work
from outcrop.job.strokes import section_of
from outcrop.mapping.registry import DEFAULT_MAPPING
from outcrop.measures.curvelet import SMALLEST
from outcrop.patches.grid import DIRECTIONS
from outcrop.volumes.lengths import parse_size

STRIPES = 6  # traces from one stripe to the next where a class is excluded
POLL = 1.0  # seconds between two looks at what others decided


class Session:
    """One job as the page sees it. Opening it changes nothing in the job, and any number may be open at once.

    Parameters
    ----------
    source : path or DataArray
        A volume, or a job folder.
    job : path, optional
        The job folder of a volume; by default NAME.outcrop in the current folder.
    size : int, (int, int) or str, optional
        Patch size of a new job, as `parse_size` takes it; 99, or less where the volume is smaller.
    truth : path or DataArray, optional
        Expert labels to compare with.

    Attributes
    ----------
    job : Job
        With ``state``, ``palette`` and ``classes``; change it only through the methods below.
    survey : Survey
    view : View
    work : Work
        What runs.
    search : Search
    labelling : Labelling
    results : Results
    geology : Geology
    audits : Audits
    unseen : Unseen
    """

    def __init__(self, source, job=None, *, size=None, truth=None):
        truth, truth_path = (truth, None) if truth is None or hasattr(truth, "dims") else (oc.open_volume(truth), truth)
        self.job = open_job(source, job, size)
        self._listeners: list = []
        self.survey = Survey(self.job)
        self.survey.sections.refined = lambda: self.tell("section")
        self.view = View(self.job.path)
        self.work = Work(self.tell)
        self.search = Search(self.job, self.survey, self.work)
        self.labelling = Labelling(self.search, truth, self.view)
        self.results = Results(self.labelling, truth_path)
        self.geology = Geology(self)
        self.audits, self.unseen = Audits(self), Unseen(self)
        self._painted: tuple = (None, {}, {})
        self._seen = (self.job.state, self._journals())
        self._closed = threading.Event()
        self._watcher = threading.Thread(target=self._watch, daemon=True)
        self._watcher.start()
        self.work.say(self.labelling.broken_off())
        self.labelling.look()

    @property
    def path(self):
        """The job folder."""
        return self.job.path

    def listen(self, function):
        """Call a function with what changed whenever something does.

        It is one of "state", "strokes", "work", "weak", "labels", "places", "section", "geology", "audit" and
        "unseen".
        """
        self._listeners.append(function)
        return lambda: self._listeners.remove(function) if function in self._listeners else None

    def tell(self, what):
        """Tell every page that something changed."""
        for function in list(self._listeners):
            function(what)

    def close(self):
        """Stop all work and let go of the job folder."""
        self._closed.set()
        self._watcher.join()
        self.view.close()
        self.work.close()
        self.search.close()
        self.labelling.close()
        self.geology.close()
        self.survey.sections.close()
        self.job.close()

    # ---- what others do ---------------------------------------------------------------------------------------------

    def _watch(self):
        while not self._closed.wait(POLL):
            try:
                self.catch_up()
            except OSError as error:  # a disk that is away for a moment
                self.work.say(str(error), wrong=True)

    def catch_up(self):
        """Show what other writers decided, retrieved and labelled since."""
        state, journals = self.job.state, self._journals()
        (old, before), self._seen = self._seen, (state, journals)
        if state is not old:
            self.tell("state")
        if state is not old or journals[0] != before[0]:
            self.search.refresh(mine=False)
        if journals[1] != before[1]:
            self.tell("labels")
            self.labelling.look()

    def _journals(self):
        """Bytes of the journals of tables and of votes, which grow with whatever is made."""
        path = self.job.stages.root / "retrieved" / "journal.txt"
        return path.stat().st_size if path.is_file() else 0, self.labelling.written()

    def _decided(self):
        """Tell the pages of a decision made here, and bring the retrieved patches up to it behind their backs."""
        self.work.forget()
        self._seen = (self.job.state, self._seen[1])
        self.tell("state")
        self.search.refresh()

    # ---- classes ----------------------------------------------------------------------------------------------------

    def add_class(self, name, colour=None):
        """Add a class; its name as the project writes it."""
        name = self.job.add_class(name, colour)
        self._decided()
        return name

    def rename_class(self, old, new):
        """Give a class another name, everywhere."""
        self.job.rename_class(old, new)
        self._decided()

    def recolour_class(self, name, colour):
        """Give a class another colour."""
        self.job.recolour_class(name, colour)
        self._decided()

    def remove_class(self, name):
        """Remove a class with its exemplars, verdicts and strokes."""
        self.job.remove_class(name)
        self._decided()

    def exemplars(self):
        """Exemplars with the present names of their classes: (id, class, place), place None for a picture."""
        state = self.job.state
        return [one._replace(name=state.classes[one.name]["name"]) for one in state.exemplars]

    # ---- exemplars and retrieved patches ---------------------------------------------------------------------------

    def add_exemplar(self, name, place, *, new=False):
        """Place an exemplar of a class with its centre at (inline, crossline, time); where it came to lie.

        A `new` class is made with it where there is none of that name.
        """
        if not new:
            self._check_class(name)
        place = self.survey.snap(place)
        self.job.add_exemplar(name, place)
        self._decided()
        return place

    def move_exemplar(self, id, place):
        """Move an exemplar; where it came to lie."""
        place = self.survey.snap(place)
        self.job.move_exemplar(id, place)
        self._decided()
        return place

    def remove_exemplar(self, id):
        """Remove an exemplar."""
        self.job.remove_exemplar(id)
        self._decided()

    def judge(self, name, place, *, along="inline", accept=None):
        """Accept (True) or reject (False) a retrieved patch, or take the verdict back (None); the rest re-ranks."""
        self._check_class(name)
        self.job.judge([(name, place, along)], "forget" if accept is None else "accept" if accept else "reject")
        self._decided()

    def answer(self, number, answer, really=None):
        """Answer a question of the audit; see `Audits.answer`."""
        self.audits.answer(number, answer, really)
        self._decided()

    def set_count(self, name, count):
        """Take that many patches of a class, or as many as ``auto_count`` says (None); other classes keep theirs."""
        self._check_class(name)
        state = self.job.state
        names = {first: facts["name"] for first, facts in state.classes.items()}
        before = state.options.get("count") or {}
        counts = before if isinstance(before, dict) else dict.fromkeys(names, before)
        counts = {names[first]: n for first, n in counts.items() if first in names}
        counts |= {name: "auto" if count is None else max(1, int(count))}
        self.job.choose_retrieval(count=counts)
        self._decided()

    def set_size(self, size, line=None):
        """Take patches of another size, as `parse_size` takes it; exemplars stay where they are."""
        height, width = parse_size(size, self.job.volume) if isinstance(size, str) else size
        if min(height, width) < SMALLEST:
            raise ValueError(f"A patch of {height} x {width} is too small; choose at least {SMALLEST} x {SMALLEST}.")
        if (height, width) != self.survey.size:
            self.search.choose_size((height, width), line)
            self._decided()

    def cut_at(self, name, similarity):
        """Take the patches of a class that are at least so similar, as the similarity curve has them."""
        self.set_count(name, max(1, int(np.count_nonzero(self.search.weak.curves[name] >= similarity))))

    @property
    def mapping(self):
        """Name of the mapper that is chosen."""
        return self.job.state.options.get("label", {}).get("mapping", DEFAULT_MAPPING)

    def set_mapping(self, name):
        """Choose the mapper by its name in `MAPPERS`; other options of the labels stay."""
        chosen = self.job.state.options.get("label", {})
        limits = self.job.state.options.get("limits", {})
        others = {"seed": chosen.get("seed", 0), "step": chosen.get("step"), "with_jobs": chosen.get("with", ())}
        if name != self.mapping:
            self.job.choose_labels(mapping=name, **others, **limits)
            self._decided()

    def set_limit(self, confidence):
        """Call labels below a confidence, 0 to 1, uncertain from now on; they are made from the same votes."""
        chosen = self.job.state.options.get("label", {})
        others = {"seed": chosen.get("seed", 0), "step": chosen.get("step"), "with_jobs": chosen.get("with", ())}
        if abs(confidence - self.labelling.limit) > 1e-6:
            self.job.choose_labels(min_confidence=float(confidence), **others)
            self._decided()

    def _check_class(self, name):
        palette = self.job.palette
        if name not in palette:
            raise ValueError(f"Class {name!r} is unknown; choose one of {', '.join(palette) or 'none yet'}.")

    # ---- undo -------------------------------------------------------------------------------------------------------

    def undo(self):
        """Take the last decision of this page back; whether there was one."""
        return self._go_back(self.job.undo, "undo")

    def redo(self):
        """Do again what was undone; whether there was anything."""
        return self._go_back(self.job.redo, "redo")

    def _go_back(self, change, verb):
        """Undo or redo, and say what; lines whose strokes change by it follow."""
        before, shown = self.job.state, self.labelling.shown()
        done = change()
        after = self.job.state
        strokes = [
            one for one in (*before.strokes, *after.strokes) if (one in before.strokes) != (one in after.strokes)
        ]
        for stroke in strokes:
            place = section_of(stroke, self.job.axes)
            if place is not None:
                self._follow(place[0], place[1], shown)
        self._decided()
        if done:
            entries = self.job.log.entries
            act = [entry for entry in entries if entry["id"] in entries[-1]["of"]]
            words = in_words(act, before if verb == "undo" else after)
            self.work.say(f"{'Taken back' if verb == 'undo' else 'Done again'}: {words}.")
        else:
            self.work.say(f"There is nothing to {verb}.")
        return done

    def _follow(self, direction, position, shown):
        """Bring a line up to the strokes on it; `shown` are the labels before they changed."""
        if direction == self.survey.along:
            self.labelling.begin_correction(position, shown)
            self.labelling.follow(position)

    # ---- brush ------------------------------------------------------------------------------------------------------

    def paint(self, name, direction, position, points, radius=4, *, filled=False, id=None):
        """Say what the samples under a brush stroke are; see `Job.paint`.

        Parameters
        ----------
        name : str
            A class; ``right``, ``wrong`` or ``erase``.
        direction, position : int
            The section, 0 inline or 1 crossline.
        points : sequence of (float, float)
            The stroke, across and down, in coordinates.
        radius : float
            Of the brush, in samples and traces.
        filled : bool
            What the closed line through the points encloses is painted too.
        id : str, optional
            Of the stroke: sent again by a browser that had no answer, it is stored once.
        """
        if id is not None and not re.fullmatch("[0-9a-f]{16}", str(id)):
            raise ValueError(f"{str(id)[:40]!r} is not the id of a stroke; give 16 hexadecimal digits.")
        if direction not in (0, 1):
            raise ValueError("Paint on an inline or a crossline; time slices cannot be painted.")
        if name not in ("right", "wrong", "erase"):
            self._check_class(name)
        places = [self.survey.place(direction, position, x, y) for x, y in points[:5000]]
        how = (float(np.clip(radius, 0.5, 100)), DIRECTIONS[direction])
        if direction != self.survey.along:  # the line through the middle of the stroke follows first
            at = [place[self.survey.along] for place in places]
            position = int(np.abs(self.survey.lines - np.mean(at)).argmin())
        self.decide_on(position, lambda: self.job.paint(name, places, *how, filled=filled, id=id))

    def decide_on(self, position, decide):
        """Make a decision about samples of a line, ``decide()``; its labels follow, then those of its neighbours."""
        self.labelling.begin_correction(position)
        decide()
        self.labelling.follow(position)
        self.work.forget()
        self._seen = (self.job.state, self._seen[1])
        self.tell("strokes")

    def painted_picture(self, direction, position, window=None):
        """Picture of what is painted on a section in the codes of the classes, None where nothing is.

        Where a class is excluded there are stripes of its code.
        """
        state = self.job.state
        if self._painted[0] is not state:
            self._painted = (state, self.job.painted(), self.job.excluded())
        codes, excluded = (kind.get((direction, position)) for kind in self._painted[1:])
        if excluded is not None:
            striped = stripes(excluded)
            codes = striped if codes is None else np.where(codes > 0, codes, striped)
        if codes is None:
            return None
        return crop(codes.T, self.survey.sections.frame(direction), window, mean=False)


def stripes(excluded):
    """Codes of the classes that are excluded, as stripes, several classes side by side.

    Examples
    --------
    >>> stripes(np.ones((1, 2, 6), bool))
    array([[1, 1, 0, 0, 0, 0],
           [1, 0, 0, 0, 0, 1]], dtype=uint8)
    """
    codes = np.zeros(excluded.shape[1:], np.uint8)
    diagonal = np.add.outer(*map(np.arange, codes.shape)) % STRIPES
    for i, mask in enumerate(excluded):
        codes[mask & ((diagonal + 2 * i) % STRIPES < 2)] = i + 1
    return codes
