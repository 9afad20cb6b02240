"""Similarity measures by name, and the comparison of two stacks of patches."""

from collections.abc import Callable
from functools import partial
from math import prod
from typing import Any

from outcrop.arrays import Array, array_namespace, as_floats, constant, is_numpy, to_numpy
from outcrop.features import patch_encoder
from outcrop.features.encoder import weights_digest
from outcrop.measures.curvelet_histogram import CurveletHistogram
from outcrop.measures.curvelet_svd import CurveletSVD
from outcrop.measures.pairs import all_pairs, bray_curtis, euclidean
from outcrop.measures.structural import CWSSIM, STSIM, SeiSIM


class PatchEncoder:
    r"""Similarity of descriptors from a net that was pretrained on synthetic sections; not a measure of the paper.

    Notes
    -----
    Amplitudes are balanced and filtered by five convolutional layers. A linear layer turns the mean and the standard
    deviation of every filter over the patch into a descriptor: 128 numbers :math:`u \ge 0` with sum 1. Two patches with
    descriptors u and v have the similarity :math:`1 - \|u - v\|_1 / \|u + v\|_1`. The net always computes in float32.
    """

    distance = False

    def describe(self, patches: Array, *, workers: int | None = None) -> Array:
        """Return the descriptors of a stack of patches, shape (n, 128)."""
        patches, xp = as_floats(patches)
        if not is_numpy(xp) and patches.device.type != "cpu":
            return patch_encoder.describe_on_device(patches)
        found = patch_encoder.describe(to_numpy(patches), workers=workers)
        return constant(xp, found, like=patches, dtype=patches.dtype)

    def compare(self, a: Array, b: Array) -> Array:
        """Return the similarity of each descriptor of `a` to each of `b`, shape (n_a, n_b), from 0 to 1."""
        return bray_curtis(a, b)

    def blocks(self, size: tuple[int, int]) -> list[int]:
        """Return the number of values in each block of a descriptor; here one block.

        The similarity of two descriptors is the mean of the similarities of their blocks.

        Raise a ValueError if patches of the given size are too small for the net.
        """
        patch_encoder.check_size(size)
        return [patch_encoder.LENGTH]

    def inputs(self) -> dict[str, str]:
        """Return the data, besides patches, on which descriptors depend: a dict with the digest of the weights."""
        return {"weights": weights_digest(patch_encoder.WEIGHTS)}


class Euclidean:
    """Euclidean distance between the pixels of two patches."""

    distance = True

    def describe(self, patches: Array, *, workers: int | None = None) -> Array:
        """Return the pixels of every patch, shape (n, n_pixels)."""
        patches, xp = as_floats(patches)
        return xp.reshape(patches, (patches.shape[0], prod(patches.shape[1:])))

    def compare(self, a: Array, b: Array) -> Array:
        """Return the Euclidean distance of each patch of `a` from each patch of `b`, shape (n_a, n_b)."""
        return all_pairs(euclidean, [a], [b], side=256 if is_numpy(array_namespace(a)) else 4096)


MEASURES: dict[str, Callable[..., Any]] = {
    "euclidean": Euclidean,
    "cw-ssim": CWSSIM,
    "stsim-1": STSIM,
    "stsim-2": partial(STSIM, cross=True),
    "seisim": SeiSIM,
    "curvelet-histogram": CurveletHistogram,
    "curvelet-svd": CurveletSVD,
    "encoder": PatchEncoder,
}
"""Similarity measures: name -> function that returns a measure and takes its parameters.

The attribute ``distance`` of a measure is True if it returns distances, False if it returns similarities.

Examples
--------
>>> import outcrop as oc
>>> list(oc.MEASURES)[-2:]
['curvelet-svd', 'encoder']
>>> oc.MEASURES["curvelet-svd"](finest=False).distance
False
"""
PAPER = tuple(MEASURES)[:7]  # measures that the paper compares
INDEXED = ("curvelet-svd", "encoder")  # measures whose descriptors an index can keep and search
DEFAULT = "encoder"  # measure of an index by default


def indexed_measure(options: dict[str, Any]) -> Any:
    """Return the measure of an index from its options; ``curvelet-svd`` has the options ``truncate`` and ``finest``."""
    name = options.get("measure") or DEFAULT
    if name not in INDEXED:
        raise ValueError(f"Measure {name!r} cannot be used for an index; choose one of {', '.join(INDEXED)}.")
    if name == "curvelet-svd":
        return CurveletSVD(truncate=options["truncate"], finest=options["finest"])
    return MEASURES[name]()


def similarity(a: Array, b: Array, measure: str = "curvelet-svd", **parameters: Any) -> Array:
    """Return the similarity of every patch of one stack to every patch of another.

    Parameters
    ----------
    a, b : array, shape (n, height, width)
        Patches with values in [0, 1].
    measure : str
        A key of `MEASURES`.
    **parameters
        Passed to the measure, for instance ``finest=False`` for ``curvelet-svd``.

    Returns
    -------
    array, shape (n_a, n_b)
        Higher is more similar. Distances become similarities: each is divided by the largest distance of its row and
        subtracted from 1.

    Examples
    --------
    >>> import numpy as np
    >>> patches = np.random.default_rng(0).random((3, 64, 64))
    >>> similarity(patches, patches).diagonal()
    array([1., 1., 1.])
    """
    if measure not in MEASURES:
        raise ValueError(f"Unknown measure {measure!r}; choose one of {', '.join(MEASURES)}.")
    chosen = MEASURES[measure](**parameters)
    first = _check(a)
    second = first if b is a else _check(b)
    if first.shape[1:] != second.shape[1:]:
        sizes = [" x ".join(map(str, x.shape[1:])) for x in (first, second)]
        raise ValueError(f"Patches of {sizes[0]} and of {sizes[1]} cannot be compared; cut both to one size.")
    described = chosen.describe(first)
    values = chosen.compare(described, described if b is a else chosen.describe(second))
    if not chosen.distance:
        return values
    xp = array_namespace(values)
    largest = xp.max(values, axis=-1, keepdims=True)
    return 1 - values / xp.where(largest > 0, largest, xp.ones_like(largest))


def _check(patches: Array) -> Array:
    patches, xp = as_floats(patches)
    if patches.ndim != 3:
        raise ValueError(f"Patches have shape {tuple(patches.shape)}; pass a stack (n, height, width).")
    if not bool(xp.all(xp.isfinite(patches))):
        raise ValueError("Patches hold NaN or infinite values; leave those patches out.")
    return patches
