"""Headers and sample formats of the SEG-Y standard: positions of header words, decoding and encoding."""

import textwrap
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

TEXT_SIZE, BINARY_SIZE, HEADER_SIZE = 3200, 400, 240
# Sample formats of the SEG-Y standard by code; 1 is IBM floating point, read as bits.
FORMATS = {1: "u4", 2: "i4", 3: "i2", 5: "f4", 6: "f8", 8: "i1", 9: "i8", 10: "u4", 11: "u2", 12: "u8", 16: "u1"}
# First byte (counted from 1, as in the standard) and type of the header words in use.
BINARY_WORDS = {
    "interval": (3217, "u2"),
    "samples": (3221, "u2"),
    "format": (3225, "i2"),
    "sorting": (3229, "i2"),
    "units": (3255, "i2"),
    "long_samples": (3269, "u4"),
    "revision": (3501, "u1"),
    "fixed_length": (3503, "i2"),
    "extended_text": (3505, "i2"),
    "extensions": (3507, "u4"),
    "first_trace": (3521, "u8"),
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
DEAD = 2  # trace identification code
ENDIANS = {">": "big", "<": "little"}


def number_name(kind: npt.DTypeLike) -> str:
    """Return the name of a NumPy type of numbers, for instance ``integer, 16 bit`` for ``i2``."""
    kind = np.dtype(kind)
    names = {"i": "integer", "u": "unsigned integer", "f": "IEEE float"}
    return f"{names[kind.kind]}, {8 * kind.itemsize} bit"


def format_name(code: int) -> str:
    """Return the name of a SEG-Y sample format.

    Examples
    --------
    >>> format_name(1), format_name(16)
    ('IBM float, 32 bit', 'unsigned integer, 8 bit')
    """
    return "IBM float, 32 bit" if code == 1 else number_name(FORMATS[code])


def words_dtype(words: Mapping[str, tuple[int, str]], *, first: int, size: int, order: str = ">") -> np.dtype[Any]:
    """Return the NumPy type of a header of `size` bytes with named words.

    `words` has the byte and the type of each word. Bytes are counted as in the SEG-Y standard, where the first byte of
    this header has the number `first`.
    """
    return np.dtype(
        {
            "names": list(words),
            "formats": [order + kind for _, kind in words.values()],
            "offsets": [byte - first for byte, _ in words.values()],
            "itemsize": size,
        }
    )


def trace_dtype(order: str = ">") -> np.dtype[Any]:
    """Return the NumPy type of a SEG-Y trace header of 240 bytes; `order` is the byte order, ``<`` or ``>``."""
    return words_dtype(TRACE_WORDS, first=1, size=HEADER_SIZE, order=order)


def binary_dtype(order: str = ">") -> np.dtype[Any]:
    """Return the NumPy type of the SEG-Y binary header of 400 bytes; `order` is the byte order, ``<`` or ``>``."""
    return words_dtype(BINARY_WORDS, first=TEXT_SIZE + 1, size=BINARY_SIZE, order=order)


def word_at(headers: Array, byte: int, order: str) -> Array:
    """Return from every trace header the four-byte integer that begins at `byte`, counted from 1."""
    return headers.view(words_dtype({"word": (byte, "i4")}, first=1, size=HEADER_SIZE, order=order))["word"]


def coordinate_scalars(headers: Any) -> Array:
    """Return, for each trace header, the factor of its X and Y; a negative stored scalar is a divisor, 0 counts as 1.

    Examples
    --------
    >>> coordinate_scalars({"scalar": np.array([-100, 0, 10], "i2")}).tolist()
    [0.01, 1.0, 10.0]
    """
    scalar = headers["scalar"].astype(np.float64)
    return np.where(scalar < 0, -1 / np.where(scalar < 0, scalar, 1), np.where(scalar == 0, 1, scalar))


def decode_text(raw: bytes) -> str:
    """Return a text header, EBCDIC or ASCII, as text of several lines; unprintable characters become spaces."""
    readings = [raw.decode(code) for code in ("cp037", "latin-1")]
    text = max(readings, key=lambda text: sum(c.isascii() and (c.isalnum() or c == " ") for c in text))
    text = "".join(c if c.isascii() and c.isprintable() else " " for c in text)
    return "\n".join(text[i : i + 80].rstrip() for i in range(0, len(text), 80)).rstrip()


def decode(stored: Array, format: int) -> Array:
    """Return stored samples of a SEG-Y format as float32; values beyond the range of float32 become infinite or zero.

    Examples
    --------
    >>> decode(np.array([0x41100000, 0xC276A000, 0], ">u4"), format=1)
    array([   1.   , -118.625,    0.   ], dtype=float32)
    """
    with np.errstate(over="ignore", invalid="ignore"):
        if format != 1:
            return stored.astype(np.float32)
        bits = stored.astype(np.uint32)
        fraction = (bits & 0xFFFFFF).astype(np.float32)
        # Four times (exponent - 64), less the 24 bits of the fraction.
        power = (bits >> 22 & 0x1FC).astype(np.int32) - 280
        return np.copysign(np.ldexp(fraction, power), bits.view(np.float32))


def ibm_bits(x: npt.ArrayLike) -> Array:
    """Return the bits of the IBM single-precision numbers nearest to `x`; NaN, which IBM format lacks, becomes 0.

    Notes
    -----
    A number is ``sign * fraction / 2**24 * 16**(exponent - 64)`` with 24 bits of fraction and 7 of exponent.

    Examples
    --------
    >>> [hex(bits) for bits in ibm_bits(np.array([1.0, -118.625, 0.0]))]
    ['0x41100000', '0xc276a000', '0x0']
    """
    bits = np.asarray(x, np.float32).view(np.uint32)
    exponent = (bits >> 23 & 0xFF).astype(np.int32) - 126  # x = mantissa / 2**24 * 2**exponent
    exponent16 = exponent + 3 >> 2
    shift = (4 * exponent16 - exponent).astype(np.uint32)
    fraction = (bits & 0x7FFFFF | 0x800000) + (np.uint32(1) << shift >> 1) >> shift
    sign = bits & 0x80000000
    words = sign | (exponent16 + 64).astype(np.uint32) << 24 | fraction
    words = np.where(exponent == -126, sign, words)  # zero and subnormal numbers
    return np.where(exponent < 129, words, np.where(bits & 0x7FFFFF == 0, sign | 0x7FFFFFFF, 0)).astype(np.uint32)


def encode(x: npt.ArrayLike, *, format: int, order: str = ">") -> Array:
    """Return samples as a SEG-Y format stores them: IBM bits, IEEE numbers, or integers rounded and clipped.

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


def text_header(text: str) -> bytes:
    """Return text as the 3200 EBCDIC bytes (40 lines of 80 characters) at the start of a SEG-Y file.

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
