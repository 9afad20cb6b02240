"""Search in a thread for groups of patches that resemble no exemplar."""

from typing import TYPE_CHECKING, Any, NamedTuple

from outcrop.app.pictures import Codes
from outcrop.app.work import Task

if TYPE_CHECKING:
    from outcrop.app.session import Session

GROUPS = 5


class Group(NamedTuple):
    """Similar patches that resemble no exemplar."""

    share: float  # share of the indexed patches that belong to the group
    places: list[list[float]]  # places of typical patches, the most typical first
    pictures: list[Codes]  # pictures of the same patches


class Unseen:
    """Groups of patches that resemble no exemplar; the groups remain when the browser tab is closed.

    Parameters
    ----------
    session : Session

    Attributes
    ----------
    groups : list of Group
        The groups found last, the largest first; empty before the first search.
    """

    def __init__(self, session: "Session") -> None:
        self.session, self.job = session, session.job
        self.groups: list[Group] = []
        self._of: list[Any] = []  # exemplars with which the patches were compared

    def look(self) -> Task:
        """Start a task that finds the groups of patches unlike all exemplars, and return the task."""
        if not self.job.plan.queries:
            raise ValueError("No exemplar is placed yet; choose a class and click on a place that shows it.")
        if not self.job.indexed:
            raise ValueError("The survey is not indexed yet; find similar patches first.")

        def find(_: Task) -> None:
            exemplars, along = self.job.exemplars, self.session.survey.line_name
            table = self.job.unseen(GROUPS)
            table = table[table["along"] == along]  # exemplars are cut on the lines that are labelled
            groups = []
            for _, some in table.groupby("group"):
                places = some[list(self.job.volume.dims)].to_numpy(float).tolist()
                pictures = [self.session.search.thumbnail(place, along) for place in places]
                groups.append(Group(float(some["share"].iloc[0]), places, pictures))
            self.groups, self._of = groups, exemplars
            self.session.tell("unseen")

        return self.session.work.start("finding patches unlike anything marked", find)

    @property
    def old(self) -> bool:
        """Whether the exemplars changed since the groups were found."""
        return bool(self.groups) and self._of != self.job.exemplars

    def free_name(self) -> str:
        """Return an unused class name such as ``unnamed 1``, to be renamed later."""
        number = 1
        while f"unnamed {number}" in self.job.palette:
            number += 1
        return f"unnamed {number}"
