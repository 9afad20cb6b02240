"""The volume of a job on the page: its sections, the patch size, and positions in it."""

import functools
from collections.abc import Sequence

import numpy as np

from outcrop.app.page_job import PageJob
from outcrop.app.pictures import FRAMES, Codes, Sections
from outcrop.geometry.coordinates import MapGrid, map_grid
from outcrop.patches.grid import DIRECTIONS

Place = Sequence[float]  # inline, crossline and time


class Survey:
    """The volume of a job with the present patch size and direction of lines.

    Parameters
    ----------
    job : PageJob
    """

    def __init__(self, job: PageJob) -> None:
        self.job, self.volume = job, job.volume
        self.sections = Sections(self.volume)
        self.axes = self.sections.axes

    @functools.cached_property
    def map(self) -> list[list[float]]:
        """Origin, step of an inline and step of a crossline in X and Y; empty if X and Y are unknown."""
        grid = map_grid(self.volume)
        if not isinstance(grid, MapGrid) or not grid.in_metres:
            return []
        return [part.tolist() for part in (grid.origin, grid.inline_step, grid.crossline_step)]

    @property
    def along(self) -> int:
        """Direction of the searched and labelled lines: 0 inline, 1 crossline."""
        return self.job.plan.along

    @property
    def line_name(self) -> str:
        """Name of this direction: inline or crossline."""
        return DIRECTIONS[self.along]

    @property
    def size(self) -> tuple[int, int]:
        """Height and width of a patch."""
        return self.job.plan.size

    @property
    def lines(self) -> np.ndarray:
        """Numbers of the searched and labelled lines."""
        return self.axes[self.along].labels

    def line_at(self, line: float) -> int:
        """Return the position of the line nearest to a number."""
        return self.axes[self.along].nearest(line)

    def positions(self, place: Place) -> list[int]:
        """Return the positions along the three axes nearest to a place."""
        return [axis.nearest(value) for axis, value in zip(self.axes, place, strict=True)]

    def place_at(self, at: Sequence[int]) -> list[float]:
        """Return the place at positions along the three axes, in survey labels."""
        return [axis.labels[i].item() for axis, i in zip(self.axes, at, strict=True)]

    def snap(self, place: Place) -> list[float]:
        """Return the line, trace and sample nearest to a place, in survey labels."""
        if len(place) != 3 or not np.isfinite(place).all():
            raise ValueError(f"Place {place} is not inline, crossline and {self.volume.dims[2]}; give three numbers.")
        return self.place_at(self.positions(place))

    def place(self, direction: int, position: int, x: float, y: float) -> list[float]:
        """Return inline, crossline and time of a point of a section."""
        at = [position] * 3
        for i, coordinate in zip(FRAMES[direction], (x, y), strict=True):
            at[i] = self.axes[i].position(coordinate)
        return self.place_at(at)

    def moved(self, place: Place, direction: int, x: float, y: float) -> list[float]:
        """Return a place moved by distances across and down a section."""
        at = self.positions(place)
        for i, by in zip(FRAMES[direction], (x, y), strict=True):
            at[i] = self.axes[i].position(self.axes[i].coordinate(place[i]) + by)
        return self.place_at(at)

    def reach(self) -> tuple[list[int], list[int]]:
        """Return the samples of a patch before its centre, and its size, along the three axes; it is one line thick."""
        height, width = self.size
        before, size = [0, 0, height // 2], [1, 1, height]
        before[1 - self.along], size[1 - self.along] = width // 2, width
        return before, size

    def crosses(self, place: Place, direction: int, position: int) -> bool:
        """Return whether the patch around a place has samples on a section."""
        before, size = self.reach()
        first = self.positions(place)[direction] - before[direction]
        return first <= position < first + size[direction]

    def patch(self, place: Place) -> Codes:
        """Return the 8-bit patch of the section around a place; smaller at the rim of the survey."""
        at, (height, width) = self.positions(place), self.size
        top, left = max(0, at[2] - height // 2), max(0, at[1 - self.along] - width // 2)
        return self.sections.codes(self.along, at[self.along])[top : top + height, left : left + width]
