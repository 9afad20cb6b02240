"""The fast discrete curvelet transform by wrapping, as a tight frame for stacks of real images.

Scales run from the coarsest to the finest. The coarsest and finest scales have one array each (the finest holds
wavelets). Other scales have one array per angle: first the cosine parts of the wedges, then their sine parts,
clockwise from the top-left corner.

Reference: Candès, Demanet, Donoho, Ying, Fast discrete curvelet transforms, Multiscale Modeling & Simulation 5, 2006.
"""

from collections.abc import Iterator
from functools import lru_cache
from math import ceil, floor, log2, pi, sqrt
from typing import Any, NamedTuple

import numpy as np
from array_api_compat import device

from outcrop.arrays import Array, as_floats, constant, fourier, is_numpy

SMALLEST = 32  # pixels: smallest height and width of an image


class Window(NamedTuple):
    """Band-pass window, wrapped into a rectangle; each entry has a position in the spectrum and a weight."""

    shape: tuple[int, int]
    source: np.ndarray  # position in the flattened spectrum, per entry of the rectangle
    weight: np.ndarray  # window value and centring phase, 0 outside the support


class Curvelet:
    """Curvelet frame for images of one shape; the forward transform and its adjoint preserve energy.

    Parameters
    ----------
    shape : (int, int)
        Rows and columns of the images, each at least 32.

    Examples
    --------
    >>> frame = Curvelet((99, 99))
    >>> [len(scale) for scale in frame.shapes]
    [1, 16, 32, 1]
    >>> image = np.random.default_rng(0).normal(size=(99, 99))
    >>> bool(np.allclose(frame.adjoint(frame.forward(image)), image))
    True
    """

    def __init__(self, shape: tuple[int, int]) -> None:
        self.shape: tuple[Any, ...] = tuple(int(n) for n in shape)
        if len(self.shape) != 2 or min(self.shape) < SMALLEST:
            raise ValueError(f"Image shape {shape} is too small for curvelets; both sides must be at least {SMALLEST}.")
        self.windows = _windows(self.shape)

    @property
    def shapes(self) -> list[list[tuple[int, int]]]:
        """Shape of every coefficient array, as ``shapes[scale][angle]``."""
        halves = [[window.shape for window in scale] for scale in self.windows]
        return [half if len(half) == 1 else half + half for half in halves]

    def forward(self, x: Array) -> list[list[Array]]:
        """Return the coefficients of an image or a stack of images: real arrays, as ``coefficients[scale][angle]``."""
        return [
            [scale[0].real]
            if len(scale) == 1
            else [sqrt(2) * c.real for c in scale] + [sqrt(2) * c.imag for c in scale]
            for scale in self.wedges(x)
        ]

    def wedges(self, x: Array, *, finest: bool = True) -> Iterator[list[Array]]:
        """Yield the complex coefficient arrays of each scale, the coarsest scale first.

        `forward` separates their real and imaginary parts. If `finest` is False, the finest scale is left out.
        """
        x, xp = as_floats(x)
        if tuple(x.shape[-2:]) != self.shape:
            raise ValueError(f"Images have shape {tuple(x.shape[-2:])}; this frame is for {self.shape}.")
        batch, fft = tuple(x.shape[:-2]), fourier(xp)
        spectrum = xp.reshape(fft.fftn(x, axes=(-2, -1), norm="ortho"), (*batch, -1))
        *scales, ((_, _, weight),) = self._constants(xp, spectrum)
        for scale in scales:
            wrapped = [xp.reshape(xp.take(spectrum, i, axis=-1) * w, (*batch, *shape)) for shape, i, w in scale]
            yield [fft.ifftn(array, axes=(-2, -1), norm="ortho") for array in wrapped]
        if finest:  # not wrapped and real, so half of the spectrum is enough
            half = (..., slice(self.shape[1] // 2 + 1))
            band = xp.reshape(spectrum, (*batch, *self.shape))[half] * xp.reshape(weight, self.shape)[half].real
            yield [fft.irfftn(band, s=self.shape, axes=(-2, -1), norm="ortho")]

    def adjoint(self, coefficients: list[list[Array]]) -> Array:
        """Return the image or stack that has these coefficients; inverse of `forward`, because the frame is tight."""
        first, xp = as_floats(coefficients[0][0])
        batch, fft = tuple(first.shape[:-2]), fourier(xp)
        spectrum = xp.zeros(
            (*batch, self.shape[0] * self.shape[1]), dtype=xp.result_type(first, 1j), device=device(first)
        )
        for scale, arrays in zip(self._constants(xp, spectrum), coefficients, strict=True):
            if len(scale) == 1:
                wedges = arrays
            else:
                # the two stored quadrants represent all four: twice the real part of the inverse
                half = len(arrays) // 2
                wedges = [sqrt(2) * (a + 1j * b) for a, b in zip(arrays[:half], arrays[half:], strict=True)]
            for (_, source, weight), wedge in zip(scale, wedges, strict=True):
                bands = xp.reshape(
                    fft.fftn(xp.astype(wedge, spectrum.dtype), axes=(-2, -1), norm="ortho"), (*batch, -1)
                )
                support = weight != 0  # each spectrum position occurs at most once in the support of a window
                spectrum[..., source[support]] += (bands * xp.conj(weight))[..., support]
        return fft.ifftn(xp.reshape(spectrum, (*batch, *self.shape)), axes=(-2, -1), norm="ortho").real

    def _constants(self, xp: Any, like: Array) -> Any:
        """Return the windows as arrays of the namespace `xp`, with the device and precision of `like`."""
        if is_numpy(xp) and like.dtype == np.complex128:
            return self.windows
        return _cast(self.shape, xp, like.dtype, device(like))


@lru_cache(maxsize=32)
def _cast(shape: tuple[int, int], xp: Any, dtype: Any, where: Any) -> Any:
    like = xp.zeros(1, dtype=dtype, device=where)
    return [
        [(w.shape, constant(xp, w.source, like=like), constant(xp, w.weight, like=like, dtype=dtype)) for w in scale]
        for scale in _windows(shape)
    ]


def falling(t: Array) -> Array:
    """Return a smooth step from 1 (t <= 0) to 0 (t >= 1); the squares of the step and of its mirror image sum to 1.

    Examples
    --------
    >>> float(falling(np.float64(0.3)) ** 2 + falling(np.float64(0.7)) ** 2)
    1.0
    """
    g, mirrored = _bump(t), _bump(1 - t)
    return g / np.hypot(g, mirrored)


def rising(t: Array) -> Array:
    """Return a smooth step from 0 (t <= 0) to 1 (t >= 1), the mirror image of `falling`."""
    return falling(1 - t)


def _bump(t: np.ndarray) -> np.ndarray:
    t = np.where(np.abs(t) < 2.0**-52, 0.0, t)
    inside = (t > 0) & (t < 1)
    safe = np.where(inside, t, 0.5)
    with np.errstate(divide="ignore", over="ignore", under="ignore"):
        smooth = np.exp(1 - 1 / (1 - np.exp(1 - 1 / safe)))
    return np.where(t <= 0, 1.0, np.where(inside, smooth, 0.0))


def _lowpass(k: np.ndarray, half_width: float) -> np.ndarray:
    a, b = floor(half_width), floor(2 * half_width)
    return np.where(np.abs(k) <= b, falling((np.abs(k) - a - 1) / (b - a - 1)), 0.0)


@lru_cache(maxsize=16)
def _windows(shape: tuple[int, int]) -> list[list[Window]]:
    """Return the windows of all scales for one image shape, the coarsest first."""
    rows, columns = shape
    k1, k2 = np.meshgrid(frequencies(rows), frequencies(columns), indexing="ij")
    m1, m2 = rows / 6, columns / 6
    low = _lowpass(k1, m1) * _lowpass(k2, m2)
    scales = [[_wrap(np.sqrt(1 - low**2), k1, k2, shape)]]
    for j in range(ceil(log2(min(shape)) - 3) - 1, 1, -1):
        m1, m2 = m1 / 2, m2 / 2
        lower = _lowpass(k1, m1) * _lowpass(k2, m2)
        band = low * np.sqrt(1 - lower**2)
        n = 4 * 2 ** ceil((j - 2) / 2)  # wedges per quadrant
        north = [_wrap(band * u, k1, k2, size) for u, size in _quadrant(-k1, k2, m1, m2, n)]
        east = [_wrap(band * u, k1, k2, size[::-1]) for u, size in _quadrant(k2, k1, m2, m1, n)]
        scales.append(north + east)
        low = low * lower
    scales.append([_wrap(low, k1, k2, (2 * floor(2 * m1) + 1, 2 * floor(2 * m2) + 1))])
    return scales[::-1]


def frequencies(n: int) -> np.ndarray:
    """Return the signed integer frequencies of `n` samples in the order of the FFT."""
    return (np.arange(n) + n // 2) % n - n // 2


def _quadrant(
    v: np.ndarray, h: np.ndarray, mv: float, mh: float, n: int
) -> Iterator[tuple[np.ndarray, tuple[int, int]]]:
    """Yield, for each of the n wedges of a quadrant, its angular window and the size of its rectangle.

    The size is (along v, along h). v and h are the frequencies along the axis of the quadrant and across it; in the
    quadrant v > 0. mv and mh are the half-widths, along v and h, of the low-pass window inside the wedges.
    """
    lv, lh = floor(4 * mv), floor(4 * mh)
    left = [floor(i * lh / n + 1.5) for i in range(n + 1)]
    ticks = left + [2 * lh + 2 - tick for tick in left[-2::-1]]
    e = ticks[1:-1:2]
    first = floor(lv / n + 1.5)  # first vertical tick
    inside = v > 0
    v = np.where(inside, v, 1)
    slope = lh + 1 + lv * h / v
    p, q = np.abs(h) / lh, v / lv
    gh, gv = 2 * lh / (e[0] - 1) - 1, 2 * lv / (first - 1) - 1
    corner = rising(((q - p) / (q + p) + 1 / gv) / (1 / gh + 1 / gv))
    for i in range(n):
        before = np.where(h < 0, corner, 1.0) if i == 0 else rising((slope - e[i - 1]) / (e[i] - e[i - 1]))
        after = np.where(h > 0, corner, 1.0) if i == n - 1 else falling((slope - e[i]) / (e[i + 1] - e[i]))
        length = lv - floor(mv)
        if i == 0:
            width = e[0] + e[1] - 1
        elif i == n - 1:
            width = 4 * lh + 3 - e[-1] - e[-2]
        else:
            width = e[i + 1] - e[i - 1] + 1
        if i in (0, n - 1):
            length += ceil(first / 4)
        yield np.where(inside, before * after, 0.0), (length, width)


def _wrap(window: np.ndarray, k1: np.ndarray, k2: np.ndarray, size: tuple[int, int]) -> Window:
    """Wrap a window of the spectrum into a rectangle of a given size.

    Phases in its weights centre the image and the coefficients, which saves two FFT shifts.
    """
    rows, columns = window.shape
    source = np.flatnonzero(window)
    k1, k2 = k1.ravel()[source], k2.ravel()[source]
    target = (k1 % size[0]) * size[1] + k2 % size[1]
    if len(np.unique(target)) != len(target):
        raise ArithmeticError(f"Curvelet window of shape {size} overlaps itself for images of shape {window.shape}.")
    phase = k1 * (rows // 2 / rows - size[0] // 2 / size[0]) + k2 * (columns // 2 / columns - size[1] // 2 / size[1])
    index, weight = np.zeros(size[0] * size[1], np.intp), np.zeros(size[0] * size[1], complex)
    index[target] = source
    weight[target] = window.ravel()[source] * np.exp(2j * pi * phase)
    return Window(size, index, weight)
