"""The paper's curvelet figure: the tiling of the frequency plane, and one curvelet in frequency and in space."""

from typing import Any

import numpy as np
import pandas as pd

import outcrop as oc
from outcrop.experiments import Data, Result

SHAPE = (99, 99)
WEDGE = (2, 1)  # scale and angle of the curvelet that is drawn


def run(data: Data, *, quick: bool = False) -> Result:
    """Draw the tiling for 99 x 99 patches, and a wedge with its curvelet; count directions and singular values."""
    frame = oc.Curvelet(SHAPE)
    rows: list[tuple[Any, ...]] = []
    for j, shapes in enumerate(frame.shapes):
        paper = 1 if j == 0 else 16 * 2 ** int(np.ceil((j - 1) / 2))
        values = sum(min(shape) for shape in shapes[: (len(shapes) + 1) // 2])
        rows.append((str(j), len(shapes), paper, "{} x {}".format(*max(shapes)), values))
    rows.append(("all", *(sum(row[i] for row in rows) for i in (1, 2)), "", sum(row[4] for row in rows)))
    columns = ["scale", "directions", "paper directions", "largest array", "singular values"]
    return Result(pd.DataFrame(rows, columns=columns), figure(frame))


def figure(frame: oc.Curvelet) -> Any:
    """Draw the tiling, the window of one wedge, and the curvelet of that wedge in the middle of the patch."""
    drawing = oc.plots.new_figure(figsize=(13, 4.7), layout="constrained")
    tiling, frequency, space = drawing.subplots(1, 3)
    chosen, half = spectrum(frame, *WEDGE), 0.5**0.5  # an outline runs where neighbouring windows have equal power
    k1, k2 = (np.arange(n) - n // 2 for n in SHAPE)
    for scale, windows in enumerate(frame.windows):
        for k in range(len(windows)):
            tiling.contour(k2, k1, spectrum(frame, scale, k), [half], colors="black", linewidths=0.7)
    tiling.contourf(k2, k1, chosen, [half, 2], colors="tab:red")
    for row, words in zip((0, -10, -21, -38), ("scale 0", "scale 1", "scale 2", "scale 3: wavelets"), strict=True):
        tiling.text(0, row, words, ha="center", va="center", fontsize=8, bbox={"fc": "white", "ec": "none", "pad": 1})
    frequency.pcolormesh(k2, k1, chosen, cmap="magma", vmin=0, vmax=1, rasterized=True)
    curvelet = atom(frame, *WEDGE)
    limit = np.abs(curvelet).max()
    space.imshow(curvelet, cmap="RdBu", vmin=-limit, vmax=limit, interpolation="bilinear")
    space.set(xlabel="trace", ylabel="sample", aspect="equal")
    for ax in (tiling, frequency):
        ax.set(xlabel="cycles across the patch", ylabel="cycles down the patch", aspect="equal")
        ax.invert_yaxis()
    titles = ("frequency plane of a 99 x 99 patch", "one wedge and its mirror image", "its curvelet in space")
    for ax, title in zip((tiling, frequency, space), titles, strict=True):
        ax.set_title(title, loc="left", fontsize=11)
    return drawing


def atom(frame: oc.Curvelet, scale: int, angle: int) -> np.ndarray:
    """Return the curvelet of one wedge, placed in the middle of the patch."""
    coefficients = [[np.zeros(shape) for shape in shapes] for shapes in frame.shapes]
    rows, columns = frame.shapes[scale][angle]
    coefficients[scale][angle][rows // 2, columns // 2] = 1
    return np.asarray(frame.adjoint(coefficients))


def spectrum(frame: oc.Curvelet, scale: int, angle: int) -> np.ndarray:
    """Return the frequency window of one wedge and its mirror image, with zero frequency in the middle."""
    window = frame.windows[scale][angle]
    plane = np.zeros(SHAPE[0] * SHAPE[1])
    support = window.weight != 0
    plane[window.source[support]] = np.abs(window.weight[support])
    plane = np.fft.fftshift(plane.reshape(SHAPE))
    return np.maximum(plane, plane[::-1, ::-1])
