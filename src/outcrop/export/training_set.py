"""Write and read training sets: folders of labelled patches, whose splits train, val and test share no lines."""

import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import tomli_w
from xarray import DataArray, Dataset

import outcrop
from outcrop.export.colour_tables import code_colours
from outcrop.export.lines import LINES, new_folder, provenance_of, write_json
from outcrop.labels.named import named_labels
from outcrop.mapping.confidence import as_codes, labelled
from outcrop.patches.grid import DIRECTIONS, PatchGrid
from outcrop.retrieval.weak import WeakLabels
from outcrop.volumes.axes import positions_of
from outcrop.volumes.neighbours import lines_within

SPLITS = {"train": 0.7, "val": 0.15, "test": 0.15}
MOST_BLOCKS, DRAWS = 20, 1000  # largest number of blocks of lines; number of random assignments of blocks to splits


def export_training_set(
    labels: Dataset,
    folder: str | Path,
    *,
    volume: DataArray,
    grid: PatchGrid,
    weak: WeakLabels | None = None,
    format: str = "png",
    gap: int | None = None,
    seed: int = 0,
    provenance: dict[str, Any] | None = None,
) -> pd.DataFrame:
    """Write patches and masks for training a neural net; splits are blocks of lines with gaps between them.

    Parameters
    ----------
    labels : Dataset or DataArray
        As for `export_segy`, on the axes of the volume or on some of its lines.
    folder : path
        Folder to create, with ``images``, ``masks``, ``confidence`` (if the labels have it), ``manifest.csv`` and
        ``classes.toml``; if writing fails, it is not created.
    volume : DataArray
        Volume from which the images are cut.
    grid : PatchGrid
        Grid of the patches.
    weak : WeakLabels, optional
        Patches to export, with their class and similarity; by default all patches of the grid, each with the most
        frequent class of its mask.
    format : {"png", "npy"}
        Format of the images: 8-bit PNG, or .npy of float32 in [0, 1]. Masks and confidence are 8-bit in both formats.
    gap : int, optional
        Number of lines left out between patches of different splits; by default the number of lines within 250 m.
    seed : int
        Seed of the random split.
    provenance : dict, optional
        As for `export_segy`; it becomes ``provenance.json``.

    Returns
    -------
    manifest : DataFrame
        One row per patch: file (image), mask and weight (confidence), which are paths; class, similarity, confidence
        (mean over the labelled pixels, 0 to 1); inline, crossline and time or depth of the centre; along (direction of
        the section); split.

    Notes
    -----
    Masks hold code i + 1 for ``classes[i]``; training should ignore 0 (not labelled) and 255 (uncertain). Patches
    without a label, or with a missing trace, are left out. If there are too few lines for a split, all patches are
    ``train``.

    Examples
    --------
    >>> import tempfile
    >>> import outcrop as oc
    >>> volume, truth = oc.datasets.synthetic((2, 64, 80), seed=0)
    >>> grid = oc.PatchGrid(volume, size=32, step=16)
    >>> table = export_training_set(truth, f"{tempfile.mkdtemp()}/patches", volume=volume, grid=grid)
    >>> len(table), table["split"].unique().tolist()
    (24, ['train'])
    """
    labels = named_labels(labels)
    if format not in ("png", "npy"):
        raise ValueError(f"format is {format!r}; choose png or npy.")
    known, starts = _wanted_patches(grid, weak)
    first, last = _touched_lines(grid, starts)
    if gap is None:
        gap = lines_within(volume, "crossline" if grid.along == "crossline" else "inline")
    known["split"] = split_by_lines(first, last, known["class"], gap=gap, seed=seed)
    keep = np.lexsort(starts.T[::-1])  # in the order of the lines
    keep = keep[known["split"].to_numpy()[keep] != ""]
    known, starts = known.iloc[keep].reset_index(drop=True), starts[keep]
    with new_folder(folder) as aside:
        for name in ("images", "masks", *(["confidence"] if "confidence" in labels else [])):
            (aside / name).mkdir(parents=True)
        records, codes = {}, {}
        for number, image, mask, confidence in _labelled_patches(labels, volume, grid, starts):
            records[number] = _write_patch(aside, f"{number:06d}.{format}", image, mask, confidence)
            codes[number] = np.bincount(mask[labelled(mask)]).argmax()
        if not records:
            raise ValueError("None of these patches has a label; give labels of the lines on which they lie.")
        manifest = pd.DataFrame.from_dict(records, orient="index").join(known)
        if weak is None:
            manifest["class"] = [labels.attrs["classes"][code - 1] for code in codes.values()]
        place = ["inline", "crossline", labels["label"].dims[2], "along"]
        order = ["file", "mask", "weight", "class", "similarity", "confidence", *place, "split"]
        manifest = manifest[order].reset_index(drop=True)
        manifest.to_csv(aside / "manifest.csv", index=False)
        made = {"source": volume.attrs.get("source", ""), "gain": grid.gain, "clip": grid.clip, "size": list(grid.size)}
        made |= {"gap": int(gap), "seed": int(seed), "format": format, "version": outcrop.__version__}
        _write_classes(aside / "classes.toml", labels.attrs["classes"], code_colours(labels), made)
        if origin := provenance_of(labels, provenance):
            write_json(aside / "provenance.json", origin)
    return manifest


