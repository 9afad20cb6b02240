"""Pictures that a job keeps of what was found in it."""

import errno
import warnings

from outcrop import plots
from outcrop.patches.grid import DIRECTIONS
from outcrop.storage.workspace import whole_file


def save(figure, path):
    """Save a picture, whole or not at all; a folder that cannot be written is warned about and stops nothing."""
    try:
        with whole_file(path) as aside:
            figure.savefig(aside, dpi=110, format="png")
    except OSError as error:
        if error.errno not in (errno.EACCES, errno.EPERM, errno.EROFS):
            raise
        warnings.warn(f"{path} is not written, for its folder cannot be written.", stacklevel=2)


def draw_retrieval(job, weak, folder=None):
    """Save a gallery, the similarity curves and the section with most retrieved patches."""
    folder = folder or job.path
    grid = job._grid(job.plan)
    picks = weak.picks(10)
    patches = grid.extract(job.volume, weak.rows[picks])
    save(plots.gallery(patches, weak.table.iloc[picks], palette=job.palette), folder / "gallery.png")
    save(plots.similarity_curves(weak, palette=job.palette).figure, folder / "similarity.png")
    along = weak.table["along"].mode()[0]
    section = job.volume.sel({along: weak.table.loc[weak.table["along"] == along, along].mode()[0]})
    save(plots.section(section, weak=weak, size=grid.size, palette=job.palette).figure, folder / "section.png")


def draw_labels(job, line, *, truth=None, name="labels.png", labels=None):
    """Save a picture of one labelled line into the job; of other labels than the job's where given."""
    place = {DIRECTIONS[job.plan.along]: line}
    labels = (job.labels if labels is None else labels).assign_attrs(colours=job.palette)
    figure = plots.labelled_section(job.volume.sel(place), labels.sel(place), truth=truth)
    save(figure, job.path / name)
