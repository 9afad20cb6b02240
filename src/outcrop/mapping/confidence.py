"""Labels and confidence from class scores, by the rule that all mappers share.

Scores are real numbers >= 0 of shape (n_patches, height, width, n_classes), NumPy or torch. Labels are uint8 codes:
0 is `uncertain`, ``i + 1`` the class of ``scores[..., i]``. Every function treats patches one by one, so a stack may be
split into blocks of any size. In label volumes 0 is `not labelled` and 255 `uncertain`.
"""

from collections.abc import Callable, Iterable

import numpy as np
import numpy.typing as npt

from outcrop.arrays import Array, array_namespace

UNCERTAIN = 255  # code in label volumes; 0 is not labelled
BACKGROUNDS = (
    "other", "others", "background", "rest", "none", "host", "host rock", "country rock", "sediment", "sediments",
    "layers",
)  # fmt: skip


def labelled(codes: Array) -> Array:
    """Return a mask of the samples of a label volume that have a class, not the code 0 or 255.

    Examples
    --------
    >>> labelled(np.array([0, 1, 4, 255], "uint8"))
    array([False,  True,  True, False])
    """
    return (codes > 0) & (codes != UNCERTAIN)


def as_codes(values: npt.ArrayLike) -> npt.NDArray[np.uint8]:
    """Convert codes of a label volume to uint8.

    NaN becomes 0, `not labelled`. -1, which SEG-Y files of signed bytes hold instead of 255, becomes 255, `uncertain`.
    Fractions and other values below 0 or above 255 raise a ValueError, because the conversion would change them to the
    code of another class.

    Examples
    --------
    >>> as_codes(np.array([np.nan, -1, 0, 2, 255]))
    array([  0, 255,   0,   2, 255], dtype=uint8)
    """
    values = np.asarray(values)
    if values.dtype == np.uint8:
        return values
    values = np.nan_to_num(values.astype(np.float32))
    values = np.where(values == -1, np.float32(UNCERTAIN), values)
    wrong = (values < 0) | (values > UNCERTAIN) | (values != np.rint(values))
    if wrong.any():
        raise ValueError(
            f"The labels contain code {values[wrong].flat[0]:g}; codes must be whole numbers from 0 to {UNCERTAIN}."
        )
    return values.astype(np.uint8)


def find_background(classes: Iterable[str], background: str | None = None) -> str | None:
    """Return the name of the background, the class that may appear in any patch; None if no class is background.

    Parameters
    ----------
    classes : sequence of str
    background : str, optional
        Name of the background, which must be one of the classes. By default, the first name of `BACKGROUNDS` that is
        one of the classes, in upper or lower case.

    Examples
    --------
    >>> find_background(["fault", "Background"]), find_background(["fault", "salt"])
    ('Background', None)
    """
    names = [str(name) for name in classes]
    if background is not None:
        if background not in names:
            raise ValueError(f"background is {background!r}, which is not a class; choose one of {', '.join(names)}.")
        return str(background)
    by_lower = {name.lower(): name for name in reversed(names)}
    return next((by_lower[name] for name in BACKGROUNDS if name in by_lower), None)


def winner(scores: Array) -> tuple[Array, Array]:
    """Return, at every pixel, the code and the score of the class with the highest score; the first class wins a tie.

    The highest score is the paper's confidence (eq. 9), a raw magnitude that grows with the amplitude.

    Returns
    -------
    codes : uint8 array
        ``i + 1`` where ``scores[..., i]`` is the highest score; shape of the scores without the last axis.
    best : array
        The highest score; the same shape.

    Examples
    --------
    >>> import numpy as np
    >>> codes, best = winner(np.array([[0.1, 0.6, 0.3], [0.5, 0.0, 0.5]]))
    >>> codes.tolist(), best.tolist()
    ([2, 1], [0.6, 0.5])
    """
    xp = array_namespace(scores)
    best = scores[..., 0]
    codes = xp.ones_like(best, dtype=xp.uint8)
    # A loop over the classes takes half the time of argmax and max over a short last axis.
    for i in range(1, scores.shape[-1]):
        better = scores[..., i] > best
        codes = xp.where(better, xp.asarray(i + 1, dtype=xp.uint8), codes)
        best = xp.maximum(best, scores[..., i])
    return codes, best


