"""Folders of fitted mappers: arrays in ``arrays.npz``, all other data in ``mapper.json``; no pickle."""

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np

import outcrop

FORMAT = 1  # version of the folder's format; raised when older programs cannot read it
ABOUT, ARRAYS = "mapper.json", "arrays.npz"


def write_mapper(path: str | Path, about: dict[str, Any], arrays: dict[str, Any]) -> None:
    """Write the folder of a mapper atomically; replace an existing mapper.

    Parameters
    ----------
    path : path
        Folder to create.
    about : dict
        Data for JSON, such as ``kind``, ``parameters`` and ``classes``.
    arrays : dict
        Name -> NumPy array.
    """
    from outcrop.storage.workspace import remove, whole_file

    path = Path(path)
    if path.exists() and not (path / ABOUT).is_file():
        raise ValueError(f"{path} exists already and is not a mapper; remove it or choose another name.")
    record = {"format": FORMAT, **_plain(about), "digest": digest(about, arrays), "outcrop": outcrop.__version__}
    with whole_file(path) as aside:
        aside.mkdir(parents=True)
        np.savez(aside / ARRAYS, **arrays)
        (aside / ABOUT).write_text(json.dumps(record, indent=1, ensure_ascii=False), encoding="utf-8")
        remove(path)


def read_mapper(path: str | Path) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Return the dict and the arrays that `write_mapper` wrote to a folder; raise a ValueError if they are damaged."""
    from outcrop.storage.workspace import damage

    path = Path(path)
    if not (path / ABOUT).is_file():
        raise ValueError(f"{path} holds no mapper ({ABOUT} is missing); save one with mapper.save(path).")
    with damage(path, "fit the mapper again and save it"):
        about = json.loads((path / ABOUT).read_text(encoding="utf-8"))
        version = about.pop("format")
    if version != FORMAT:
        raise ValueError(f"{path} has format {version!r}; this program reads format {FORMAT}. Fit the mapper again.")
    with damage(path, "fit the mapper again and save it"):
        with open(path / ARRAYS, "rb") as handle, np.load(handle, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        written = about.pop("digest")
        about.pop("outcrop")
        if digest(about, arrays) != written:
            raise ValueError("the stored digest does not match the contents of the mapper")
    return about, arrays


def digest(about: dict[str, Any], arrays: dict[str, Any]) -> str:
    """Return the SHA-256 of a mapper's parameters and arrays, independent of their order in the dicts.

    Examples
    --------
    >>> digest({"kind": "a"}, {"x": np.zeros(2)}) == digest({"kind": "a"}, {"x": np.zeros((2, 1))})
    False
    """
    total = hashlib.sha256(json.dumps(_plain(about), sort_keys=True).encode())
    for name, array in sorted(arrays.items()):
        array = np.asarray(array)
        total.update(f"{name} {array.dtype.str} {array.shape}".encode())
        total.update(np.ascontiguousarray(array).tobytes())
    return total.hexdigest()


def saved_digest(path: str | Path) -> str:
    """Return the SHA-256 stored with a saved mapper; an empty string if it cannot be read."""
    try:
        return str(json.loads((Path(path) / ABOUT).read_text(encoding="utf-8"))["digest"])
    except (OSError, ValueError, KeyError, TypeError):
        return ""


def _plain(about: dict[str, Any]) -> Any:
    """Convert a dict to the form that it has after saving as JSON: arrays become lists, unknown types become text."""
    return json.loads(
        json.dumps(about, default=lambda value: value.tolist() if hasattr(value, "tolist") else str(value))
    )


def prefixed(prefix: str, arrays: dict[str, Any]) -> dict[str, Any]:
    """Return the arrays under new names, ``PREFIX/NAME``.

    Examples
    --------
    >>> prefixed("features", {"mean": 1})
    {'features/mean': 1}
    """
    return {f"{prefix}/{name}": array for name, array in arrays.items()}


def part(prefix: str, arrays: dict[str, Any]) -> dict[str, Any]:
    """Return the arrays whose names begin with ``PREFIX/``, under names without it; the inverse of `prefixed`."""
    return {name.removeprefix(f"{prefix}/"): array for name, array in arrays.items() if name.startswith(f"{prefix}/")}


def known_parameters(kind: type[Any], about: dict[str, Any]) -> dict[str, Any]:
    """Return the parameters of a saved mapper, except parameters that its class no longer has."""
    known = kind().get_params()
    return {name: value for name, value in about["parameters"].items() if name in known}


class Saved:
    """Base class of mappers that can be saved: ``saved`` returns the data of a mapper, ``restored`` rebuilds it."""

    def saved(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """Return the data of the mapper to save: a dict for JSON, with the key ``kind``, and a dict of arrays."""
        raise NotImplementedError

    def save(self, path: str | Path) -> None:
        """Save the mapper to a folder; `outcrop.load_mapper` restores it with exactly the same scores."""
        write_mapper(path, *self.saved())
