"""A volume as an interpreter sees it: its sections, the size of its patches, and where things lie in it."""

import contextlib
import threading
from pathlib import Path

import numpy as np

from outcrop.app.pictures import FRAMES, Sections
from outcrop.job.core import Job
from outcrop.job.decisions import Decisions
from outcrop.job.options import patch_count
from outcrop.storage.workspace import Workspace
from outcrop.volumes.identity import known_volume
from outcrop.volumes.lengths import parse_size

SURVEY_PATCHES = 100_000  # of the whole survey; lines are skipped where it has more


class PageLog(Decisions):
    """Decisions that stay as they are while a page is drawn, which reads them a hundred times.

    Every look at the disk lets other threads run, which a click would wait for while a survey is being labelled.
    """

    def __init__(self, job, *, origin):
        super().__init__(job, origin=origin)
        self._drawing = threading.local()

    @contextlib.contextmanager
    def held(self):
        """Look once, and not again in this thread until the end."""
        before = getattr(self._drawing, "held", False)
        self.refresh()
        self._drawing.held = True
        try:
            yield
        finally:
            self._drawing.held = before

    def refresh(self):
        """Read what was written since; whether anything was."""
        return False if getattr(self._drawing, "held", False) else super().refresh()


class Survey:
    """The volume of a job with the patch plan that its decisions ask for.

    Parameters
    ----------
    job : Job
    """

    def __init__(self, job):
        self.job, self.volume = job, job.volume
        self.sections = Sections(self.volume)
        self.axes = self.sections.axes
        self._options: tuple = (None, None)

    @property
    def options(self):
        """Options of the index as they are decided now."""
        state = self.job.state
        if self._options[0] is not state:
            self._options = (state, self.job.index_options(state))
        return self._options[1]

    @property
    def along(self):
        """Direction of the lines that are searched and labelled: 0 inline, 1 crossline."""
        return int(self.options["along"] == "crossline")

    @property
    def size(self):
        """Height and width of a patch."""
        return tuple(self.options["size"])

    @property
    def lines(self):
        """Numbers of the lines that are searched and labelled."""
        return self.axes[self.along].labels

    def positions(self, place):
        """Positions along the three axes that are nearest to a place."""
        return [int(np.argmin(np.abs(axis.labels - value))) for axis, value in zip(self.axes, place, strict=True)]

    def snap(self, place):
        """Nearest place of the survey where a whole patch fits, in survey labels."""
        if len(place) != 3 or not np.isfinite(place).all():
            raise ValueError(f"Place {place} is not inline, crossline and {self.volume.dims[2]}; give three numbers.")
        limits = [(0, n - 1) for n in self.volume.shape]
        for axis, length in ((1 - self.along, self.size[1]), (2, self.size[0])):
            limits[axis] = (length // 2, self.volume.shape[axis] - length + length // 2)
        at = [min(max(i, low), high) for i, (low, high) in zip(self.positions(place), limits, strict=True)]
        return [axis.labels[i].item() for axis, i in zip(self.axes, at, strict=True)]

    def place(self, direction, position, x, y):
        """Inline, crossline and time of a point of a section."""
        found = [axis.labels[position if i == direction else 0].item() for i, axis in enumerate(self.axes)]
        for i, at in zip(FRAMES[direction], (x, y), strict=True):
            found[i] = self.axes[i].labels[self.axes[i].position(at)].item()
        return found

    def moved(self, place, direction, x, y):
        """A place after a drag by so much across and down a section."""
        place = list(place)
        for i, by in zip(FRAMES[direction], (x, y), strict=True):
            axis = self.axes[i]
            place[i] = axis.labels[axis.position(axis.coordinate(place[i]) + by)].item()
        return place

    def reach(self):
        """Samples of a patch along the three axes before its centre, and all of them; a patch is one line thick."""
        height, width = self.size
        before, size = [0, 0, height // 2], [1, 1, height]
        before[1 - self.along], size[1 - self.along] = width // 2, width
        return before, size

    def crosses(self, place, direction, position):
        """Whether the patch around a place has samples on a section."""
        before, size = self.reach()
        first = self.positions(place)[direction] - before[direction]
        return first <= position < first + size[direction]

    def patch(self, place):
        """8-bit patch of the section around a place; at the rim of the survey what there is of it."""
        at, (height, width) = self.positions(place), self.size
        top, left = max(0, at[2] - height // 2), max(0, at[1 - self.along] - width // 2)
        return self.sections.codes(self.along, at[self.along])[top : top + height, left : left + width]


def open_job(source, job, size):
    """The job of what the interpreter names: a volume, or a job folder.

    Parameters
    ----------
    source : path or DataArray
    job : path, optional
        The job folder of a volume; by default NAME.outcrop in the current folder.
    size : int, (int, int) or str, optional
        Patch size of a job that is made here; one that is there keeps its size.
    """
    if hasattr(source, "dims"):
        path = Path(job or f"{Path(str(source.attrs.get('source') or 'volume')).stem}.outcrop")
    elif Workspace(source).exists() or (Path(source) / "page.json").is_file():
        path, source = Path(source), None
    elif Path(source).suffix == ".outcrop":
        raise ValueError(f"{source} is not a job folder; give a volume, or a folder made by 'outcrop index'.")
    else:
        path = Path(job or f"{Path(source).stem}.outcrop")
    fresh = not (Workspace(path).exists() or (path / "page.json").is_file())
    opened = Job(path, source, origin="page")
    opened.log = PageLog(path, origin="page")
    if not known_volume(path)["source"] and source is None:
        raise ValueError(f"Job {path} was made from an array; open it with outcrop.explore(volume, job=...).")
    if fresh and size is not None:
        size = parse_size(size, opened.volume) if isinstance(size, str) else size
        height, width = (int(n) for n in np.broadcast_to(size, 2))
        shape = opened.volume.shape
        opened.choose_index(size=[min(height, shape[2]), min(width, shape[1])])
    return opened


def lines_to_skip(options, shape):
    """Every how many lines a survey is indexed that nobody has planned yet, so that it is done in minutes."""
    count = patch_count(options, shape, options["step"])
    return max(options["every"], round(count * options["every"] / SURVEY_PATCHES))