def _wanted_patches(grid: PatchGrid, weak: WeakLabels | None) -> tuple[pd.DataFrame, np.ndarray]:
    """Return (table of class, similarity and centre; start positions) of the patches to export.

    These are the patches of `weak`. If `weak` is None, they are all patches of the grid, without class and similarity.
    """
    if weak is None:
        return grid.table.assign(**{"class": "", "similarity": np.nan}), grid.starts
    known = {"class": weak.classes, "similarity": np.round(weak.similarity, 6)}
    return weak.positions.assign(**known), weak.starts


def _touched_lines(grid: PatchGrid, starts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the first and last line that each patch touches, as positions on one axis.

    It is the axis whose lines are divided into splits: crosslines if the grid has only crosslines, else inlines.
    """
    axis = int(grid.along == "crossline")
    direction, line, trace, _ = starts.T
    along = direction == axis  # a patch on a line of the other direction spans many lines
    return np.where(along, line, trace), np.where(along, line, trace + grid.size[1] - 1)


def split_by_lines(
    first: npt.ArrayLike, last: npt.ArrayLike, classes: Sequence[str], *, gap: int, seed: int = 0
) -> np.ndarray:
    """Return the split (train, val or test) of every patch: blocks of lines, with gaps between different splits.

    Parameters
    ----------
    first, last : array of int, shape (n,)
        Positions of the first and last line of each patch.
    classes : sequence, shape (n,)
        Classes of the patches.
    gap : int
        Number of lines between patches of different splits.
    seed : int
        Seed of 1000 random divisions into blocks. The division is used whose splits train, val and test are closest to
        70, 15 and 15 percent of each class.

    Returns
    -------
    split : array of str, shape (n,)
        Empty for patches in a gap; ``train`` for all patches if the lines are too few for three blocks.

    Examples
    --------
    >>> lines = np.arange(100)
    >>> split = split_by_lines(lines, lines, ["fault"] * 100, gap=5)
    >>> {str(name): int((split == name).sum()) for name in ("train", "val", "test", "")}
    {'train': 61, 'val': 14, 'test': 15, '': 10}
    """
    if gap < 0:
        raise ValueError(f"gap is {gap}; choose 0 lines or more.")
    first, last = np.asarray(first), np.asarray(last)
    codes, n_lines = pd.factorize(np.asarray(classes))[0], int(np.max(last) - np.min(first)) + 1
    most = min(MOST_BLOCKS, n_lines // (2 * gap + 1))
    if most < 3:
        return np.full(len(codes), "train")
    wanted = np.array(list(SPLITS.values())) * np.bincount(codes)[:, None]
    # Patches of one class on the same lines always get the same split, so they are counted as one.
    shape = (n_lines, n_lines, len(wanted))
    alike = np.ravel_multi_index((first - first.min(), last - first.min(), codes), shape)
    alike, block_of, weights = np.unique(alike, return_inverse=True, return_counts=True)
    first, last, codes = np.unravel_index(alike, shape)
    rng = np.random.default_rng(seed)
    best, least = block_of, np.inf
    for _ in range(DRAWS):
        lines = _draw_lines(rng, n_lines, int(rng.integers(3, most + 1)), gap)
        run = np.concatenate([[0], np.cumsum(np.diff(lines) != 0)])
        split = np.where(run[first] == run[last], lines[first], 3)
        count = np.bincount(4 * codes + split, weights, minlength=4 * len(wanted)).reshape(-1, 4)
        miss = np.sum((count[:, :3] / wanted - 1) ** 2)
        if miss < least:
            best, least = split, miss
    return np.array([*SPLITS, ""])[best[block_of]]


def _draw_lines(rng: np.random.Generator, n_lines: int, n_blocks: int, gap: int) -> np.ndarray:
    """Divide lines into random blocks; return the split of every line: 0 train, 1 val, 2 test, 3 in a gap."""
    shortest = 2 * gap + 1  # a block keeps more lines than its gaps remove
    blocks = rng.permutation(np.append([0, 1, 2], rng.choice(3, n_blocks - 3, p=list(SPLITS.values()))))
    spare = rng.multinomial(n_lines - n_blocks * shortest, rng.dirichlet(np.ones(n_blocks)))
    lines = np.repeat(blocks, shortest + spare)
    edges = np.cumsum(shortest + spare)[:-1]
    for edge in edges[np.diff(blocks) != 0]:
        lines[edge - gap // 2 : edge - gap // 2 + gap] = 3
    return lines


def _labelled_patches(
    labels: Dataset, volume: DataArray, grid: PatchGrid, starts: np.ndarray
) -> Iterator[tuple[int, np.ndarray, np.ndarray, np.ndarray | None]]:
    """Yield (row in `starts`, image, mask, confidence or None) for each patch that has a label.

    Lines are read block by block. Confidence is None if the labels have no confidence.
    """
    names = [name for name in ("label", "confidence") if name in labels]
    places = [
        positions_of(labels[name].values, axis) for name, axis in zip(labels["label"].dims, grid.axes, strict=True)
    ]
    _, block = np.unique(starts[:, :2] // (1, LINES), axis=0, return_inverse=True)
    for block_rows in (np.flatnonzero(block.ravel() == number) for number in range(block.max() + 1)):
        direction = starts[block_rows[0], 0]
        lines = np.unique(starts[block_rows, 1])
        lines = lines[places[direction][lines] >= 0]
        read = labels[names].isel({DIRECTIONS[direction]: places[direction][lines]}).load()
        for number, line in enumerate(lines):
            of_line = block_rows[starts[block_rows, 1] == line]
            sections = [read[name].isel({DIRECTIONS[direction]: number}).values for name in names]
            for i, image in zip(of_line, grid.cut(volume, starts[of_line]), strict=True):
                window = _window(places, starts[i], grid.size)
                masks = [as_codes(s[np.ix_(*window)]).T for s in sections if window]
                if masks and labelled(masks[0]).any() and np.isfinite(image).all():
                    yield i, image, masks[0], masks[1] if len(masks) > 1 else None


def _window(places: list[np.ndarray], start: np.ndarray, size: tuple[int, int]) -> tuple[np.ndarray, np.ndarray] | None:
    """Return the positions of a patch's traces and samples on the axes of the labels; None if one is missing."""
    direction, _, trace, top = start
    window = places[1 - direction][trace : trace + size[1]], places[2][top : top + size[0]]
    return window if min(window[0].min(), window[1].min()) >= 0 else None


def _write_patch(
    folder: Path, name: str, image: np.ndarray, mask: np.ndarray, confidence: np.ndarray | None
) -> dict[str, Any]:
    """Write the files of a patch, and return the patch's row of the manifest."""
    pixels = image if name.endswith(".npy") else np.round(255 * image).astype(np.uint8)
    files = {"file": ("images", pixels), "mask": ("masks", mask), "weight": ("confidence", confidence)}
    for subfolder, array in files.values():
        if array is not None:
            _save(folder / subfolder / name, array)
    record: dict[str, Any] = {key: f"{sub}/{name}" if array is not None else "" for key, (sub, array) in files.items()}
    record["confidence"] = np.nan if confidence is None else round(float(confidence[labelled(mask)].mean() / 255), 4)
    return record


def _save(path: Path, array: np.ndarray) -> None:
    if path.suffix == ".npy":
        np.save(path, np.asarray(array))
        return
    from PIL import Image

    Image.fromarray(np.ascontiguousarray(array)).save(path)


def _within(folder: Path, name: str) -> Path:
    """Return the path of a file named in a manifest; refuse paths outside the folder of the manifest."""
    path = folder / str(name)
    if not path.resolve().is_relative_to(folder.resolve()):
        raise ValueError(
            f"{folder / 'manifest.csv'} names {name!r}, outside its folder; correct the name or export the set again."
        )
    return path


def _load(path: Path) -> np.ndarray:
    if path.suffix == ".npy":
        return np.asarray(np.load(path, allow_pickle=False))
    from PIL import Image

    with Image.open(path) as picture:
        return np.asarray(picture)


def _write_classes(path: Path, classes: list[str], palette: dict[int, str], made: dict[str, Any]) -> None:
    """Write classes.toml: the names and colours of the mask codes, and the options of the export (`made`)."""
    tables: dict[str, Any] = {
        "classes": {str(code): name for code, name in enumerate(classes, 1)},
        "colours": {str(code): colour for code, colour in palette.items()},
        "made": {name: value for name, value in made.items() if value is not None},
    }
    path.write_text(
        "# Codes of the masks; 0 is not labelled and 255 uncertain: ignore both.\n" + tomli_w.dumps(tables),
        encoding="utf-8",
    )


def TrainingSet(folder: str | Path, split: str = "train") -> Any:
    """Open one split of a training set as a ``torch.utils.data.Dataset``.

    Parameters
    ----------
    folder : path
        Folder that `export_training_set` wrote.
    split : {"train", "val", "test"}
        Split to open.

    Returns
    -------
    torch.utils.data.Dataset
        Its items are (image, mask, weight). The image is float32 of shape (1, height, width) in [0, 1]. The mask is
        int64 of shape (height, width), with 0 for not labelled and 255 for uncertain. The weight is float32 of shape
        (height, width): the confidence of the labels, 0 where the mask is 0 or 255. The attribute ``classes`` lists the
        class names of the codes 1, 2, ...; ``manifest`` is the table of the patches.

    Examples
    --------
    >>> import tempfile
    >>> import outcrop as oc
    >>> volume, truth = oc.datasets.synthetic((2, 64, 80), seed=0)
    >>> grid = oc.PatchGrid(volume, size=32, step=16)
    >>> folder = f"{tempfile.mkdtemp()}/patches"
    >>> table = oc.export_training_set(truth, folder, volume=volume, grid=grid)
    >>> image, mask, weight = TrainingSet(folder)[0]
    >>> tuple(image.shape), tuple(mask.shape), tuple(weight.shape)
    ((1, 32, 32), (32, 32), (32, 32))
    """
    try:
        import torch
        from torch.utils.data import Dataset
    except ImportError:
        raise ImportError("TrainingSet needs PyTorch; install it with: pip install 'outcrop[torch]'.") from None

    class Patches(Dataset[Any]):
        def __init__(self) -> None:
            self.folder, (self.manifest, self.classes) = Path(folder), _read_manifest(folder, split)

        def __reduce__(self) -> tuple[Any, ...]:
            return TrainingSet, (folder, split)  # worker processes open the folder again

        def __len__(self) -> int:
            return len(self.manifest)

        def __getitem__(self, number: int) -> tuple[Any, Any, Any]:
            files = self.manifest.iloc[number]
            image, mask = (_load(_within(self.folder, files[name])) for name in ("file", "mask"))
            image = image / np.float32(255) if image.dtype == np.uint8 else image
            weight = files["weight"]
            confidence = _load(_within(self.folder, weight)) / np.float32(255) if weight else np.float32(1)
            weight = np.where(labelled(mask), confidence, 0).astype(np.float32)
            return torch.from_numpy(image[None]), torch.from_numpy(mask.astype(np.int64)), torch.from_numpy(weight)

    return Patches()


def _read_manifest(folder: str | Path, split: str) -> tuple[pd.DataFrame, list[str]]:
    """Read a training set; return (rows of the manifest that belong to `split`, class names of the codes 1, 2, ...)."""
    try:
        manifest = pd.read_csv(
            Path(folder) / "manifest.csv", keep_default_na=False, na_values={"similarity": "", "confidence": ""}
        )
        names = tomllib.loads((Path(folder) / "classes.toml").read_text(encoding="utf-8"))["classes"]
    except FileNotFoundError as error:
        raise ValueError(
            f"{folder} is not a training set: {error.filename} is missing; write one with `export_training_set`."
        ) from None
    chosen = manifest[manifest["split"] == split].reset_index(drop=True)
    if chosen.empty:
        have = ", ".join(f"{name} {count}" for name, count in manifest["split"].value_counts().items())
        raise ValueError(f"{folder} has no patches in split {split!r}; it has {have}.")
    return chosen, [names[str(code)] for code in range(1, len(names) + 1)]
