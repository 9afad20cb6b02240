"""The volume of a job for the page: its sections, its patch size, and positions in the volume."""

import functools
from collections.abc import Sequence

import numpy as np

from outcrop.app.page_job import PageJob
from outcrop.app.pictures import FRAMES, Codes, Sections
from outcrop.geometry.coordinates import MapGrid, map_grid
from outcrop.patches.grid import DIRECTIONS

Place = Sequence[float]  # inline, crossline and time


class Survey:
    """The volume of a job, with the present patch size and the direction of the labelled lines.

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
        """Map grid as three pairs [X, Y]: the origin, the step per inline number, and the step per crossline number.

        The origin is the position of inline 0 and crossline 0. The list is empty if the coordinates are unknown.
        """
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
        """Name of the direction of the searched and labelled lines: inline or crossline."""
        return DIRECTIONS[self.along]

    @property
    def size(self) -> tuple[int, int]:
        """Height in samples and width in traces of a patch."""
        return self.job.plan.size

    @property
    def lines(self) -> np.ndarray:
        """Numbers of the lines that are searched and labelled."""
        return self.axes[self.along].labels

    def line_at(self, line: float) -> int:
        """Return the position of the line whose number is nearest to a given number."""
        return self.axes[self.along].nearest(line)

    def positions(self, place: Place) -> list[int]:
        """Return the positions along the three axes that are nearest to a place (inline, crossline, time)."""
        return [axis.nearest(value) for axis, value in zip(self.axes, place, strict=True)]

    def place_at(self, at: Sequence[int]) -> list[float]:
        """Return the place (inline, crossline, time) at three positions, one on each axis, counted from 0."""
        return [axis.labels[i].item() for axis, i in zip(self.axes, at, strict=True)]

    def snap(self, place: Place) -> list[float]:
        """Return the place (inline, crossline, time) of the sample nearest to a place."""
        if len(place) != 3 or not np.isfinite(place).all():
            raise ValueError(f"Place {place} is invalid; give three numbers: inline, crossline, {self.volume.dims[2]}.")
        return self.place_at(self.positions(place))

    def place(self, direction: int, position: int, x: float, y: float) -> list[float]:
        """Return the place (inline, crossline, time) of a point of a section, given by its coordinates x and y."""
        at = [position] * 3
        for i, coordinate in zip(FRAMES[direction], (x, y), strict=True):
            at[i] = self.axes[i].position(coordinate)
        return self.place_at(at)

    def moved(self, place: Place, direction: int, x: float, y: float) -> list[float]:
        """Move a place by `x` across and `y` down a section, in coordinates of the section; return the new place."""
        at = self.positions(place)
        for i, by in zip(FRAMES[direction], (x, y), strict=True):
            at[i] = self.axes[i].position(self.axes[i].coordinate(place[i]) + by)
        return self.place_at(at)

    def reach(self) -> tuple[list[int], list[int]]:
        """Return (positions before the centre, sizes) of a patch: two lists with one number for each axis.

        A patch has the size 1 along the axis of its line.
        """
        height, width = self.size
        before, size = [0, 0, height // 2], [1, 1, height]
        before[1 - self.along], size[1 - self.along] = width // 2, width
        return before, size

    def crosses(self, place: Place, direction: int, position: int) -> bool:
        """Return whether the patch around a place has samples on a section, given by its direction and position."""
        before, size = self.reach()
        first = self.positions(place)[direction] - before[direction]
        return first <= position < first + size[direction]

    def patch(self, place: Place) -> Codes:
        """Return the patch around a place as an 8-bit picture; at the rim of the survey the picture is smaller."""
        at, (height, width) = self.positions(place), self.size
        top, left = max(0, at[2] - height // 2), max(0, at[1 - self.along] - width // 2)
        return self.sections.codes(self.along, at[self.along])[top : top + height, left : left + width]
