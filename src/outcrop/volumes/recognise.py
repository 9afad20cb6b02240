"""Formats of files, recognised by their first bytes; an unsupported format is refused with its name and a remedy."""

import os
import re
import struct
from pathlib import Path
from typing import NoReturn

from outcrop.volumes import zgy

OPENING = 4096  # bytes that are read from the start of a file
HDF5 = b"\x89HDF\r\n\x1a\n"

# First bytes of files by format.
OPENINGS = {
    zgy.MAGIC: "ZGY",
    b"\x93NUMPY": "NumPy",
    b"VCS\0": "old ZGY",
    b"HueDataStore": "VDS",
    b"MATLAB 5.0": "MAT",
    b"dGB": "CBVS",
    **dict.fromkeys((b"CDF\x01", b"CDF\x02", b"CDF\x05"), "netCDF"),
    **dict.fromkeys((b"PK\x03\x04", b"\x1f\x8b", b"BZh", b"7z\xbc\xaf\x27\x1c", b"\xfd7zXZ\0"), "archive"),
}

# Name of an unsupported format and remedy; {path} is the file, {stem} its name without suffix.
REMEDIES = {
    "VDS": ("a VDS file (Bluware, OpenVDS)", "write it as SEG-Y with OpenVDS: SEGYExport --vdsfile {path} {stem}.sgy"),
    "SGZ": ("an SGZ file (seismic-zfp)", "write it as SEG-Y with seismic-zfp: seismic-zfp sgz2sgy {path} {stem}.sgy"),
    "old ZGY": ("a compressed ZGY file of the old kind (VCS)", "export it from Petrel as SEG-Y or as plain ZGY"),
    "CBVS": ("a CBVS file (OpendTect)", "export it from OpendTect as SEG-Y"),
    "HDF5": (
        "an HDF5 file",
        "save its array: numpy.save('{stem}.npy', h5py.File('{path}')['NAME']), or write it as Zarr",
    ),
    "netCDF": ("a netCDF file", "write it as Zarr: xarray.open_dataset('{path}').to_zarr('{stem}.zarr')"),
    "MAT": ("a MATLAB file", "save its array: numpy.save('{stem}.npy', scipy.io.loadmat('{path}')['NAME'])"),
    "MAT 7.3": (
        "a MATLAB file of version 7.3, which is HDF5 inside",
        "save its array: numpy.save('{stem}.npy', h5py.File('{path}')['NAME'][:].T)",
    ),
    "NPZ": (
        "an archive of NumPy arrays",
        "save the array of the volume: numpy.save('{stem}.npy', numpy.load('{path}')['NAME'])",
    ),
    "archive": ("an archive", "unpack it first"),
}

# Commands that copy a file from a remote store, by scheme; only Zarr is read without a copy.
COPIES = {
    "s3": "aws s3 cp",
    "gs": "gcloud storage cp",
    "http": "curl -O",
    "https": "curl -O",
    "az": "azcopy copy",
    "abfs": "azcopy copy",
    "sd": "sdutil cp",
}


def recognise(path: str | Path) -> str | None:
    """Return the name of the format of a file by its first bytes; None if it may be SEG-Y.

    Parameters
    ----------
    path : path

    Returns
    -------
    name : {"ZGY", "NumPy", None} or a key of `REMEDIES`
        A key of `REMEDIES` is a format that Outcrop does not read.
    """
    with open(path, "rb") as file:
        opening = file.read(OPENING)
    kind = Path(path).suffix.lower()
    if any(opening[place:].startswith(HDF5) for place in (0, 512, 1024, 2048)):
        return {".mat": "MAT 7.3", ".nc": "netCDF", ".nc4": "netCDF"}.get(kind, "HDF5")
    found = next((name for magic, name in OPENINGS.items() if opening.startswith(magic)), None)
    if found == "archive" and kind == ".npz":
        return "NPZ"
    if found:
        return found
    if kind == ".mat":
        return "MAT"
    return "SGZ" if is_sgz(opening) else None


def is_sgz(opening: bytes) -> bool:
    """Return whether a file begins like an SGZ file, which seismic-zfp writes.

    Notes
    -----
    SGZ has no magic number, but each of its compressed blocks has 4096 bytes, which the numbers in its header confirm.
    These are little-endian integers: the number of header blocks at byte 0; the numbers of samples, crosslines and
    inlines from byte 4; bits per sample at byte 40 (-2 for one bit in two samples); the shape of a block from byte 44.
    """
    if len(opening) < 56:
        return False
    blocks, *sizes = struct.unpack_from("<4i", opening)
    bits, *shape = struct.unpack_from("<4i", opening, 40)
    if not 1 <= blocks <= 64 or min(*sizes, *shape) < 1 or bits == 0:
        return False
    rate = bits if bits > 0 else -1 / bits
    return bool(shape[0] * shape[1] * shape[2] * rate == 8 * 4096)


def refuse_foreign(path: str, name: str) -> NoReturn:
    """Raise `ValueError` for a file in an unsupported format `name`, a key of `REMEDIES`, with a remedy."""
    title, remedy = REMEDIES[name]
    stem = os.path.splitext(os.path.basename(path))[0]
    raise ValueError(f"{path} is {title}, which Outcrop does not read; {remedy.format(path=path, stem=stem)}.")


def refuse_remote(address: str) -> None:
    """Raise `ValueError` if the scheme or the suffix of an address shows that it is no Zarr store.

    Examples
    --------
    >>> refuse_remote("s3://bucket/survey.zarr")
    >>> refuse_remote("s3://bucket/survey.sgy")
    Traceback (most recent call last):
        ...
    ValueError: s3://bucket/survey.sgy is on a remote store (s3), from which Outcrop reads only Zarr and MDIO; ...
    """
    scheme, _, location = address.partition("://")
    scheme = scheme.lower()
    ending = Path(re.split(r"[?#]", location)[0].rstrip("/")).suffix.lower()
    if scheme == "file" and ending not in ("", ".zarr", ".mdio"):
        raise ValueError(f"{address} is a file on this machine; give its path without file://.")
    if ending in ("", ".zarr", ".mdio") and scheme != "sd":
        return
    how = COPIES.get(scheme)
    raise ValueError(
        f"{address} is on a remote store ({scheme}), from which Outcrop reads only Zarr and MDIO; copy it to this "
        f"machine first{f' ({how})' if how else ''}."
    )
