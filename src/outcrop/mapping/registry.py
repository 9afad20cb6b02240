"""Create mappers by name, and load saved mappers."""

import hashlib
import tempfile
import warnings
from functools import partial
from pathlib import Path
from typing import Any

from outcrop.mapping.factorisation import VARIANTS
from outcrop.mapping.label_mapper import LabelMapper
from outcrop.mapping.points import PointMapper
from outcrop.mapping.saved import digest, read_mapper
from outcrop.storage.workspace import damage

REMOVED = {"EncoderMapper": "encoder", "TextureMapper": "texture"}  # kinds and mappings of earlier versions


class Mappers(dict[str, Any]):
    """Dict from the name of a mapping to a function that returns a new mapper.

    The name of a mapping that was removed from the package gives the function of `paper`, with a warning.
    """

    def __missing__(self, name: str) -> Any:
        if name not in REMOVED.values():
            raise KeyError(name)
        warnings.warn(f"Mapping {name!r} was removed; 'paper' is used instead.", stacklevel=2)
        return self["paper"]


MAPPERS: Mappers = Mappers({name: partial(LabelMapper, variant=name) for name in VARIANTS})
"""Mappings that learn from patches, as a dict from name (as in `--mapping`) to function that returns a new mapper.

Examples
--------
>>> import outcrop as oc
>>> list(oc.MAPPERS)
['paper', 'published', 'exact']
>>> oc.MAPPERS["paper"]().variant
'paper'
"""
POINTS = "points"  # the mapping that learns from points and the survey, not from patches
DEFAULT_MAPPING = POINTS
KINDS: dict[str, Any] = {kind.__name__: kind for kind in (LabelMapper, PointMapper)}  # classes of saved mappers


def load_mapper(path: str | Path, *, places: bool = False) -> Any:
    """Load a mapper that ``mapper.save(path)`` wrote; it returns exactly the same scores as the saved mapper.

    Parameters
    ----------
    path : path
        Folder of the mapper. A damaged folder, or a folder without a mapper, raises a ValueError.
    places : bool
        True to label the survey on which the mapper was fitted: the positions of clicks and confirmed lines are
        used. False to label another volume: only features are used.

    Examples
    --------
    >>> import numpy as np
    >>> import tempfile
    >>> import outcrop as oc
    >>> patches = np.random.default_rng(0).random((8, 32, 32))
    >>> mapper = oc.LabelMapper(2, iterations=5).fit(patches, ["fault"] * 4 + ["other"] * 4)
    >>> path = f"{tempfile.mkdtemp()}/mapper"
    >>> mapper.save(path)
    >>> np.array_equal(load_mapper(path).scores(patches), mapper.scores(patches))
    True
    """
    about, arrays = read_mapper(path)
    kind = about.get("kind")
    if kind in REMOVED:
        raise ValueError(
            f"{path} was fitted by mapping {REMOVED[kind]!r}, which this version no longer has; fit a new mapper, or "
            f"label with the default mapping, {DEFAULT_MAPPING}."
        )
    if kind not in KINDS:
        raise ValueError(f"{path} contains a mapper of unknown kind {kind!r}; give a saved {' or '.join(KINDS)}.")
    with damage(path, "fit the mapper again and save it"):
        mapper = KINDS[kind].restored(about, arrays)
    if isinstance(mapper, PointMapper) and not places:
        mapper.forget_places()
    return mapper


def make_mapper(mapping: str, *, seed: int = 0, device: str | None = None, background: str | None = None) -> Any:
    """Return an unfitted mapper by its name in `MAPPERS`, with the given seed, torch device and background.

    Parameters
    ----------
    mapping : str
        A name in `MAPPERS`.
    seed : int
    device : str, optional
        A torch device such as ``cpu`` or ``cuda``, on which `LabelMapper` computes.
    background : str, optional
        The class that may appear in any patch; by default the background that the mapper chooses.

    Returns
    -------
    mapper
        Before calling its ``fit`` or ``scores``, move the patches to the device in its attribute ``torch_device``. If
        this is None, give NumPy arrays.
    """
    if mapping not in MAPPERS:
        raise ValueError(f"Mapping {mapping!r} is unknown; choose one of {', '.join(MAPPERS)}.")
    mapper = MAPPERS[mapping]()
    wanted = {"random_state": seed, "device": device, "background": background}
    known = mapper.get_params() if hasattr(mapper, "get_params") else {}  # not every mapper has this method
    chosen = {name: value for name, value in wanted.items() if name in known and value is not None}
    mapper = mapper.set_params(**chosen) if chosen else mapper
    mapper.torch_device = device if isinstance(mapper, LabelMapper) else None
    return mapper


def mapper_digest(mapper: Any) -> str:
    """Return the SHA-256 of a mapper's arrays and parameters; mappers with equal digests give equal labels."""
    if hasattr(mapper, "saved"):
        return digest(*mapper.saved())
    if hasattr(mapper, "save"):
        return _folder_digest(mapper)
    known = mapper.get_params() if hasattr(mapper, "get_params") else {}
    return hashlib.sha256(repr((sorted(known.items()), [str(name) for name in mapper.classes_])).encode()).hexdigest()


def _folder_digest(mapper: Any) -> str:
    """Return the SHA-256 of the files that a mapper saves."""
    total = hashlib.sha256()
    with tempfile.TemporaryDirectory() as folder:
        mapper.save(Path(folder) / "mapper")
        for file in sorted(path for path in Path(folder).rglob("*") if path.is_file()):
            total.update(str(file.relative_to(folder)).encode() + file.read_bytes())
    return total.hexdigest()
