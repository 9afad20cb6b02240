"""Validation of the arguments with which mappers are fitted."""

from typing import Any

import numpy as np
import numpy.typing as npt

from outcrop.arrays import Array, array_namespace, as_floats, constant, to_numpy


def check_patches(patches: Array) -> tuple[Array, Any]:
    """Return patches as floats and their array library; raise a ValueError if they are invalid."""
    patches, xp = as_floats(patches)
    if patches.ndim != 3 or 0 in patches.shape or patches.shape[1] * patches.shape[2] < 2:
        raise ValueError(
            f"Patches have shape {tuple(patches.shape)}; give a non-empty stack (n_patches, height, width)."
        )
    if not xp.all(xp.isfinite(patches)):
        raise ValueError("Patches contain NaN or infinite values; fill missing samples or leave these patches out.")
    if xp.any(patches < 0):
        raise ValueError(f"Patches go down to {float(xp.min(patches)):g}; scale amplitudes to [0, 1] first.")
    return patches, xp


def class_codes(classes: npt.ArrayLike, *, n_patches: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the class names in order of first appearance, and the position of each patch's class in these names.

    Examples
    --------
    >>> names, codes = class_codes(["salt dome", "fault", "salt dome"], n_patches=3)
    >>> names.tolist(), codes.tolist()
    (['salt dome', 'fault'], [0, 1, 0])
    """
    classes = np.asarray(classes)
    if classes.shape != (n_patches,):
        raise ValueError(f"classes has shape {classes.shape} for {n_patches} patches; give one class per patch.")
    names, first, codes = np.unique(classes, return_index=True, return_inverse=True)
    if not 2 <= len(names) <= 254:
        raise ValueError(
            f"The number of different classes is {len(names)} ({', '.join(map(str, names[:3]))}); give 2 to 254."
        )
    order = np.argsort(first)
    return names[order], np.argsort(order)[codes]


def check_masks(masks: Array | None, patches: Array, *, n_classes: int) -> Array | None:
    """Return the codes of painted pixels as uint8 on the device of the patches; None if no pixel is painted.

    Raise a ValueError if the masks do not fit the patches, or contain other values than 0 to `n_classes`.
    """
    if masks is None:
        return None
    masks = to_numpy(masks)
    if masks.shape != tuple(patches.shape):
        raise ValueError(f"masks has shape {masks.shape} and patches {tuple(patches.shape)}; give one code per pixel.")
    if masks.dtype.kind not in "iub" or masks.min() < 0 or masks.max() > n_classes:
        raise ValueError(f"masks contains values outside 0 to {n_classes}; use 0 for unknown, i + 1 for classes_[i].")
    return constant(array_namespace(patches), masks.astype("u1"), like=patches) if masks.any() else None
