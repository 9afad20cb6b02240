"""A volume as an interpreter sees it: its sections, the size of its patches, and where things lie in it."""

from pathlib import Path

import numpy as np

import outcrop as oc
from outcrop.app.pictures import FRAMES, Sections
from outcrop.app.state import read_state
from outcrop.patches import DIRECTIONS, patch_starts
from outcrop.retrieval import identify
from outcrop.volume import parse_size
from outcrop.workspace import Workspace

SURVEY_PATCHES = 100_000  # of the whole survey; lines are skipped where it has more


class Survey:
    """A volume with the parameters of its patch grid.

    Parameters
    ----------
    volume : DataArray
        As `open_volume` gives it.
    options : dict
        Of `PatchGrid`.

    Attributes
    ----------
    along : int
        Direction of the lines that are searched and labelled: 0 inline, 1 crossline.
    """

    def __init__(self, volume, options):
        self.volume, self.options = volume, options
        self.sections = Sections(volume)
        self.axes = self.sections.axes
        self.along = int(options["along"] == "crossline")

    @property
    def size(self):
        """Height and width of a patch."""
        return self.options["size"]

    @property
    def lines(self):
        """Numbers of the lines that are searched and labelled."""
        return self.axes[self.along].labels

    def grid(self, **options):
        """Patch grid of the survey, with other options where given."""
        return oc.PatchGrid(self.volume, **(self.options | options))

    def patches_per_line(self):
        """Number of patches on one line."""
        return patches_per_line(self.volume, self.options)

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

    def patch(self, place):
        """8-bit patch of the section around a place."""
        at, (height, width) = self.positions(place), self.size
        top, left = at[2] - height // 2, at[1 - self.along] - width // 2
        return self.sections.codes(self.along, at[self.along])[top : top + height, left : left + width]


def open_job(source, job):
    """Job folder and volume of what the interpreter names: a volume, or a job folder."""
    if hasattr(source, "dims"):
        stem = Path(str(source.attrs.get("source") or "volume")).stem
        return Path(job or f"{stem}.outcrop"), source
    path = Path(source)
    stored = read_state(path) if path.is_dir() else None
    if stored or Workspace(path).exists():
        known = Workspace(path).read()["volume"] if Workspace(path).exists() else (stored or {})["about"]
        if not known.get("source"):
            raise ValueError(f"Job {path} was made from an array; open it with outcrop.explore(volume, job=...).")
        return path, oc.open_volume(known["source"], **known.get("options", {}))
    if path.suffix == ".outcrop":
        raise ValueError(f"{path} is not a job folder; give a volume, or a folder made by 'outcrop index'.")
    return Path(job or f"{path.stem}.outcrop"), oc.open_volume(source)


def grid_options(volume, path, size):
    """Parameters of the patch grid: those of the job where it is indexed, sensible ones otherwise."""
    if Workspace(path).exists():
        job = Workspace(path).read()
        if job.get("volume", {}).get("sha256") != identify(volume)["sha256"]:
            raise ValueError(f"{path} holds a job on another volume; choose another job folder.")
        options = {key: value for key, value in job["index"].items() if key not in ("plan", "truncate", "finest")}
        return options | {"size": tuple(options["size"]), "step": tuple(options["step"])}
    size = parse_size(size, volume) if isinstance(size, str) else size or 99
    size = tuple(int(n) for n in np.broadcast_to(size, 2))
    size = min(size[0], volume.shape[2]), min(size[1], volume.shape[1])
    options = {"size": size, "step": tuple(max(1, n // 3) for n in size), "along": DIRECTIONS[0]}
    every = max(1, round(volume.shape[0] * patches_per_line(volume, options) / SURVEY_PATCHES))
    return options | {"every": every}


def patches_per_line(volume, options):
    """Number of patches on one line."""
    across = volume.shape[0 if options["along"] == "crossline" else 1]
    triples = zip((volume.shape[2], across), options["size"], options["step"], strict=True)
    return int(np.prod([len(patch_starts(*triple)) for triple in triples]))
