"""Published data: F3 sections, SEG 2017 patches and LANDMASS."""

import os
import re
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr
from scipy import io

from outcrop.datasets.section import CLASSES

Array = npt.NDArray[Any]
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


def f3_sections(folder: str | Path | None = None) -> tuple[xr.DataArray, xr.DataArray]:
    """Load four inlines of the Netherlands F3 survey and their expert labels.

    Parameters
    ----------
    folder : path, optional
        Folder with `61.bmp`, `211.bmp`, `231.bmp`, `281.bmp` and any of the label files `GT61.mat`, `GT211.mat`,
        `GT231.mat`, `GT281.mat`, or a folder with a sub-folder `f3_sections` that contains these files. By default the
        folder in the environment variable OUTCROP_DATA; if it is not set, the originals are downloaded once and checked
        by SHA-256.

    Returns
    -------
    sections : xarray.DataArray, shape (4, 951, 442)
        Amplitudes in [0, 1] on inlines 160, 310, 330, 380; crosslines start at 300, times at 84 ms (row 0 of the
        pictures is sample 20), with 4 ms per sample. The top-left corner of each picture contains a caption, above the
        first labelled time.
    labels : xarray.DataArray, shape (n_labelled, 951, 442)
        Expert label codes (uint8; `attrs["classes"][code - 1]` is the class name) of the inlines with a label file.
        Crosslines and times are those of `sections`. Labels start at sample 124 (500 ms); above, the code is 0, `not
        labelled`.
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


def _f3_files(folder: str | Path | None) -> dict[str, Path]:
    """Return the paths of the available F3 files by name; raise a FileNotFoundError if a picture is missing."""
    folder = folder or os.environ.get("OUTCROP_DATA")
    if not folder:
        return {name: _download(name) for name in F3_SHA256}
    folder = Path(folder)
    if (folder / "f3_sections").is_dir():
        folder = folder / "f3_sections"
    missing = [name for name in F3_PICTURES.values() if not (folder / name).is_file()]
    if missing:
        raise FileNotFoundError(
            f"{folder} lacks {', '.join(missing)}; give the path of the folder that contains the F3 pictures."
        )
    return {name: folder / name for name in F3_SHA256 if (folder / name).is_file()}


def _download(name: str) -> Path:
    import pooch

    try:
        url = F3_URL + name
        return Path(pooch.retrieve(url, f"sha256:{F3_SHA256[name]}", fname=name, path=pooch.os_cache("outcrop") / "f3"))
    except OSError as error:
        raise OSError(
            f"{name} of the F3 sections cannot be downloaded from {F3_URL} ({type(error).__name__}); "
            "name a folder with the files, or set OUTCROP_DATA."
        ) from error


def _picture(path: Path) -> Array:
    from PIL import Image

    with Image.open(path) as picture:
        return np.asarray(picture.convert("L"))


def _matrix(path: Path, variable: str) -> Array:
    """Read one array of a MATLAB file."""
    try:
        return np.asarray(io.loadmat(path, variable_names=[variable])[variable])
    except FileNotFoundError:
        raise
    except Exception as error:  # loadmat raises many kinds for a damaged file
        raise ValueError(
            f"{path} has no readable array {variable!r} ({error!r}); give a MATLAB file of version 7 or older."
        ) from error


def seg2017_patches(folder: str | Path | None = None) -> xr.Dataset:
    """Load the 2000 patches that the paper's retrieval returned on F3, with the authors' labels.

    Parameters
    ----------
    folder : path, optional
        Folder with `seg2017_patches.npz`, or with files as in the authors' repository (`results/imgs/img_N.mat` and
        `results/lbls/lbls_img_N.mat`, for all 2000 numbers N or some). By default the folder in the environment
        variable OUTCROP_DATA.

    Returns
    -------
    xarray.Dataset
        `image` (patch, row, column): amplitudes in [0, 1], with time down the rows. `weak` (patch): the class for which
        each patch was retrieved. `published` (patch, row, column): the authors' label codes, where
        `attrs["classes"][code - 1]` is the class name. The coordinate `patch` is the number N in the file names. From
        `seg2017_patches.npz`, the coordinates `inline`, `crossline` and `sample` give the first corner of each patch.
    """
    folder = folder or os.environ.get("OUTCROP_DATA")
    if not folder:
        raise FileNotFoundError(
            "The folder of the SEG 2017 patches is unknown; give its path, or set the environment variable "
            "OUTCROP_DATA."
        )
    folder = Path(folder)
    if (folder / "seg2017_patches.npz").is_file():
        return _seg2017_compact(folder / "seg2017_patches.npz")
    for root in (folder, folder / "seg2017"):
        if (root / "results" / "imgs").is_dir():
            return _seg2017_layout(root / "results")
    raise FileNotFoundError(f"{folder} has neither seg2017_patches.npz nor results/imgs; name another folder.")


def _seg2017_compact(path: Path) -> xr.Dataset:
    with np.load(path) as file:
        image = file["images"] * np.float32(file["scale"])
        where = {name: ("patch", file[name]) for name in ("inline", "crossline", "sample")}
        numbers = 1 + np.arange(len(image))
        return _seg2017(image, file["classes"], file["published_labels"], {"patch": numbers, **where})


def _seg2017_layout(results: Path) -> xr.Dataset:
    numbers = sorted(int(re.sub(r"\D", "", path.stem)) for path in results.glob("imgs/img_*.mat"))
    if not numbers:
        raise FileNotFoundError(f"{results / 'imgs'} has no file img_N.mat; name the folder of the repository.")
    image = [_matrix(results / "imgs" / f"img_{n}.mat", "img") for n in numbers]
    published = [_matrix(results / "lbls" / f"lbls_img_{n}.mat", "classifiedImage") for n in numbers]
    weak = np.array(CLASSES)[(np.array(numbers) - 1) // 500]
    return _seg2017(np.array(image, np.float32), weak, np.array(published, np.uint8), {"patch": numbers})


def _seg2017(image: Array, weak: Array, published: Array, coords: dict[str, Any]) -> xr.Dataset:
    dims = ("patch", "row", "column")
    return xr.Dataset(
        {"image": (dims, image, {"scaled": True}), "weak": ("patch", weak), "published": (dims, published)},
        coords,
        {"classes": list(CLASSES)},
    )


def landmass(folder: str | Path, *, scaling: str = "none") -> xr.Dataset:
    """Load LANDMASS patches and their classes from one folder of `.mat` files per class.

    Parameters
    ----------
    folder : path
        Folder with a sub-folder for each class that contains `.mat` files. Their variable `img` is an image: 99 x 99 in
        LANDMASS-1, 150 x 300 in LANDMASS-2.
    scaling : {"none", "range", "image"}
        ``none``: amplitudes as published, in [-1, 1]. ``range``: (x + 1) / 2, in [0, 1]. ``image``: each image scaled
        to [0, 1] from its smallest to its largest amplitude.

    Returns
    -------
    xarray.Dataset
        `image` (patch, row, column), float32, and `class` (patch), the folder name. Patches are sorted by folder and
        file name.
    """
    if scaling not in _SCALINGS:
        raise ValueError(f"scaling is {scaling!r}; choose one of {', '.join(_SCALINGS)}.")
    files = sorted(Path(folder).glob("*/*.mat"))
    names = [file.parent.name for file in files]
    if len(set(names)) < 2:
        raise ValueError(
            f"{folder} has .mat files of {len(set(names))} classes; give the path of a folder that contains at least "
            "two class folders."
        )
    images = [_matrix(file, "img").astype(np.float32) for file in files]
    sizes = sorted({image.shape for image in images})
    if len(sizes) > 1:
        raise ValueError(f"{folder} mixes images of sizes {sizes}; keep LANDMASS-1 and LANDMASS-2 in separate folders.")
    image = _SCALINGS[scaling](np.stack(images))
    attrs = {"scaled": scaling != "none", "range": [-1.0, 1.0] if scaling == "none" else [0.0, 1.0]}
    return xr.Dataset({"image": (("patch", "row", "column"), image, attrs), "class": ("patch", names)})


def _image_range(x: Array) -> Array:
    low, high = x.min((1, 2), keepdims=True), x.max((1, 2), keepdims=True)
    return np.asarray((x - low) / np.where(high > low, high - low, 1))


_SCALINGS = {"none": lambda x: x, "range": lambda x: (x + 1) / 2, "image": _image_range}
