"""Sections of a volume as 8-bit pictures at screen resolution; recent and upcoming sections are cached."""

import functools
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import xarray as xr

from outcrop.app.work import Latest
from outcrop.volumes.amplitude import amplitude_clip, centre

MOST_PIXELS = (1600, 1000)  # pixels of a screen, across and down
MOST_TRACES = 16_000  # traces read at once for a time slice; the others are read in a thread
ROWS = 40_000  # traces per piece when a thread reads a time slice
SLICES = 8  # time slices read together: the neighbours of one take almost no extra time
KEPT, MOST_BYTES = 24, 300_000_000  # largest number of sections in memory, and of their bytes
AHEAD = 2  # sections read in the direction of travel
Codes = npt.NDArray[np.uint8]
Size = tuple[int, int]
Window = tuple[float, float, float, float]  # left, right, top, bottom, in coordinates
FRAMES = ((1, 2), (0, 2), (1, 0))  # axes of the volume across and down an inline, a crossline and a time slice


class Axis:
    """An axis of the volume, drawn as an axis of a picture; converts axis values, positions and coordinates.

    Axis values are inline numbers, crossline numbers, times or depths. Positions count the lines or samples from 0.
    Coordinates in the picture are the axis values if these are evenly spaced, else the positions.

    Examples
    --------
    >>> axis = Axis(np.array([300, 302, 304]))
    >>> axis.low, axis.high, axis.position(303.1), axis.nearest(303.1), axis.coordinate(304)
    (299.0, 305.0, 2, 2, 304.0)
    """

    def __init__(self, labels: npt.ArrayLike) -> None:
        self.labels = np.asarray(labels)
        steps = np.diff(self.labels.astype(float))
        self.even = bool(len(steps)) and bool(np.allclose(steps, steps[0])) and bool(steps[0] != 0)
        self.step = float(steps[0]) if self.even else 1.0
        self.start = float(self.labels[0]) if self.even or len(self.labels) == 1 else 0.0
        self.low, self.high = self.ends(0, len(self))

    def __len__(self) -> int:
        return len(self.labels)

    def ends(self, first: int, last: int) -> list[float]:
        """Return the coordinates, smaller first, of the edges of a picture with positions `first` to ``last - 1``."""
        return sorted(self.start + (at - 0.5) * self.step for at in (first, last))

    def position(self, coordinate: float) -> int:
        """Return the position on the axis nearest to a coordinate."""
        return int(np.clip(np.floor((coordinate - self.start) / self.step + 0.5), 0, len(self) - 1))

    def nearest(self, label: float) -> int:
        """Return the position on the axis whose axis value, such as a line number, is nearest to a given value."""
        return int(np.argmin(np.abs(self.labels - label)))

    def coordinate(self, label: float) -> float:
        """Return the picture coordinate of an axis value, such as a line number."""
        return self.start + self.step * self.nearest(label)


class Picture(NamedTuple):
    """A picture of a section or of a part of it: 8-bit pixels, and the coordinates of the four edges."""

    codes: Codes  # uint8, shape (n_down, n_across): amplitudes as from `encode`, label codes, or confidence
    left: float
    right: float
    top: float
    bottom: float


