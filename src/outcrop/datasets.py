"""Published data by name and sha256, and synthetic volumes with their truth."""

import functools
import os
import re
from pathlib import Path
from typing import NamedTuple

import numpy as np
import xarray as xr
from scipy import fft, io, ndimage, signal

from outcrop.parallel import map_blocks, n_cores
from outcrop.volumes import class_table, segy_headers, segy_write

F3_PICTURES = {160: "61.bmp", 310: "211.bmp", 330: "231.bmp", 380: "281.bmp"}
F3_LABELS = {160: "GT61.mat", 310: "GT211.mat", 330: "GT231.mat", 380: "GT281.mat"}
F3_CLASSES = ["other", "chaotic", "fault", "salt dome"]
F3_URL = (
    "https://raw.githubusercontent.com/olivesgatech/"
    "Multiresolution-Analysis-and-Learning-for-Computational-Seismic-Interpretation/"
    "56363a5983cac17bc2aede767410bf6d2f87c13c/LabelingCodes/Data/"
)
F3_SHA256 = {
    "61.bmp": "16a70deee862188eaa19b034c640fcd2445f1337e5c7a028a50615f46ce04284",
    "211.bmp": "a6dc803339841b2435830ff492dd4fbaca0e0221e8913d8c03595c8cd745fb24",
    "231.bmp": "dbc628735fb0f7801dd7ca0d63002473debf2a837c778194a20be674d9126fa2",
    "281.bmp": "f358e51c3521d5d72fb26b78f2303821746c430cf0742f1a567fb432eb012b30",
    "GT61.mat": "1dfaa5a9f006c7cb4df5c4547b838e8cb12807479167f1207b20f2df6fa0c109",
    "GT211.mat": "ba5a09d3bcc467ae5b3e538241654727e339b70489457729f191df4e9dbfebf9",
    "GT231.mat": "47f1cd2ee618a77d5baff18dd9e61eccab3d4b76e81c6ea2d7e52cb8ad139418",
    "GT281.mat": "475981cff77c1fcb2f43fc3e9102dfcf6fd2a002b6d80baa1616b39e1b5a945c",
}
CLASSES = ["chaotic", "other", "fault", "salt dome"]
CHAOTIC, OTHER, FAULT, SALT_DOME = 1, 2, 3, 4


def f3_sections(folder=None):
    """Four inlines of the Netherlands F3 survey and the expert's labels of them.

    Parameters
    ----------
    folder : path, optional
        Folder that holds `61.bmp`, `211.bmp`, `231.bmp`, `281.bmp` (or their parent `f3_sections`) and any of
        `GT61.mat`, `GT211.mat`, `GT231.mat`, `GT281.mat`. By default the environment variable OUTCROP_DATA; without
        it the originals are downloaded once and checked by sha256.

    Returns
    -------
    sections : xarray.DataArray, shape (4, 951, 442)
        Amplitudes in [0, 1] of inlines 160, 310, 330, 380 over crosslines from 300 and time in ms (4 ms a sample, row 0
        of the pictures is sample 20, so 84 ms). A caption is burnt into the top-left corner of each picture: it lies
        above the first labelled time.
    labels : xarray.DataArray, shape (n_labelled, 951, 442)
        Expert label of each pixel (uint8), `attrs["classes"][code - 1]` its name, for the inlines with a label file.
        Crosslines and times are those of `sections`, so `sections.sel(inline=labels.inline)` lies pixel on pixel; the
        expert starts at sample 124 (500 ms), and above it the label is 0: nothing said.
    """
    files = _f3_files(folder)
    pictures = np.stack([_picture(files[name]) for name in F3_PICTURES.values()])
    coords = {
        "crossline": 300 + np.arange(pictures.shape[2]),
        "time": 4.0 * (20 + np.arange(pictures.shape[1]) + 1),
    }
    dims = ("inline", "crossline", "time")
    sections = xr.DataArray(
        pictures.transpose(0, 2, 1).astype(np.float32) / 255,
        {"inline": list(F3_PICTURES), **coords},
        dims,
        name="amplitude",
        attrs={"scaled": True, "origin": "Netherlands F3, TNO / dGB, CC BY-SA"},
    )
    labelled = [inline for inline, name in F3_LABELS.items() if name in files]
    labels = xr.DataArray(
        np.zeros((len(labelled), *sections.shape[1:]), np.uint8),
        {"inline": np.array(labelled, int), **coords},
        dims,
        name="label",
        attrs={"classes": list(F3_CLASSES)},
    )
    for section, inline in zip(labels.values, labelled, strict=True):
        expert = _matrix(files[F3_LABELS[inline]], F3_LABELS[inline].removesuffix(".mat"))
        section[:, -expert.shape[0] :] = expert.T  # both end at the last sample of the picture
    return sections, labels


