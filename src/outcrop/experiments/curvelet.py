"""The paper's picture of curvelets: the tiling of the frequency plane, and one curvelet in frequency and in space."""

import numpy as np
import pandas as pd

from outcrop import plots
from outcrop.experiments import Result
from outcrop.measures.curvelet import Curvelet

SHAPE = (99, 99)
WEDGE = (2, 1)  # scale and angle of the one that is shown
REMARK = (
    "The paper's formula gives the finest scale 32 directions; the authors' code, and so ours, has wavelets there: one "
    "array without a direction."
)


def run(data, *, quick=False):
    """Tiling for 99 x 99 patches, one wedge and its curvelet, and how many singular values each scale gives."""
    frame = Curvelet(SHAPE)
    table = pd.DataFrame(
        [
            {
                "scale": j,
                "directions": len(shapes),
                "paper directions": 1 if j == 0 else 16 * 2 ** int(np.ceil((j - 1) / 2)),
                "largest array": "{} x {}".format(*max(shapes)),
                "singular values": sum(min(shape) for shape in shapes[: (len(shapes) + 1) // 2]),
            }
            for j, shapes in enumerate(frame.shapes)
        ]
    )
    total = {"scale": "all", "largest array": ""} | table.drop(columns=["scale", "largest array"]).sum().to_dict()
    table = pd.concat([table.astype({"scale": str}), pd.DataFrame([total])], ignore_index=True)
    return Result(table, figure(frame), REMARK)


def figure(frame):
    """Tiling, window of one wedge, and the curvelet of that wedge at the middle."""
    drawing = plots.new_figure(figsize=(13, 4.7), layout="constrained")
    tiling, frequency, space = drawing.subplots(1, 3)
    j, angle = WEDGE
    chosen, half = spectrum(frame, j, angle), 0.5**0.5  # neighbours meet where each has half the power
    k1, k2 = (np.arange(n) - n // 2 for n in SHAPE)
    for scale, windows in enumerate(frame.windows):
        for k in range(len(windows)):
            tiling.contour(k2, k1, spectrum(frame, scale, k), [half], colors="black", linewidths=0.7)
    tiling.contourf(k2, k1, chosen, [half, 2], colors="tab:red")
    for scale, row in enumerate((0, -10, -21, -38)):
        words = f"scale {scale}" + (": wavelets" if scale == 3 else "")
        tiling.text(0, row, words, ha="center", va="center", fontsize=8, bbox={"fc": "white", "ec": "none", "pad": 1})
    frequency.pcolormesh(k2, k1, chosen, cmap="magma", vmin=0, vmax=1, rasterized=True)
    curvelet = atom(frame, j, angle)
    limit = np.abs(curvelet).max()
    space.imshow(curvelet, cmap="RdBu", vmin=-limit, vmax=limit, interpolation="bilinear")
    titles = (
        "frequency plane of a 99 x 99 patch",
        "one wedge and its mirror image",
        "its curvelet in space",
    )
    for ax, title in zip((tiling, frequency, space), titles, strict=True):
        ax.set_title(title, loc="left", fontsize=11)
        ax.set(xlabel="cycles across the patch", ylabel="cycles down the patch", aspect="equal")
    for ax in (tiling, frequency):
        ax.invert_yaxis()
    space.set(xlabel="trace", ylabel="sample")
    return drawing


def atom(frame, scale, angle):
    """The curvelet of one array at the middle of the patch."""
    coefficients = [[np.zeros(shape) for shape in shapes] for shapes in frame.shapes]
    rows, columns = frame.shapes[scale][angle]
    coefficients[scale][angle][rows // 2, columns // 2] = 1
    return frame.adjoint(coefficients)


def spectrum(frame, scale, angle):
    """Window of one array in the frequency plane, zero frequency in the middle, with its mirror image."""
    window = frame.windows[scale][angle]
    plane = np.zeros(SHAPE[0] * SHAPE[1])
    support = window.weight != 0
    plane[window.source[support]] = np.abs(window.weight[support])
    plane = np.fft.fftshift(plane.reshape(SHAPE))
    return np.maximum(plane, plane[::-1, ::-1])
