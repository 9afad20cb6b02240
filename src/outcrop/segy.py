"""SEG-Y: geometry from the headers, regular or not; traces read lazily; files written whole or not at all."""

import contextlib
import json
import os
import textwrap
import tomllib
import uuid
from pathlib import Path

import numpy as np

TEXT_SIZE, BINARY_SIZE, HEADER_SIZE = 3200, 400, 240

# Sample formats of the SEG-Y standard by code; 1 is IBM floating point, which NumPy knows only as bits.
FORMATS = {1: "u4", 2: "i4", 3: "i2", 5: "f4", 6: "f8", 8: "i1", 9: "i8", 10: "u4", 11: "u2", 12: "u8", 16: "u1"}

# First byte (counted from 1, as in the standard) and type of the header words in use.
BINARY_WORDS = {
    "interval": (3217, "u2"),
    "samples": (3221, "u2"),
    "format": (3225, "i2"),
    "sorting": (3229, "i2"),
    "units": (3255, "i2"),
    "revision": (3501, "u1"),
    "fixed_length": (3503, "i2"),
    "extended_text": (3505, "i2"),
}
TRACE_WORDS = {
    "line_sequence": (1, "i4"),
    "file_sequence": (5, "i4"),
    "record": (9, "i4"),
    "cdp": (21, "i4"),
    "identification": (29, "i2"),
    "scalar": (71, "i2"),
    "source_x": (73, "i4"),
    "source_y": (77, "i4"),
    "coordinate_units": (89, "i2"),
    "delay": (109, "i2"),
    "samples": (115, "u2"),
    "interval": (117, "u2"),
    "cdp_x": (181, "i4"),
    "cdp_y": (185, "i4"),
    "inline": (189, "i4"),
    "crossline": (193, "i4"),
}
DEAD = 2


def words_dtype(words, *, first, size, order=">"):
    """NumPy type of a header of `size` bytes with some words named; byte 0 is the standard's byte `first`."""
    return np.dtype(
        {
            "names": list(words),
            "formats": [order + kind for _, kind in words.values()],
            "offsets": [byte - first for byte, _ in words.values()],
            "itemsize": size,
        }
    )


