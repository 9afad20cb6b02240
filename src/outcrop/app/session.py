"""Everything the interpreter's page does, without a page: decisions, search, labels, exports, all in a job folder."""

import contextlib
import fcntl
import re

import numpy as np

import outcrop as oc
from outcrop.app import brush
from outcrop.app.labelling import Labelling
from outcrop.app.results import Results
from outcrop.app.search import Search
from outcrop.app.state import State, read_state
from outcrop.app.survey import Survey, grid_options, open_job
from outcrop.app.work import Work
from outcrop.retrieval import identify
from outcrop.workspace import Workspace

COLOURS = {"fault": "#32cd32", "salt dome": "#ff3030", "chaotic": "#4169e1", "other": "#00c8c8"}
SPARE = ("#ffa500", "#ff5cff", "#ffd700", "#c08050", "#a070ff", "#ff9eb0", "#a0a000", "#20b090")
SPOKEN = ("uncertain", "right", "wrong", "erase")  # words that name no class


class Session:
    """One job as the page sees it.

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
    path : Path
        The job folder.
    survey : Survey
    state : State
        What was decided so far; change it only through the methods below.
    work : Work
        What runs.
    search : Search
    labelling : Labelling
    results : Results
    """

    def __init__(self, source, job=None, *, size=None, truth=None):
        self.path, volume = open_job(source, job)
        identity, stored = identify(volume), read_state(self.path)
        if stored and stored["about"].get("sha256") not in (None, identity["sha256"]):
            raise ValueError(f"{self.path} holds the work on another volume; choose another job folder.")
        options = grid_options(volume, self.path, size or (stored and stored["about"].get("size")))
        about = {"source": identity["source"], "sha256": identity["sha256"], "size": list(options["size"])}
        truth, truth_path = (truth, None) if truth is None or hasattr(truth, "dims") else (oc.open_volume(truth), truth)
        self._hold = hold(self.path)
        self._listeners: list = []
        self.survey = Survey(volume, options)
        self.state = State(self.path, about, tell=self.tell)
        self.work = Work(self.tell)
        self.search = Search(self.path, self.survey, self.state, self.work)
        self.labelling = Labelling(self.search, truth)
        self.results = Results(self.labelling, self.path / "export", truth_path)
        self._import_exemplars()
        self.state.save()
        self.search.reopen()

    def _import_exemplars(self):
        """Take over the exemplars of a job that the command line made."""
        if self.state.data["classes"] or not Workspace(self.path).exists():
            return
        for text in Workspace(self.path).read().get("retrieve", {}).get("exemplars", []):
            name, _, place = text.partition("=")
            with contextlib.suppress(ValueError):
                name, place = clean_name(name), [float(part) for part in place.split(",")]
                if name not in self.state.palette:
                    self.add_class(name)
                self.add_exemplar(name, place)
                self.state.data["retrieved"] = True

    def listen(self, function):
        """Call a function with what changed ("state", "work", "weak", "labels", "exports") whenever something does."""
        self._listeners.append(function)
        return lambda: self._listeners.remove(function) if function in self._listeners else None

    def tell(self, what):
        """Tell every page that something changed."""
        for function in list(self._listeners):
            function(what)

    def close(self):
        """Stop all work and let go of the job folder."""
        self.work.close()
        self.survey.sections.close()
        self._hold.close()

    # ---- classes ----------------------------------------------------------------------------------------------------

    def add_class(self, name, colour=None):
        """Add a class with the standard colour of its name or the next spare one."""
        name = clean_name(name)
        if name in self.state.palette:
            raise ValueError(f"Class {name!r} is there already; choose another name.")
        spare = [one for one in SPARE if one not in self.state.palette.values()] or SPARE
        with self.state.change() as data:
            data["classes"].append({"name": name, "colour": check_colour(colour or COLOURS.get(name, spare[0]))})
        return name

    def rename_class(self, old, new):
        """Give a class another name, everywhere."""
        new = clean_name(new)
        self._check_class(old)
        if new == old:
            return
        if new in self.state.palette:
            raise ValueError(f"Class {new!r} is there already; choose another name.")
        with self.state.change() as data:
            for one in data["classes"]:
                one["name"] = new if one["name"] == old else one["name"]
            for kind in ("exemplars", "judged", "painted"):
                for one in data[kind]:
                    one["class"] = new if one["class"] == old else one["class"]
            data["counts"] = {new if name == old else name: value for name, value in data["counts"].items()}
        self.labelling.rename_class(old, new)
        self.search.refresh()

    def recolour_class(self, name, colour):
        """Give a class another colour."""
        self._check_class(name)
        with self.state.change() as data:
            next(one for one in data["classes"] if one["name"] == name)["colour"] = check_colour(colour)

    def remove_class(self, name):
        """Remove a class with its exemplars and all that was said about it."""
        self._check_class(name)
        with self.state.change() as data:
            data["classes"] = [one for one in data["classes"] if one["name"] != name]
            for kind in ("exemplars", "judged", "painted"):
                data[kind] = [one for one in data[kind] if one["class"] != name]
            data["counts"].pop(name, None)
        self.search.refresh()

    # ---- exemplars and retrieved patches ---------------------------------------------------------------------------

    def add_exemplar(self, name, place):
        """Place an exemplar of a class with its centre at (inline, crossline, time); where it came to lie."""
        self._check_class(name)
        place = self.survey.snap(place)
        with self.state.change() as data:
            data["exemplars"].append({"class": name, "place": place})
        return place

    def move_exemplar(self, number, place):
        """Move an exemplar."""
        place = self.survey.snap(place)
        with self.state.change() as data:
            data["exemplars"][number]["place"] = place
        return place

    def remove_exemplar(self, number):
        """Remove an exemplar."""
        with self.state.change() as data:
            del data["exemplars"][number]

    def judge(self, name, place, *, along="inline", accept=None):
        """Accept (True) or reject (False) a retrieved patch, or take the judgement back (None); the rest re-ranks."""
        self._check_class(name)
        place = [float(value) for value in place]
        with self.state.change() as data:
            same = {"class": name, "place": place, "along": along}
            data["judged"] = [one for one in data["judged"] if {**one, **same} != one]
            if accept is not None:
                data["judged"].append({**same, "accept": bool(accept)})
        self.search.refresh()

    def set_count(self, name, count):
        """Take that many patches of a class; None leaves it to the size of the index."""
        self._check_class(name)
        with self.state.change() as data:
            data["counts"].pop(name, None)
            if count is not None:
                data["counts"][name] = max(1, int(count))
        self.search.refresh()

    def cut_at(self, name, similarity):
        """Take the patches of a class that are at least so similar, as the similarity curve has them."""
        self.set_count(name, max(1, int(np.count_nonzero(self.search.weak.curves[name] >= similarity))))

    def set_mapping(self, name):
        """Choose the mapper by its name in `MAPPERS`."""
        if name not in oc.MAPPERS:
            raise ValueError(f"Mapping {name!r} is unknown; choose one of {', '.join(oc.MAPPERS)}.")
        with self.state.change() as data:
            data["mapping"] = name

    def _check_class(self, name):
        if name not in self.state.palette:
            raise ValueError(f"Class {name!r} is unknown; choose one of {', '.join(self.state.palette) or 'none yet'}.")

    # ---- undo -------------------------------------------------------------------------------------------------------

    def undo(self):
        """Take the last decision back."""
        if self.state.undo():
            self._follow()

    def redo(self):
        """Do again what was undone."""
        if self.state.redo():
            self._follow()

    def _follow(self):
        self.search.refresh()
        self.labelling.keep_painted()
        self.tell("labels")

    # ---- brush ------------------------------------------------------------------------------------------------------

    def paint(self, name, direction, position, points, radius=4):
        """Say what the pixels under a brush stroke are.

        Parameters
        ----------
        name : str
            A class; ``right`` (they are what the labels say), ``wrong`` (they are background) or ``erase`` (unsaid).
        direction, position : int
            The section, 0 inline or 1 crossline.
        points : sequence of (float, float)
            The stroke, across and down, in coordinates.
        radius : float
            Of the brush, in samples and traces.
        """
        if direction not in (0, 1):
            raise ValueError("Paint on an inline or a crossline; time slices cannot be painted.")
        mask = brush.covered(self.survey, direction, points, radius)
        meant = self._meant(name, direction, position, mask)
        new = [brush.kept(self.survey, direction, position, own, part) for own, part in meant if part.any()]
        if new:
            with self.state.change() as data:
                data["painted"] += new
            self.labelling.keep_painted()
            self.tell("labels")

    def _meant(self, name, direction, position, mask):
        """Classes and masks that a brush of that name stands for."""
        if name == "wrong":
            name = "other"
            if name not in self.state.palette:
                raise ValueError("There is no class 'other' that wrong pixels could be; paint with the right class.")
        if name != "right":
            if name != "erase":
                self._check_class(name)
            return [(name, mask)]
        labels = self.labelling.dataset()
        if labels is None or not self.labelling.has(direction, position):
            raise ValueError("This section has no labels that could be right; label it first.")
        codes = labels["label"].isel({labels["label"].dims[direction]: position}).values
        return [(str(own), mask & (codes == code)) for code, own in enumerate(labels.attrs["classes"], 1)]


def hold(path):
    """Take a job folder for this page; a server that dies lets go of it by itself."""
    path.mkdir(parents=True, exist_ok=True)
    handle = open(path / ".page.lock", "a")  # noqa: SIM115 - held as long as the page
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        handle.close()
        raise ValueError(f"{path} is open in another page; close that one, or use its address.") from None
    return handle


def clean_name(text):
    """Class name as the project writes it.

    Examples
    --------
    >>> clean_name(" salt-dome ")
    'salt dome'
    """
    name = re.sub(r"[-_\s]+", " ", str(text)).strip()
    if not re.fullmatch(r"\w[\w .()]{0,39}", name) or name in SPOKEN:
        raise ValueError(f"{str(text)[:50]!r} is not a class name; use a word such as fault or salt dome.")
    return name


def check_colour(text):
    """Colour as #rrggbb."""
    if not re.fullmatch(r"#[0-9a-fA-F]{6}", str(text)):
        raise ValueError(f"Colour {str(text)[:20]!r} is not understood; write it as #rrggbb.")
    return str(text).lower()