def _f3_files(folder):
    """Path of every F3 file at hand by name; all four pictures are there."""
    folder = folder or os.environ.get("OUTCROP_DATA")
    if not folder:
        return {name: _download(name) for name in F3_SHA256}
    folder = Path(folder)
    if (folder / "f3_sections").is_dir():
        folder = folder / "f3_sections"
    missing = [name for name in F3_PICTURES.values() if not (folder / name).is_file()]
    if missing:
        raise FileNotFoundError(f"{folder} lacks {', '.join(missing)}; name the folder that holds the F3 pictures.")
    return {name: folder / name for name in F3_SHA256 if (folder / name).is_file()}


def _download(name):
    import pooch

    try:
        url = F3_URL + name
        return Path(pooch.retrieve(url, f"sha256:{F3_SHA256[name]}", fname=name, path=pooch.os_cache("outcrop") / "f3"))
    except OSError as error:
        raise OSError(
            f"{name} of the F3 sections cannot be downloaded from {F3_URL} ({type(error).__name__}); "
            "name a folder that holds the files, or set OUTCROP_DATA."
        ) from error


def _picture(path):
    from PIL import Image

    with Image.open(path) as picture:
        return np.asarray(picture.convert("L"))


def _matrix(path, variable):
    """One array of a MATLAB file."""
    try:
        return io.loadmat(path, variable_names=[variable])[variable]
    except FileNotFoundError:
        raise
    except Exception as error:  # loadmat leaks many kinds for a damaged file
        raise ValueError(
            f"{path} gives no array {variable!r} ({error!r}); it needs a MATLAB file of version 7 or older."
        ) from error


def seg2017_patches(folder=None):
    """The 2000 patches that the paper's retrieval returned on F3, with the authors' labels.

    Parameters
    ----------
    folder : path, optional
        Folder with `seg2017_patches.npz`, or with the repository's own layout (`results/imgs/img_N.mat`,
        `results/lbls/lbls_img_N.mat`, any of the 2000). By default the environment variable OUTCROP_DATA.

    Returns
    -------
    xarray.Dataset
        `image` (patch, row, column) in [0, 1], rows downwards in time; `weak`, the class each patch was retrieved for;
        `published`, the authors' pixel labels, `attrs["classes"][code - 1]` the name of each. `patch` is the number in
        the authors' file names. The compact file also has positions: `inline`, first `crossline`, first `sample`.
    """
    folder = folder or os.environ.get("OUTCROP_DATA")
    if not folder:
        raise FileNotFoundError("No folder of the SEG 2017 patches is known; name one, or set OUTCROP_DATA.")
    folder = Path(folder)
    if (folder / "seg2017_patches.npz").is_file():
        return _seg2017_compact(folder / "seg2017_patches.npz")
    for root in (folder, folder / "seg2017"):
        if (root / "results" / "imgs").is_dir():
            return _seg2017_layout(root / "results")
    raise FileNotFoundError(f"{folder} holds neither seg2017_patches.npz nor results/imgs; name the folder that does.")


def _seg2017_compact(path):
    with np.load(path) as file:
        image = file["images"] * np.float32(file["scale"])
        where = {name: ("patch", file[name]) for name in ("inline", "crossline", "sample")}
        numbers = 1 + np.arange(len(image))
        return _seg2017(image, file["classes"], file["published_labels"], {"patch": numbers, **where})


