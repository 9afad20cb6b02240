"""Count the work of four commands on a survey of eight lines: jobs opened, grids planned, files parsed, traces read.

``python tools/walk.py`` runs ``index`` (twice), ``retrieve``, ``label`` and ``export`` on a synthetic SEG-Y file in a
temporary folder, in this process, and prints one table. ``traces`` counts the traces read from the file; a trace that
is read twice counts twice.
"""

import contextlib
import functools
import importlib
import io
import os
import sys
import tempfile
import threading
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

SHAPE = (8, 110, 256)
COLUMNS = ("job opened", "grid planned", "options resolved", "tables parsed", "headers scanned", "traces")


def count_calls(
    counts: Counter[str], name: str, home: Any, attribute: str, amount: Callable[..., int] = lambda *_: 1
) -> None:
    """Replace a function, in its module and in every module that imported it, by one that counts its calls."""
    original, lock = getattr(home, attribute), threading.Lock()

    @functools.wraps(original)
    def counted(*args: Any, **options: Any) -> Any:
        with lock:
            counts[name] += amount(*args)
        return original(*args, **options)

    setattr(home, attribute, counted)
    for module in [module for key, module in sys.modules.items() if key.startswith("outcrop.")]:
        for key in [key for key, value in vars(module).items() if value is original]:
            setattr(module, key, counted)


def count_everything(counts: Counter[str], volume: Path) -> None:
    """Count the calls for all columns; traces are counted for one file."""
    import pandas as pd

    from outcrop.job.core import Job
    from outcrop.patches.grid import PatchGrid
    from outcrop.volumes import segy

    def traces(geometry: Any, rows: Any, columns: Any) -> int:
        return len(rows) * len(columns) if os.path.samefile(geometry.layout.path, volume) else 0

    count_calls(counts, "job opened", Job, "__init__")
    count_calls(counts, "grid planned", PatchGrid, "__init__")
    try:
        count_calls(counts, "options resolved", importlib.import_module("outcrop.job.plan"), "resolve")
    except ModuleNotFoundError:
        count_calls(counts, "options resolved", importlib.import_module("outcrop.job.options"), "index_options")
    count_calls(counts, "tables parsed", pd, "read_csv")
    count_calls(counts, "headers scanned", segy, "scan", lambda path, *_: int(os.path.samefile(path, volume)))
    count_calls(counts, "traces", segy, "read", traces)


def walk(folder: Path) -> dict[str, Counter[str]]:
    """Run the commands on one survey and return the counts of each."""
    from outcrop.cli.program import app
    from outcrop.datasets.places import exemplars
    from outcrop.datasets.survey import write_synthetic
    from outcrop.volumes.opening import open_volume

    volume, job = folder / "survey.sgy", folder / "survey.outcrop"
    write_synthetic(volume, SHAPE, seed=0)
    places = exemplars(open_volume(folder / "survey.truth.sgy").load().astype("uint8"), 48, min_share=0.2, seed=0)
    named = [f"--exemplar={name}={','.join(map(str, points[0]))}" for name, points in places.items()]
    commands = {
        "index": ["index", volume, "-o", job, "--size", "48"],
        "index, again": ["index", volume, "-o", job, "--size", "48"],
        "retrieve": ["retrieve", job, *named],
        "label": ["label", job],
        "export": ["export", job, folder / "labels.sgy"],
    }
    counts: Counter[str] = Counter()
    count_everything(counts, volume)
    found = {}
    for name, words in commands.items():
        counts.clear()
        shown = io.StringIO()
        try:
            with contextlib.redirect_stdout(shown), contextlib.redirect_stderr(shown), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                app(list(map(str, words)), standalone_mode=False)
        except Exception:
            print(shown.getvalue(), file=sys.stderr)
            raise
        found[name] = counts.copy()
    return found


def main() -> None:
    """Print the table."""
    with tempfile.TemporaryDirectory() as folder:
        found = walk(Path(folder))
    width = max(map(len, found))
    print(f"{'':{width}}  {'  '.join(COLUMNS)}   (the volume has {SHAPE[0] * SHAPE[1]} traces)")
    for command, counts in found.items():
        print(f"{command:{width}}  {'  '.join(f'{counts[name]:>{len(name)}}' for name in COLUMNS)}")


if __name__ == "__main__":
    main()