def confidence(scores: Array) -> Array:
    """Return the highest class score at every pixel as a share of the sum of all class scores, between 0 and 1.

    If the scores are probabilities, the share is a probability: 1 where a single class has evidence, one half where two
    classes tie, 1 / n_classes where all classes tie, and 0 where no class has evidence. It does not depend on the
    amplitude of the patch. A rescaled share, or the difference of the two highest shares, would fill [0, 1] evenly, but
    could not be calibrated against the accuracy of the labels.

    Examples
    --------
    >>> import numpy as np
    >>> confidence(np.array([[0.1, 0.6, 0.3], [0.5, 0.0, 0.5], [0.0, 0.0, 0.0]])).tolist()
    [0.6, 0.5, 0.0]
    """
    xp = array_namespace(scores)
    best, total = winner(scores)[1], xp.sum(scores, axis=-1)
    return best / xp.where(total > 0, total, xp.ones_like(total))


def label(
    scores: Array, *, confident: Array = None, smooth: Callable[[Array], Array] | None = None, order: str = "paper"
) -> Array:
    """Label every pixel with the class of the highest score, except pixels that are not confident; smooth the labels.

    Parameters
    ----------
    scores : array, shape (n_patches, height, width, n_classes)
    confident : bool array, shape (n_patches, height, width), optional
        Pixels that keep their label; all others become 0, `uncertain`.
    smooth : callable, optional
        `median_filter` or `majority_filter`.
    order : {"paper", "published"}
        Order of the two steps. `paper`: first set pixels to `uncertain`, then smooth, which closes small holes.
        `published`, as in the authors' released code: first smooth, so that every pixel that is not confident ends as
        `uncertain`.

    Returns
    -------
    labels : uint8 array, shape (n_patches, height, width)
    """
    if order not in ("paper", "published"):
        raise ValueError(f"order is {order!r}; choose 'paper' or 'published'.")
    xp = array_namespace(scores)
    labels = winner(scores)[0]
    if smooth is not None and order == "published":
        labels = smooth(labels)
    if confident is not None:
        labels = xp.where(confident, labels, xp.zeros_like(labels))
    if smooth is not None and order == "paper":
        labels = smooth(labels)
    return labels


def median_filter(labels: Array) -> Array:
    """Return the median of the label codes in 3x3 neighbourhoods; edge pixels are repeated outwards.

    The median works on code numbers: between classes 1 and 3 it may return 2, and renumbering the classes can change
    single pixels. `majority_filter` has neither effect.

    Examples
    --------
    >>> import numpy as np
    >>> median_filter(np.array([[1, 1, 3], [1, 2, 3], [1, 3, 3]], "uint8")).tolist()
    [[1, 1, 3], [1, 2, 3], [1, 3, 3]]
    """
    xp = array_namespace(labels)
    median = xp.zeros_like(labels)
    # The median of nine is the number of codes that at least five of them exceed.
    for code in range(int(xp.max(labels))):
        median = median + xp.astype(neighbourhood_sum(xp.astype(labels > code, xp.uint8)) > 4, xp.uint8)
    return median


def majority_filter(labels: Array) -> Array:
    """Return the most frequent label in the 3x3 neighbourhood of every pixel; on a tie a pixel keeps its label.

    Edge pixels are repeated outwards.

    Examples
    --------
    >>> import numpy as np
    >>> majority_filter(np.array([[1, 1, 3], [1, 2, 3], [1, 3, 3]], "uint8")).tolist()
    [[1, 1, 3], [1, 2, 3], [1, 3, 3]]
    >>> majority_filter(np.array([[1, 1, 3], [1, 2, 3], [1, 1, 3]], "uint8")).tolist()
    [[1, 1, 3], [1, 1, 3], [1, 1, 3]]
    """
    xp = array_namespace(labels)
    out = labels
    most = xp.zeros_like(labels)
    for code in range(int(xp.max(labels)) + 1):
        count = neighbourhood_sum(xp.astype(labels == code, xp.uint8))
        out = xp.where(count > most, xp.asarray(code, dtype=xp.uint8), xp.where(count == most, labels, out))
        most = xp.where(count > most, count, most)
    return out


def neighbourhood_sum(x: Array, side: float = 1) -> Array:
    """Return the weighted sum over 3x3 neighbourhoods of the last two axes; edge values are repeated outwards.

    The weights are the outer product of (side, 1, side) with itself.

    Examples
    --------
    >>> import numpy as np
    >>> neighbourhood_sum(np.array([[0, 0, 0], [0, 1, 0], [0, 0, 0]]), side=2).tolist()
    [[4, 2, 4], [2, 1, 2], [4, 2, 4]]
    """
    xp = array_namespace(x)
    rows = xp.concat((x[..., :1, :], x, x[..., -1:, :]), axis=-2)
    x = (rows[..., :-2, :] + rows[..., 2:, :]) * side + x
    columns = xp.concat((x[..., :, :1], x, x[..., :, -1:]), axis=-1)
    return (columns[..., :, :-2] + columns[..., :, 2:]) * side + x