def _seg2017_layout(results):
    numbers = sorted(int(re.sub(r"\D", "", path.stem)) for path in results.glob("imgs/img_*.mat"))
    if not numbers:
        raise FileNotFoundError(f"{results / 'imgs'} holds no img_N.mat; name the folder of the repository.")
    image = [_matrix(results / "imgs" / f"img_{n}.mat", "img") for n in numbers]
    published = [_matrix(results / "lbls" / f"lbls_img_{n}.mat", "classifiedImage") for n in numbers]
    weak = np.array(CLASSES)[(np.array(numbers) - 1) // 500]
    return _seg2017(np.array(image, np.float32), weak, np.array(published, np.uint8), {"patch": numbers})


def _seg2017(image, weak, published, coords):
    dims = ("patch", "row", "column")
    return xr.Dataset(
        {"image": (dims, image, {"scaled": True}), "weak": ("patch", weak), "published": (dims, published)},
        coords,
        {"classes": list(CLASSES)},
    )


def landmass(folder, *, scaling="none"):
    """LANDMASS patches and their classes, from one folder of `.mat` files per class.

    Parameters
    ----------
    folder : path
        Folder whose sub-folders are the classes, each with `.mat` files of a variable `img`: 99 x 99 in LANDMASS-1,
        150 x 300 in LANDMASS-2.
    scaling : {"none", "range", "image"}
        Amplitudes as published, in [-1, 1]; or in [0, 1] by the common (x + 1) / 2; or each image stretched from its
        own smallest to its own largest amplitude.

    Returns
    -------
    xarray.Dataset
        `image` (patch, row, column), float32, and the name of its `class`, folders and files in order of name.
    """
    if scaling not in _SCALINGS:
        raise ValueError(f"scaling is {scaling!r}; choose one of {', '.join(_SCALINGS)}.")
    files = sorted(Path(folder).glob("*/*.mat"))
    names = [file.parent.name for file in files]
    if len(set(names)) < 2:
        raise ValueError(
            f"{folder} holds .mat files of {len(set(names))} classes; name the folder of two or more class folders."
        )
    images = [_matrix(file, "img").astype(np.float32) for file in files]
    sizes = sorted({image.shape for image in images})
    if len(sizes) > 1:
        raise ValueError(
            f"{folder} mixes images of sizes {sizes}; keep LANDMASS-1 and LANDMASS-2 in folders of their own."
        )
    image = _SCALINGS[scaling](np.stack(images))
    attrs = {"scaled": scaling != "none", "range": [-1.0, 1.0] if scaling == "none" else [0.0, 1.0]}
    return xr.Dataset({"image": (("patch", "row", "column"), image, attrs), "class": ("patch", names)})


def _own_range(x):
    low, high = x.min((1, 2), keepdims=True), x.max((1, 2), keepdims=True)
    return (x - low) / np.where(high > low, high - low, 1)


_SCALINGS = {"none": lambda x: x, "range": lambda x: (x + 1) / 2, "image": _own_range}


# Synthetic volumes. A line is made backwards: for every sample of today's section `age` is the depth, in samples, at
# which its rock was laid down. Folds, salt and faults each change it, the impedance log is read at it, and the
# reflectivity of what was read meets the wavelet. Lengths are samples and traces: a larger survey has more structures,
# not larger ones. A line depends on the shape, the seed and its number alone, so lines may be made in any order.

STEP = 4.0  # ms
BIN_SIZE = (25.0, 25.0)  # m
_LEVEL = 256  # samples from one chaotic band to the next
_TILE = (150, 220)  # lines and traces that share a salt dome and a fault zone
_KNOT = 64  # samples between horizons that are folded independently
_LOG, _DEBRIS = 4096, 512  # samples of the impedance log, of which the last part is what chaotic bands are made of
_FINE = 32  # readings of the log per sample
_MOVED = 200  # samples that are more than a band's half thickness and all that folds, salt and faults move it
_REACH = 45  # traces from a fault plane to undisturbed layers
_HALF = 20  # half the wavelet, in samples
_PLANE = 4  # lines between independent planes of random texture


class _Band(NamedTuple):
    sample: float
    thickness: float
    unconformity: float
    shift: float
    tilt: float


class _Dome(NamedTuple):
    line: float
    trace: float
    top: float
    radius: float
    height: float
    uplift: float
    phase: float


class _Fault(NamedTuple):
    line: float
    trace: float
    sample: float
    strike: float  # traces a line
    dip: float  # traces a sample; the hanging wall is on the side to which the plane leans
    listric: float  # traces a sample squared
    throw: float
    length: float
    height: float


class _Earth(NamedTuple):
    shape: tuple
    seed: int
    bands: list
    domes: list
    faults: list
    log: np.ndarray
    rafts: np.ndarray
    facies: np.ndarray
    fold: np.ndarray
    tilt: np.ndarray
    rough: np.ndarray
    knots: list


def synthetic(shape=(120, 200, 256), *, seed=0):
    """A synthetic seismic volume and the truth about every sample of it.

    Folded layers of varying thickness over an unconformity, a chaotic band, a zone of dipping normal faults, and a salt
    dome that pierces the layers and drags them up; larger surveys have more of each.

    Parameters
    ----------
    shape : (int, int, int)
        Number of inlines, crosslines and samples. A survey of 60 x 160 x 200 or more holds every class.
    seed : int
        The same seed and shape give the same volume.

    Returns
    -------
    volume : xarray.DataArray, shape (n_inline, n_crossline, n_sample)
        Amplitudes, float32, standard deviation about 2000, 4 ms and 25 m x 25 m.
    truth : xarray.DataArray, shape (n_inline, n_crossline, n_sample)
        Label of every sample, uint8; `attrs["classes"][code - 1]` is its name. `fault` is the disturbed zone within 10
        traces of a plane, `salt dome` the whole body.

    Examples
    --------
    >>> volume, truth = synthetic((2, 60, 80), seed=1)
    >>> volume.sizes["time"], float(volume.time[1]), truth.attrs["classes"][0]
    (80, 4.0, 'chaotic')
    """
    axes = _axes(shape)
    volume = xr.DataArray(np.empty(shape, np.float32), axes, name="amplitude", attrs={"bin_size": BIN_SIZE})
    truth = xr.DataArray(np.empty(shape, np.uint8), axes, name="label", attrs={"classes": list(CLASSES)})
    for row, (section, labels) in enumerate(synthetic_lines(shape, seed=seed)):
        volume.values[row], truth.values[row] = section, labels
    return volume, truth


def write_synthetic(path, shape, *, seed=0, progress=None):
    """Stream a synthetic volume to SEG-Y, and its truth beside it as OUT.truth.sgy with the names of the classes.

    Parameters
    ----------
    path : path
        SEG-Y file to write, `OUT.sgy`.
    shape, seed
        As in `synthetic`, which makes the same samples; memory holds a few lines whatever the number of inlines.
    progress : callable, optional
        Called as ``progress(lines_done, n_inline)`` after every line.

    Returns
    -------
    truth_path : pathlib.Path
    """
    axes = _axes(shape)
    path = Path(path)
    truth_path = path.with_suffix(".truth.sgy")
    text = f"Synthetic volume made by Outcrop, shape {tuple(shape)}, seed {seed}"
    with (
        segy_write.create(path, *axes.values(), bin_size=BIN_SIZE, text=text) as write,
        segy_write.create(
            truth_path, *axes.values(), bin_size=BIN_SIZE, text=text + ": truth", format=8
        ) as write_truth,
    ):
        for row, (section, labels) in enumerate(synthetic_lines(shape, seed=seed)):
            write(row, section)
            write_truth(row, labels)
            if progress is not None:
                progress(row + 1, shape[0])
        class_table.write_class_table(truth_path, CLASSES)  # the volume appears last: where it is, all is
    return truth_path


def synthetic_seed(path):
    """Seed of a volume or truth that `write_synthetic` wrote; None for any other file, or none.

    The text header holds it: ``Synthetic volume made by Outcrop, shape (120, 200, 256), seed 0``.
    """
    if not os.path.isfile(path):
        return None
    with open(path, "rb") as file:
        lines = segy_headers.decode_text(file.read(segy_headers.TEXT_SIZE)).splitlines()
    text = " ".join(" ".join(line[4:].strip() for line in lines).split())  # without "C 1 "; a long line is wrapped
    match = re.search(r"Synthetic volume made by Outcrop, shape \([\d, ]+\), seed (\d+)", text)
    return int(match[1]) if match else None


def synthetic_lines(shape, *, seed=0, rows=None):
    """Sections of a synthetic volume and their truth, one line after another, in any order and without the others.

    Parameters
    ----------
    shape, seed
        As in `synthetic`.
    rows : iterable of int, optional
        Positions of the inlines to make; all of them by default.

    Yields
    ------
    section, labels : array, shape (n_crossline, n_sample)
    """
    earth = _earth(tuple(shape), seed)
    plane = functools.lru_cache(maxsize=4 + n_cores())(functools.partial(_texture_plane, earth))
    middle, _ = _line(earth, shape[0] // 2, plane)
    gain = 2000 / np.sqrt(np.mean(middle**2))

    def make(row):
        section, labels = _line(earth, row, plane)
        return gain * section, labels

    yield from map_blocks(make, range(shape[0]) if rows is None else rows)


def synthetic_top(shape, *, seed=0):
    """Top of the salt of a synthetic volume, exactly and not by samples: the surface that its truth is cut from.

    Parameters
    ----------
    shape, seed
        As in `synthetic`.

    Returns
    -------
    top : xarray.DataArray, shape (n_inline, n_crossline)
        Time in ms; NaN where the salt lies below the last sample.
    """
    axes, earth = _axes(shape), _earth(tuple(shape), seed)
    traces = np.arange(shape[1], dtype=np.float32)[:, None]
    age = np.zeros((shape[1], 1), np.float32)
    samples = np.zeros(1, np.float32)
    depth = np.stack([_pierce(earth, row, traces, samples, age)[0][:, 0] for row in range(shape[0])])
    top = np.where(depth < shape[2] - 1, STEP * depth.astype(np.float64), np.nan)
    return xr.DataArray(top, {name: axes[name] for name in ("inline", "crossline")}, name="time")


def exemplars(truth, size=99, *, count=1, min_share=0.6, seed=0):
    """Centres of patches that show a class well, drawn from a truth volume for every class of its table.

    Parameters
    ----------
    truth : xarray.DataArray, shape (n_inline, n_crossline, n_sample)
        Labels, with the names of codes 1, 2, ... in `attrs["classes"]`.
    size : int or (int, int)
        Height and width of the patches, in samples and traces of an inline.
    count : int
        Patches per class, on different inlines where there are enough.
    min_share : float
        Share of the patch that is of the class, at least; of `other`, the background, nine tenths.

    Returns
    -------
    dict of str to list of (inline, crossline, time)

    Examples
    --------
    >>> truth = xr.DataArray(np.ones((1, 9, 9)), {"inline": [7], "crossline": range(9), "time": range(0, 36, 4)},
    ...                      attrs={"classes": ["salt dome"]})
    >>> exemplars(truth, 9)
    {'salt dome': [(7, 4, 16)]}
    """
    height, width = np.broadcast_to(size, 2).tolist()
    rng = np.random.default_rng(seed)
    found: dict[str, list] = {name: [] for name in truth.attrs["classes"]}
    axes = [truth[dim].values.tolist() for dim in truth.dims]
    for row in np.concatenate([rng.permutation(truth.sizes["inline"]) for _ in range(count)]):
        section = truth[row].values
        for code, (name, places) in enumerate(found.items(), 1):
            least = 0.9 if name == "other" else min_share
            starts = np.argwhere(_patch_means(section == code, (width, height)) >= least)
            if len(places) < count and len(starts):
                trace, sample = rng.choice(starts) + (width // 2, height // 2)
                places.append((axes[0][row], axes[1][trace], axes[2][sample]))
        if all(len(places) == count for places in found.values()):
            return found
    short = ", ".join(f"{len(places)} of {name}" for name, places in found.items() if len(places) < count)
    raise ValueError(
        f"{count} patches of {height} x {width} per class are asked for, but only {short} have a share of {min_share}; "
        "lower min_share or size."
    )


def _patch_means(mask, size):
    """Mean of every patch of a section that lies wholly inside, by its first corner."""
    total = np.pad(np.cumsum(np.cumsum(mask, 0), 1), ((1, 0), (1, 0)))
    a, b = size
    return (total[a:, b:] - total[:-a, b:] - total[a:, :-b] + total[:-a, :-b]) / (a * b)


def _axes(shape):
    if len(shape) != 3 or min(shape) < 1:
        raise ValueError(
            f"shape is {tuple(shape)}; give the number of inlines, crosslines and samples, each 1 or more."
        )
    return {
        "inline": 100 + np.arange(shape[0]),
        "crossline": 300 + np.arange(shape[1]),
        "time": STEP * np.arange(shape[2]),
    }


def _earth(shape, seed):
    """Everything that the lines of one synthetic survey share."""
    n_sample = shape[2]
    rng = np.random.default_rng([seed, 0])
    levels = max(1, round(n_sample / _LEVEL))
    height = n_sample / levels
    domes, faults = _structures(rng, shape[:2], levels, height)
    return _Earth(
        shape,
        seed,
        [_band(rng, level * height, height) for level in range(levels)],
        domes,
        faults,
        log=np.stack([_impedance_log(rng), 0.5 * _impedance_log(rng)]),
        rafts=(rng.uniform(0.4, 1, (2, 16)) * np.resize([-1, 1], 16)).astype(np.float32),
        facies=_waves(rng, 6, wavelength=(120, 400)),
        fold=_waves(rng, 6, wavelength=(200, 600)),
        tilt=_waves(rng, 2, wavelength=(350, 600)),
        rough=_waves(rng, 12, wavelength=(12, 45)),
        knots=[_waves(rng, 8, wavelength=(130, 450)) for _ in range(n_sample // _KNOT + 2)],
    )


def _band(rng, top, height):
    """A chaotic band and, below it, an unconformity that cuts tilted layers."""
    sample, thickness = top + rng.uniform(0.27, 0.33) * height, rng.uniform(62, 80)
    base = sample + thickness / 2
    return _Band(sample, thickness, base + rng.uniform(4, 15), shift=rng.uniform(0, _LOG), tilt=rng.uniform(12, 26))


def _structures(rng, shape, levels, height):
    """A salt dome on one side of every tile and fault zones on the other; some tiles of a large survey stay quiet."""
    tiles = [max(1, round(n / size)) for n, size in zip(shape, _TILE, strict=True)]
    lines, traces = (n / tile for n, tile in zip(shape, tiles, strict=True))
    domes: list[_Dome] = []
    faults: list[_Fault] = []
    for row, column in np.ndindex(*tiles):
        first = not domes
        line, trace = (row + 0.5) * lines, (column + 0.5) * traces
        aside = rng.choice([-0.26, 0.26]).item() * traces
        if first or rng.random() < 0.5:
            level = rng.integers(levels).item()
            domes.append(_dome(rng, line + rng.uniform(-0.1, 0.1) * lines, trace - aside, (level + 0.42) * height))
        for level in range(levels):
            if first or rng.random() < 0.6:
                faults += _fault_zone(rng, line, trace + aside, (level + 0.76) * height)
    return domes, faults


def _dome(rng, line, trace, top):
    scale, uplift, phase = rng.uniform(0.9, 1.15), rng.uniform(45, 65), rng.uniform(0, 2 * np.pi)
    return _Dome(line, trace, top + rng.uniform(-6, 6), 54 * scale, 140 * scale, uplift, phase)


def _fault_zone(rng, line, trace, sample):
    """Domino faults: normal faults side by side that lean the same way."""
    leaning, spacing = rng.choice([-1, 1]).item(), rng.uniform(22, 26)
    strike, dip = rng.uniform(-0.2, 0.2), leaning / rng.uniform(4.5, 8)
    return [
        _Fault(
            line + rng.uniform(-10, 10),
            trace + k * spacing + rng.uniform(-2.5, 2.5),
            sample + rng.uniform(-6, 6),
            strike + rng.uniform(-0.04, 0.04),
            dip * rng.uniform(0.9, 1.1),
            listric=leaning * rng.uniform(0, 6e-4),
            throw=rng.uniform(9, 16),
            length=rng.uniform(85, 110),
            height=rng.uniform(80, 95),
        )
        for k in (-1.5, -0.5, 0.5, 1.5)
    ]


def _impedance_log(rng):
    """Blocky logarithm of impedance by age: units of many beds, each unit with its own contrast and bedding."""
    log = np.empty((_LOG + _DEBRIS) * _FINE, np.float32)
    start = 0
    while start < _LOG + _DEBRIS:
        n = int(rng.uniform(25, 70))
        contrast, bed = ((0.45, 1.4), (2.5, 7)) if start < _LOG else ((0.7, 1.0), (2, 3.5))
        bases = np.cumsum(np.maximum(rng.exponential(rng.uniform(*bed), n), 1))
        beds = np.exp(rng.uniform(*np.log(contrast))) * np.clip(rng.standard_t(5, n), -3, 3) + rng.normal(0, 0.3)
        unit = beds[np.searchsorted(bases, np.arange(0, n, 1 / _FINE), side="right")]
        log[start * _FINE :][: n * _FINE] = unit[: len(log) - start * _FINE]
        start += n
    return ndimage.uniform_filter1d(log, _FINE)  # a sample sees the mean of its interval: no aliasing


def _waves(rng, n, *, wavelength):
    """Plane waves over the map in random directions: two wavenumbers (per line, per trace) and a phase each."""
    k, direction = 2 * np.pi / rng.uniform(*wavelength, n), rng.uniform(0, 2 * np.pi, n)
    return np.stack([k * np.cos(direction), k * np.sin(direction), rng.uniform(0, 2 * np.pi, n)])


def _relief(waves, row, traces):
    """Sum of plane waves along one line, with unit variance over the map, shape (n_crossline, 1)."""
    k_line, k_trace, phase = waves
    height = np.sqrt(2 / len(phase)) * np.cos(k_line * row + k_trace * traces + phase).sum(1, keepdims=True)
    return height.astype(np.float32)


def _line(earth, row, plane):
    """Amplitudes and truth of one line, both of shape (n_crossline, n_sample)."""
    n_crossline, n_sample = earth.shape[1:]
    traces, samples = np.arange(n_crossline, dtype=np.float32)[:, None], np.arange(n_sample + 1, dtype=np.float32)
    age = _fold(earth, row, traces, samples)
    salt, slope = _pierce(earth, row, traces, samples, age)
    faulted = _slip(earth, row, traces, samples, age)
    fine, coarse = _texture(row, plane)
    chaotic, buried = _bury(earth, row, traces, age, coarse)
    facies = _relief(earth.facies, row, traces)
    impedance = _impedance(earth, age + buried, facies, coarse, faulted=faulted, chaotic=chaotic)
    impedance = np.where(samples > salt, 1.2 * fine + 1.2 * coarse, impedance)
    truth = np.where(faulted, np.uint8(FAULT), np.uint8(OTHER))
    truth[chaotic] = CHAOTIC
    truth[samples > salt] = SALT_DOME
    section = _seismic(earth, row, np.diff(impedance, axis=1))
    _add_salt_face(section, salt, slope, coarse)
    return section, truth[:, :-1]


def _fold(earth, row, traces, samples):
    """Age under gentle folds between which layers thicken and thin."""
    apart = np.abs(samples - _KNOT * np.arange(len(earth.knots), dtype=np.float32)[:, None]) / _KNOT
    weights = np.cos(0.5 * np.pi * np.minimum(apart, 1)) ** 2
    reliefs = np.hstack([4 * _relief(knot, row, traces) for knot in earth.knots])
    return samples + 9 * _relief(earth.fold, row, traces) + reliefs @ weights


def _pierce(earth, row, traces, samples, age):
    """Lift the layers over and beside the domes, in place; returns depth and slope of the salt, (n_crossline, 1)."""
    salt, slope = np.full(traces.shape, 1e6, np.float32), np.zeros(traces.shape, np.float32)
    rough = 4 * _relief(earth.rough, row, traces)
    for dome in earth.domes:
        x, y = (row - dome.line) / dome.radius, (traces[:, 0] - dome.trace) / dome.radius
        near = np.hypot(x, y) < 4
        if near.any():
            y = y[near, None]
            angle = np.arctan2(x, y)
            outline = 1 + 0.1 * np.cos(2 * angle + dome.phase) + 0.06 * np.cos(3 * angle + 2 * dome.phase)
            rho = np.hypot(x, y) * outline
            ramp = np.clip((samples - dome.top + 140) / 160, 0, 1)
            lift = np.exp(-((rho / 0.95) ** 2)) - 0.25 * np.exp(-((rho / 1.9) ** 2))  # with a rim syncline
            age[near] += dome.uplift * lift * (ramp * ramp * (3 - 2 * ramp))
            surface = dome.top + dome.height * (rho**2.2 + (rho / 1.15) ** 12) + rough[near]
            steep = dome.height / dome.radius * (2.2 * rho**1.2 + 12 / 1.15 * (rho / 1.15) ** 11)
            slope[near] = np.where(surface < salt[near], steep, slope[near])
            salt[near] = np.minimum(salt[near], surface)
    return salt, slope


def _slip(earth, row, traces, samples, age):
    """Move the layers along the faults, in place; returns the disturbed zones around the planes as a mask."""
    zone = np.zeros(age.shape, bool)
    for fault in earth.faults:
        below = samples - fault.sample
        throw = fault.throw * (1 - ((row - fault.line) / fault.length) ** 2 - (below / fault.height) ** 2)
        live = np.flatnonzero(throw > 0)
        if len(live):
            below, throw = below[live], throw[live]
            plane = fault.trace + fault.strike * (row - fault.line) + (fault.dip + fault.listric * below) * below
            first, last = np.clip([plane.min() - _REACH, plane.max() + _REACH + 1], 0, len(traces)).astype(int)
            box = slice(first, last), slice(live[0], live[-1] + 1)
            distance = (traces[box[0]] - plane) * np.sign(fault.dip)
            away = np.abs(distance)
            drag = 1 - 0.3 * np.exp(-0.5 * away)
            slip = 0.5 * throw * np.clip(1 - away / _REACH, 0, 1) ** 2 * drag
            age[box] -= np.copysign(slip, distance)
            zone[box] |= (away <= 10) & (throw > 3)
    return zone


def _bury(earth, row, traces, age, coarse):
    """Mask of the chaotic bands, and how much deeper in the log the layers below each unconformity are read."""
    chaotic, buried = np.zeros(age.shape, bool), np.zeros(age.shape, np.float32)
    swell, tilt = 4 * _relief(earth.fold, -2 * row, 2 * traces), _relief(earth.tilt, row, traces)
    for band in earth.bands:
        around = slice(max(0, int(band.sample) - _MOVED), int(band.sample) + _MOVED)
        deeper = band.shift + band.tilt * tilt
        edge = age[:, around] + 2 * coarse[:, around] - band.sample
        chaotic[:, around] |= np.abs(edge) < band.thickness / 2 - swell
        buried[:, around] += (age[:, around] > band.unconformity) * deeper
        buried[:, around.stop :] += deeper
    return chaotic, buried


def _impedance(earth, age, facies, coarse, *, faulted, chaotic):
    """Impedance read from the log; in chaotic bands the layers lie in rafts, each displaced by itself."""
    raft = (8 + 1.5 * np.clip(coarse, -5, 5)).astype(np.int32)
    age += coarse * np.where(chaotic, np.float32(2), np.where(faulted, np.float32(0.9), np.float32(0.3)))
    age += chaotic * (5 * earth.rafts[0])[raft]
    index = ((age + _LOG) * _FINE).astype(np.int32)
    index = np.where(chaotic, _LOG * _FINE | index & (_DEBRIS * _FINE - 1), index & (_LOG * _FINE - 1))
    return (earth.log[0][index] + facies * earth.log[1][index]) * (1 + chaotic * (0.4 * earth.rafts[1])[raft])


def _texture(row, plane):
    """Fine and coarse random fields of unit variance along one line, coherent over a few lines."""
    first, f = divmod(row, _PLANE)
    f /= _PLANE
    spline = np.array([(1 - f) ** 3, 3 * f**3 - 6 * f**2 + 4, -3 * f**3 + 3 * f**2 + 3 * f + 1, f**3])
    weights = (spline / np.linalg.norm(spline)).astype(np.float32)
    return sum(weight * plane(first + k) for k, weight in enumerate(weights))


def _texture_plane(earth, number):
    rng = np.random.default_rng([earth.seed, 1, number])
    white = rng.standard_normal((earth.shape[1], earth.shape[2] + 1), dtype=np.float32)
    return np.stack([_smooth(white, 2.0, 2.2), _smooth(white, 3.6, 5.5)])


def _smooth(white, *sigmas):
    """White noise under a Gaussian, with unit variance again."""
    for axis, sigma in enumerate(sigmas):
        gain = np.float32(np.sqrt(2 * np.sqrt(np.pi) * sigma))
        white = gain * ndimage.gaussian_filter1d(white, sigma, axis, truncate=3)
    return white


def _seismic(earth, row, reflectivity):
    """Section of a line: band-limited noise, a wavelet that loses high frequencies with depth, lateral resolution."""
    n_sample = reflectivity.shape[1]
    rng = np.random.default_rng([earth.seed, 2, row])
    reflectivity += np.float32(0.2) * rng.standard_normal(reflectivity.shape, dtype=np.float32)
    padded = np.pad(reflectivity, ((1, 1), (0, 0)), mode="edge")
    reflectivity = 0.5 * reflectivity + 0.25 * (padded[:-2] + padded[2:])
    n = fft.next_fast_len(n_sample + 2 * _HALF, real=True)
    spectrum = fft.rfft(reflectivity, n, axis=1)
    near, far = (fft.irfft(spectrum * wavelet, n, axis=1)[:, _HALF : _HALF + n_sample] for wavelet in _wavelets(n))
    lost = (1 - np.exp(-np.arange(n_sample) * STEP / 2500)).astype(np.float32)
    return near + lost * (far - near)


def _add_salt_face(section, salt, slope, coarse):
    """Add the reflection of the salt face, in place; its wavelet is normal to the face, so a steep one is stretched."""
    samples = np.arange(section.shape[1], dtype=np.float32)
    near = np.flatnonzero(salt[:, 0] < len(samples) + 6 * _HALF)
    stretch = 1 + 0.2 * slope[near] ** 2
    argument = (0.12 * np.pi * (samples - salt[near])) ** 2 / stretch
    face = (1 - 2 * argument) * np.exp(-argument)
    section[near] += 2 * stretch**-0.25 * (1 + 0.4 * coarse[near, :-1]) * face


@functools.cache
def _wavelets(n):
    """Spectra of the wavelet at the surface and far below, 42 and 26 Hz, turned by 25 degrees, for n samples."""
    time = np.arange(-_HALF, _HALF + 1) * STEP / 1000
    argument = (np.pi * np.array([[42], [26]]) * time) ** 2
    wavelets = np.real(signal.hilbert((1 - 2 * argument) * np.exp(-argument)) * np.exp(-1j * np.deg2rad(25)))
    return fft.rfft(wavelets / np.linalg.norm(wavelets, axis=1, keepdims=True), n).astype(np.complex64)
