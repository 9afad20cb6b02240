"""What was not shown yet, in a session: groups of patches that resemble no exemplar, found in a thread."""

from typing import NamedTuple

from outcrop.patches.grid import DIRECTIONS

GROUPS = 5


class Group(NamedTuple):
    """Patches that look alike and resemble no exemplar."""

    share: float  # of the indexed patches
    places: list  # of typical patches, the most typical first
    pictures: list  # 8-bit, of the same patches


class Unseen:
    """Groups of patches unlike everything that was marked; they outlive the tab that asked for them.

    Parameters
    ----------
    session : Session

    Attributes
    ----------
    groups : list of Group
        The largest first.
    """

    def __init__(self, session):
        self.session, self.job = session, session.job
        self.groups: list = []
        self._of: list = []  # exemplars that they are compared with

    def look(self):
        """Find the groups in a thread."""
        if not self.job.retrievable():
            raise ValueError("There is no exemplar yet to compare with; choose a class and click on the section.")
        if not self.job.indexed():
            raise ValueError("The survey is not described yet; find similar patches first, then look again.")

        def find(_):
            exemplars = self.session.exemplars()
            table = self.job.unseen(GROUPS)
            # exemplars are cut on the lines that are labelled
            table = table[table["along"] == DIRECTIONS[self.session.survey.along]]
            self.groups = [self._group(some) for _, some in table.groupby("group")]
            self._of = exemplars
            self.session.tell("unseen")

        return self.session.work.start("looking for what was not shown", find)

    def _group(self, table):
        places = table[list(self.job.volume.dims)].to_numpy(float).tolist()
        thumbnail, along = self.session.search.thumbnail, DIRECTIONS[self.session.survey.along]
        return Group(float(table["share"].iloc[0]), places, [thumbnail(place, along) for place in places])

    @property
    def old(self):
        """Whether exemplars changed since."""
        return bool(self.groups) and self._of != self.session.exemplars()

    def free_name(self):
        """Name of a class that nobody has named yet.

        It can be renamed when the interpreter knows what it is.
        """
        number = 1
        while f"unnamed {number}" in self.job.palette:
            number += 1
        return f"unnamed {number}"