class Sections:
    """Sections of a volume as 8-bit pictures.

    Pixels have values from 0 to 255: 0 is a missing sample, 1 to 255 are amplitudes from -`clip` to `clip`. A pixel is
    the mean of all samples that fall on it. For a large time slice, only every Nth trace is read at first; a thread
    then reads the part in view at screen resolution.

    Parameters
    ----------
    volume : DataArray
        A volume from `open_volume`.

    Attributes
    ----------
    refined : callable
        Function without arguments, called after a thread has read a time slice at finer resolution.
    """

    def __init__(self, volume: xr.DataArray) -> None:
        self.volume = volume
        self.axes = [Axis(volume[name].values) for name in volume.dims]
        self._kept: OrderedDict[tuple[int, int], Codes] = OrderedDict()
        self._coming: dict[tuple[int, int], Future[Codes]] = {}
        self._lock = threading.Lock()
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="read-ahead")
        self._fine: dict[
            int, tuple[int, ...]
        ] = {}  # first of a group of time slices -> rows, columns and steps of the finer read
        self._wanted: tuple[int, Window | None] = (0, None)  # time slice in view, and its window
        self._refiner = Latest(self._refine)
        self.refined: Callable[[], None] = lambda: None
        self._closed = False
        self._zero = centre(volume)

    @functools.cached_property
    def clip(self) -> float:
        """Absolute amplitude from which samples are drawn in full black or white."""
        return 0.5 if self.volume.attrs.get("scaled") else float(amplitude_clip(self.volume, percentile=99))

    def _encode(self, *where: Any) -> Codes:
        """Read a part of the volume and return it as 8-bit amplitudes, as `encode` does.

        `where` holds slices or positions along the three axes.
        """
        return encode(self.volume[where].values, self.clip, zero=self._zero)

    def frame(self, direction: int) -> list[Axis]:
        """Return the horizontal and the vertical axis of sections of a direction: 0 inline, 1 crossline, 2 time."""
        return [self.axes[i] for i in FRAMES[direction]]

    def picture(self, direction: int, position: int, window: Window | None = None, *, ahead: int = 0) -> Picture:
        """Return a picture of a section, or of the part of a section in a window (left, right, top, bottom).

        Parameters
        ----------
        direction, position : int
            Direction of the section (0 inline, 1 crossline, 2 time), and its position on this axis, counted from 0.
        window : (float, float, float, float), optional
            Part to show, in coordinates; by default the whole section.
        ahead : {-1, 0, 1}
            Direction in which the interpreter moves through the volume; the next sections in this direction are read in
            a thread. 0 reads none.
        """
        codes = self.codes(direction, position)
        if direction == 2 and self._thin() > 1:
            self._wanted = (position, window)
            self._refiner.request()
        for step in range(1, AHEAD + 1) if ahead else ():
            key = (direction, position + ahead * step)
            with self._lock:
                if 0 <= key[1] < self.volume.shape[direction] and key not in self._kept and key not in self._coming:
                    self._coming[key] = self._pool.submit(self._keep, key)
        return crop(codes, self.frame(direction), window)

    def codes(self, direction: int, position: int) -> Codes:
        """Return all samples of a section as 8-bit amplitudes, shape (n_down, n_across); recent sections are cached."""
        key = (direction, position)
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key]
            coming = self._coming.get(key)
        if coming is not None and not coming.cancel():  # a thread is reading it
            return coming.result()
        return self._keep(key)

    def _keep(self, key: tuple[int, int]) -> Codes:
        """Read a section into the cache and return its 8-bit amplitudes; `key` is (direction, position).

        If the cache is then too large, the sections that were not used for the longest time are dropped.
        """
        try:
            if key in self._kept:  # read together with another
                return self._kept[key]
            found = self._read(*key)
            with self._lock:
                self._kept |= found
                self._kept.move_to_end(key)
                while len(self._kept) > 1 and (
                    len(self._kept) > KEPT or sum(codes.size for codes in self._kept.values()) > MOST_BYTES
                ):
                    self._kept.popitem(last=False)
            return found[key]
        finally:
            with self._lock:
                self._coming.pop(key, None)

    def _read(self, direction: int, position: int) -> dict[tuple[int, int], Codes]:
        """Read a section; return a dict: (direction, position) -> 8-bit amplitudes.

        The dict has one entry, the section. For a time slice it also has the neighbouring time slices, which are read
        together with it.
        """
        if direction < 2:
            codes = self._encode(*(slice(None),) * direction, position)
            return {(direction, position): np.ascontiguousarray(codes.T)}
        n_inline, n_crossline = self.volume.shape[:2]
        thin, first = self._thin(), position // SLICES * SLICES
        codes = self._encode(slice(None, None, thin), slice(None, None, thin), slice(first, first + SLICES))
        full = np.repeat(np.repeat(np.moveaxis(codes, 2, 0), thin, axis=1), thin, axis=2)[:, :n_inline, :n_crossline]
        self._fine.pop(first, None)
        return {(direction, first + i): one for i, one in enumerate(full)}

    def _thin(self) -> int:
        """Return the step N at which a time slice is read first: every Nth inline and every Nth crossline."""
        n_inline, n_crossline = self.volume.shape[:2]
        return int(np.ceil(np.sqrt(max(1, n_inline * n_crossline / MOST_TRACES))))

    def _refine(self) -> None:
        """Read the visible part of a time slice at screen resolution, piece by piece, while the slice is in view."""
        position, window = wanted = self._wanted
        first = position // SLICES * SLICES
        (left, right), (top, bottom) = spans_of(self.frame(2), window)
        step, trace_step = max(1, (bottom - top) // MOST_PIXELS[1]), max(1, (right - left) // MOST_PIXELS[0])
        reached = (top, -bottom, left, -right, step, trace_step)
        before = self._fine.get(first)
        enough = before is not None and all(one <= wished for one, wished in zip(before, reached, strict=True))
        if enough or (2, position) not in self._kept:
            return
        fine = {i: self._kept[2, first + i].copy() for i in range(SLICES) if (2, first + i) in self._kept}
        rows = max(1, ROWS * trace_step // (right - left)) * step
        for start in range(top, bottom, rows):
            if self._wanted != wanted or self._closed:
                return
            end = min(start + rows, bottom)
            codes = self._encode(slice(start, end, step), slice(left, right, trace_step), slice(first, first + SLICES))
            for i, one in fine.items():
                block = np.repeat(np.repeat(codes[..., i], step, axis=0), trace_step, axis=1)
                one[start:end, left:right] = block[: end - start, : right - left]
        with self._lock:
            self._kept |= {(2, first + i): one for i, one in fine.items() if (2, first + i) in self._kept}
        self._fine[first] = reached
        self.refined()

    def close(self) -> None:
        """Stop the threads that read sections ahead and time slices at finer resolution."""
        self._closed = True
        self._refiner.wait()
        self._pool.shutdown(wait=False, cancel_futures=True)


def encode(values: npt.NDArray[Any], clip: float, *, zero: float = 0.0) -> Codes:
    """Return amplitudes from ``zero - clip`` to ``zero + clip`` as 8-bit values 1 to 255; missing samples become 0.

    Examples
    --------
    >>> encode(np.array([-9.0, 0.0, 2.0, np.nan]), clip=2.0)
    array([  1, 128, 255,   0], dtype=uint8)
    """
    codes: npt.NDArray[np.float32] = np.multiply(values, np.float32(127 / clip), dtype=np.float32)
    if zero:
        codes -= np.float32(127 * zero / clip)
    np.clip(codes, -127, 127, out=codes)
    codes += np.float32(128.5)
    if not np.isfinite(codes.sum()):
        codes[~np.isfinite(codes)] = 0
    return codes.astype(np.uint8)


def crop(
    codes: Codes, frame: Sequence[Axis], window: Window | None = None, *, mean: bool = True, most: Size = MOST_PIXELS
) -> Picture:
    """Return a part of a section as a picture of at most screen size; coordinates increase rightwards and downwards.

    Parameters
    ----------
    codes : uint8 array, shape (n_down, n_across)
        The whole section: 8-bit amplitudes, label codes or confidence.
    frame : (Axis, Axis)
        Axes of the section across and down.
    window : (float, float, float, float), optional
        Coordinates of the left, right, top and bottom edge of the part; by default the whole section.
    mean : bool
        If True, a pixel is the mean of the samples that fall on it. If False, it is the first of these samples, because
        label codes have no mean.
    most : (int, int)
        Largest number of pixels across and down.
    """
    spans = spans_of(frame, window)
    (left, right), (top, bottom) = spans
    part = codes[top:bottom, left:right]
    across, down = (max(1, -(-(last - first) // limit)) for (first, last), limit in zip(spans, most, strict=True))
    part = shrink(part, down, across) if mean else part[::down, ::across]
    part = part[tuple(slice(None, None, -1 if axis.step < 0 else 1) for axis in reversed(frame))]
    edges = [end for axis, span in zip(frame, spans, strict=True) for end in axis.ends(*span)]
    return Picture(np.ascontiguousarray(part), *edges)


def spans_of(frame: Sequence[Axis], window: Window | None) -> list[tuple[int, int]]:
    """Return the span of a window across and its span down, each as (first position, last position + 1).

    If `window` is None, these are the spans of the whole section.
    """
    if window is None:
        return [(0, len(axis)) for axis in frame]
    ends = [sorted(map(axis.position, part)) for axis, part in zip(frame, (window[:2], window[2:]), strict=True)]
    return [(first, last + 1) for first, last in ends]


def shrink(codes: Codes, down: int, across: int) -> Codes:
    """Return the mean of each block of `down` rows and `across` columns of a picture.

    Incomplete blocks at the rim are filled by repeating the last pixels.

    Examples
    --------
    >>> shrink(np.array([[2, 4, 9], [2, 4, 9]], "uint8"), 2, 2)
    array([[3, 9]], dtype=uint8)
    """
    if down == across == 1:
        return codes
    rows, columns = -(-codes.shape[0] // down), -(-codes.shape[1] // across)
    full = np.pad(codes, ((0, rows * down - codes.shape[0]), (0, columns * across - codes.shape[1])), mode="edge")
    total = np.zeros((rows, columns), np.uint32 if down * across > 256 else np.uint16)
    for i in range(down):
        for j in range(across):
            total += full[i::down, j::across]
    return (total // (down * across)).astype(np.uint8)
