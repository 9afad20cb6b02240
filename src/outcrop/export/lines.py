"""Functions for all exports: provenance, blocks of lines that are read together, and new folders."""

import json
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from xarray import DataArray, Dataset

from outcrop.parallel import spans
from outcrop.storage.stages import as_json
from outcrop.storage.workspace import whole_file

LINES = 32  # lines read together and stored in one Zarr chunk
PLACE = 1e-3  # ms, m or line numbers; values on an axis with a smaller difference are equal
BLOCK = 1 << 26  # bytes of labels in memory at a time; a block of LINES lines may be larger


def provenance_of(labels: Dataset, given: dict[str, Any] | None) -> dict[str, Any]:
    """Return the provenance `given` as JSON values; if it is None, use the provenance of the labels, by default {}."""
    found: dict[str, Any] = as_json(given if given is not None else labels.attrs.get("provenance") or {})
    return found


def write_json(path: Path, values: Any) -> None:
    """Write values as a JSON file."""
    path.write_text(json.dumps(values, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def line_spans(values: DataArray, memory: int | None = None) -> list[slice]:
    """Return slices of inlines that are read together; each has a multiple of 32 lines, the length of a Zarr chunk.

    A slice takes up to a sixteenth of `memory` (bytes), at most 64 MB, but always at least 32 lines.
    """
    line = values.dtype.itemsize * values.shape[-2] * values.shape[-1]
    block = min(BLOCK, memory // 16) if memory else BLOCK
    return list(spans(values.shape[-3], max(1, block // line // LINES) * LINES))


def new_folder(path: str | Path) -> AbstractContextManager[Path]:
    """Return a context manager that yields a temporary folder, which is renamed to `path` if no error occurs.

    An existing folder `path` that is not empty raises ValueError.
    """
    path = Path(path)
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise ValueError(f"{path} is already there; remove it or choose another name.")
    made: AbstractContextManager[Path] = whole_file(path)
    return made