def ibm_bits(x):
    """Bits of the IBM single-precision numbers nearest to `x`; NaN, which IBM cannot say, becomes 0.

    Notes
    -----
    A number is ``sign * fraction / 2**24 * 16**(exponent - 64)`` with 24 bits of fraction and 7 of exponent.

    Examples
    --------
    >>> [hex(bits) for bits in ibm_bits(np.array([1.0, -118.625, 0.0]))]
    ['0x41100000', '0xc276a000', '0x0']
    """
    x = np.asarray(x, np.float64)
    mantissa, exponent = np.frexp(np.clip(np.nan_to_num(x, posinf=np.inf, neginf=-np.inf), -7.2e75, 7.2e75))
    exponent16 = -(-exponent // 4)
    fraction = np.rint(np.ldexp(np.abs(mantissa), 24 + exponent - 4 * exponent16)).astype(np.uint32)
    carry = fraction >> 24  # rounded up to 2**24
    exponent16 = exponent16 + carry + 64
    bits = (x < 0).astype(np.uint32) << 31 | exponent16.astype(np.uint32) << 24 | fraction >> 4 * carry
    return np.where((fraction == 0) | (exponent16 < 0), 0, bits).astype(np.uint32)


def encode(x, *, format, order=">"):
    """Samples as a SEG-Y format stores them: IBM bits, or rounded and clipped where the format is an integer.

    Examples
    --------
    >>> encode([0.4, 3.6, -900.0], format=8)
    array([   0,    4, -128], dtype=int8)
    """
    kind = np.dtype(order + FORMATS[format])
    if format == 1:
        return ibm_bits(x).astype(kind)
    if kind.kind == "f":
        return np.asarray(x).astype(kind)
    limits = np.iinfo(kind)
    return np.clip(np.rint(np.nan_to_num(np.asarray(x, np.float64))), limits.min, limits.max).astype(kind)


def text_header(text):
    """Text as the 3200 EBCDIC bytes (40 lines of 80 characters) that open a SEG-Y file.

    Examples
    --------
    >>> text_header("Label volume").decode("cp037")[:15]
    'C 1 Label volum'
    """
    lines = [part for line in text.splitlines() for part in textwrap.wrap(line, 75) or [""]]
    if len(lines) > 38:
        raise ValueError(f"The text header needs {len(lines)} lines of 75 characters; shorten it to 38.")
    lines += [""] * (38 - len(lines)) + ["SEG Y REV1", "END TEXTUAL HEADER"]
    card = "".join(f"C{number:2d} {line}".ljust(80) for number, line in enumerate(lines, 1))
    return card.encode("ascii", "replace").decode("ascii").encode("cp037")


@contextlib.contextmanager
def create(path, inlines, crosslines, times, *, bin_size=(25.0, 25.0), text="", format=5):
    """Write a SEG-Y file inline by inline; it appears under its name only when it is whole.

    Parameters
    ----------
    path : path
        File to make; one of that name is replaced on success and left alone on failure.
    inlines, crosslines : array of int
        Survey labels of the lines.
    times : array, shape (n_sample,)
        Two-way time of the samples in ms, evenly spaced, beginning at a whole millisecond.
    bin_size : (float, float)
        Metres between neighbouring inlines and between neighbouring crosslines.
    text : str
        Lines of the text header.
    format : int
        SEG-Y sample format: 5 IEEE float, 1 IBM float, 2, 3 and 8 integers of 32, 16 and 8 bits.

    Yields
    ------
    write : callable
        ``write(row, section)`` stores inline number `row`, shape (n_crossline, n_sample), in any order. A trace that
        is NaN throughout is marked dead.
    """
    inlines, crosslines, times = np.asarray(inlines), np.asarray(crosslines), np.asarray(times, np.float64)
    interval = check_times(times)
    if format not in FORMATS:
        raise ValueError(f"SEG-Y format is {format}; choose one of {', '.join(map(str, FORMATS))}.")
    binary = np.zeros(1, words_dtype(BINARY_WORDS, first=TEXT_SIZE + 1, size=BINARY_SIZE))
    for name, value in {
        "interval": interval,
        "samples": len(times),
        "format": format,
        "sorting": 4,
        "units": 1,
    }.items():
        binary[name] = value
    binary["revision"] = binary["fixed_length"] = 1
    header = words_dtype(TRACE_WORDS, first=1, size=HEADER_SIZE)
    line = np.zeros(len(crosslines), [("header", header), ("samples", ">" + FORMATS[format], len(times))])
    fill_headers(line["header"], crosslines, bin_size=bin_size, delay=times[0], interval=interval, n_samples=len(times))
    written = np.zeros(len(inlines), bool)

    with whole_file(path) as file:
        file.write(text_header(text) + binary.tobytes())

        def write(row, section):
            section = np.asarray(section)
            if section.shape != line["samples"].shape:
                raise ValueError(f"Section {row} has shape {section.shape}; it must be {line['samples'].shape}.")
            dead = np.isnan(section).all(1)
            number = 1 + row * len(crosslines) + np.arange(len(crosslines))
            line["header"]["line_sequence"] = line["header"]["file_sequence"] = number
            line["header"]["record"] = line["header"]["inline"] = inlines[row]
            line["header"]["identification"] = np.where(dead, DEAD, 1)
            line["header"]["cdp_y"] = line["header"]["source_y"] = round(row * bin_size[0] * 100)
            line["samples"] = encode(np.where(dead[:, None], 0, section), format=format)
            file.seek(TEXT_SIZE + BINARY_SIZE + row * line.nbytes)
            file.write(line.tobytes())
            written[row] = True

        yield write
        if not written.all():
            raise ValueError(
                f"{path}: {np.sum(~written)} of {len(written)} inlines were never written; write every row."
            )


def check_times(times):
    """Sample interval in whole microseconds of evenly spaced times in ms that SEG-Y headers can hold."""
    interval = round(1000 * (times[-1] - times[0]) / (len(times) - 1)) if len(times) > 1 else 4000
    even = np.allclose(times, times[0] + np.arange(len(times)) * interval / 1000, rtol=0, atol=1e-3)
    if not even or not 0 < interval < 65536 or len(times) > 65535 or times[0] != np.int16(times[0]):
        raise ValueError(
            f"{len(times)} times from {times[0]} ms every {interval} us do not fit SEG-Y headers; "
            "give at most 65535, evenly spaced by 1 to 65535 us, from a whole millisecond."
        )
    return interval


def fill_headers(headers, crosslines, *, bin_size, delay, interval, n_samples):
    """Set what the trace headers of every inline have in common."""
    headers["crossline"] = headers["cdp"] = crosslines
    headers["scalar"] = -100  # coordinates in centimetres
    headers["coordinate_units"] = 1
    headers["cdp_x"] = headers["source_x"] = np.rint(np.arange(len(crosslines)) * bin_size[1] * 100)
    headers["delay"], headers["interval"], headers["samples"] = delay, interval, n_samples


@contextlib.contextmanager
def whole_file(path):
    """Open a file for writing beside `path` and rename it to `path` on a clean exit, remove it on an exception."""
    path = Path(path)
    aside = path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}.part")
    try:
        with open(aside, "xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(aside, path)
    finally:
        aside.unlink(missing_ok=True)


def class_table_path(path):
    """Name of the class table that lies beside a SEG-Y file."""
    return Path(f"{path}.classes.toml")


def write_class_table(path, classes):
    """Write the names of the codes in a label SEG-Y beside it; code 0 always means uncertain.

    Parameters
    ----------
    path : path
        The SEG-Y file; the table becomes ``path + ".classes.toml"``.
    classes : dict of int to str, or list of str
        Name by code; in a list code i + 1 means ``classes[i]``.
    """
    table = classes if isinstance(classes, dict) else dict(enumerate(classes, 1))
    rows = [f"{int(code)} = {json.dumps(str(name), ensure_ascii=False)}\n" for code, name in table.items()]
    with whole_file(class_table_path(path)) as file:
        file.write(
            (
                "# Codes in " + Path(path).name + "; 0 is uncertain, or nothing said.\n[classes]\n" + "".join(rows)
            ).encode()
        )


def read_class_table(path):
    """Names of the codes in a label SEG-Y, by code from 1 on, from the table beside it.

    Returns
    -------
    classes : dict of int to str
        Empty where no table lies beside the file.
    """
    table = class_table_path(path)
    try:
        classes = tomllib.loads(table.read_text("utf-8"))["classes"]
        return {int(code): str(name) for code, name in sorted(classes.items(), key=lambda item: int(item[0]))}
    except FileNotFoundError:
        return {}
    except (KeyError, AttributeError, ValueError) as error:
        raise ValueError(
            f'{table} is not a class table ({error}); write lines such as 1 = "fault" under [classes].'
        ) from None
