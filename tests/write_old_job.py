"""Write a job folder with an earlier version of Outcrop, for `test_old_job.py`.

``old_job.zip`` was written by the code of commit d409cca (version 0.2.0, 2026-11-17)::

    git worktree add ../outcrop-old d409cca
    LOGNAME=interpreter PYTHONPATH=../outcrop-old/src python tests/write_old_job.py SURVEY tests/old_job.zip
"""

import json
import shutil
import socket
import sys
import warnings
from pathlib import Path

import numpy as np

import outcrop as oc
from outcrop.datasets.survey import write_synthetic


def write(folder):
    """Make a survey of three lines, log decisions of every kind, label two lines, and log further decisions."""
    volume = folder / "survey.sgy"
    write_synthetic(volume, (3, 56, 64), seed=0)
    with oc.Job(folder / "survey.outcrop", volume=volume) as job:
        job.index(32, step=16)
        job.add_exemplar("fault", (101, 330, 120))
        job.add_exemplar("salt dome", (102, 340, 176))
        job.add_exemplar("other", (102, 320, 80))
        job.accept(job.retrieve(count=6).table["row"].tolist()[1])
        job.rename_class("salt dome", "salt")
        job.recolour_class("fault", "#123456")
        job.set_background("other")
        job.label([101, 102], mapping="paper", min_confidence=0.3)
        job.retrieve()
    write_facts(folder, "labelled")
    with oc.Job(folder / "survey.outcrop") as job:  # labels are stale from here on
        job.paint("fault", [(101, 330, 120), (101, 334, 176)], radius=3)
        job.paint("salt", [(102, 344, 176)], radius=4)
        job.undo()
        job.redo()
        job.reject(job.retrieve().table["row"].tolist()[4])
        job.retrieve()
    write_facts(folder, "stale")


def write_facts(folder, name):
    """Write status, decisions and labels of the job as this version reports them."""
    with oc.Job(folder / "survey.outcrop") as job:
        (folder / f"{name}.json").write_text(json.dumps(job.status(), default=float))
        labels = job.labels
        arrays = {part: labels[part].values for part in ("label", "confidence", "stale")}
        np.savez_compressed(folder / f"{name}.npz", **arrays)
        job.decisions.astype(str).to_csv(folder / f"{name}.csv", index=False)


if __name__ == "__main__":
    socket.gethostname = lambda: "workstation"  # a part of the name of the writer
    warnings.simplefilter("ignore")
    folder, archive = Path(sys.argv[1]), Path(sys.argv[2])
    folder.mkdir()
    write(folder)
    shutil.make_archive(archive.with_suffix(""), "zip", folder)
