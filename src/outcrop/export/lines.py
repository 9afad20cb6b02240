"""Labels as they are exported: named codes, blocks of lines, attributes as JSON has them."""

import json
from pathlib import Path

from outcrop.parallel import spans
from outcrop.storage.workspace import whole_file

LINES = 32  # lines read together and stored in one Zarr chunk
BLOCK = 1 << 26  # bytes of labels held at once, unless LINES lines are more


def provenance_of(labels, given):
    """What labels were made from, as JSON has it: as given, or as they tell it; empty where nobody does."""
    return as_json(given if given is not None else labels.attrs.get("provenance") or {})


def write_json(path, values):
    """Write values as a JSON file."""
    path.write_text(json.dumps(values, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def line_spans(values, memory=None):
    """Slices of neighbouring inlines that are read together: whole chunks, and no more than the memory allowed."""
    line = values.dtype.itemsize * values.shape[-2] * values.shape[-1]
    block = min(BLOCK, memory // 16) if memory else BLOCK
    return spans(values.shape[-3], max(1, block // line // LINES) * LINES)


def as_json(attrs):
    """Attributes as JSON has them."""
    return json.loads(
        json.dumps(attrs, default=lambda value: value.tolist() if hasattr(value, "tolist") else str(value))
    )


def new_folder(path):
    """Folder to write to that becomes `path` on a clean exit; nothing that exists is replaced."""
    path = Path(path)
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise ValueError(f"{path} is already there; remove it or choose another name.")
    return whole_file(path)
