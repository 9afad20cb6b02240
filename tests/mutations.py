"""Random, reproducible damage to SEG-Y and ZGY files and to job folders, for the fuzz test and its benchmark."""

import contextlib
import multiprocessing
import os
import re
import shutil
import signal
import struct
import sys
import warnings
from pathlib import Path
from unittest import mock

import numpy as np
from matplotlib.figure import Figure

from outcrop import cli, open_volume
from outcrop.volumes.summary import describe

# Processes start with these modules imported.
context = multiprocessing.get_context("forkserver")
context.set_forkserver_preload(
    ["outcrop.cli", "outcrop.export.label_segy", "outcrop.labels.volume", "matplotlib.pyplot", "dask.array"]
)

NUMBERS = [0, 1, -1, 2, 3, 127, 255, 65535, 2**31 - 1, 2**31, 2**32 - 1, 2**40, 10**12, 2**63 - 1, 10**30]


def mutate_segy(raw, rng):
    """Damage the bytes of a SEG-Y file; return the kind of damage and the bytes."""
    kinds = [truncate, flip, opening, overwrite, lie, swap, shift, stretch, samples, duplicate, blank, one_line]
    kind = kinds[rng.integers(len(kinds))]
    return kind.__name__, bytes(kind(bytearray(raw), rng))


def truncate(b, rng):
    """Cut the file at a random position."""
    return b[: rng.integers(len(b))]


def flip(b, rng):
    """Change bytes at random positions."""
    for _ in range(rng.integers(1, 200)):
        b[rng.integers(len(b))] = rng.integers(256)
    return b


def opening(b, rng):
    """Change bytes of the binary header."""
    for _ in range(rng.integers(1, 30)):
        b[rng.integers(3200, 3600)] = rng.integers(256)
    return b


def overwrite(b, rng):
    """Replace the length of a trace header by random bytes."""
    at = rng.integers(3600, len(b) - 240)
    b[at : at + 240] = rng.bytes(240)
    return b


def lie(b, rng):
    """Write wrong values of sample count, format, revision, extended headers, first trace and trace count."""
    words = {3216: 2, 3220: 2, 3224: 2, 3254: 2, 3260: 8, 3268: 4, 3272: 8, 3500: 1, 3502: 2, 3504: 2, 3520: 8}
    for at in rng.choice(list(words), rng.integers(1, 5), replace=False):
        size = words[int(at)]
        value = int(rng.choice(np.array(NUMBERS, object))) if rng.random() < 0.7 else int(rng.integers(0, 70000))
        b[at : at + size] = (value % 256**size).to_bytes(size, "big")
    return b


def swap(b, rng):
    """Reverse the byte order in the binary header, or in every word of the file."""
    first, last = (3200, 3600) if rng.random() < 0.5 else (3200, len(b) // 2 * 2)
    b[first:last] = np.frombuffer(bytes(b[first:last]), "u2").byteswap().tobytes()
    return b


def shift(b, rng):
    """Remove or insert bytes, so that all later bytes are displaced."""
    at, n = rng.integers(3600, len(b)), int(rng.integers(1, 500))
    return b[:at] + b[at + n :] if rng.random() < 0.5 else b[:at] + bytearray(rng.bytes(n)) + b[at:]


def stretch(b, rng):
    """Write random line numbers into some trace headers."""
    for _ in range(rng.integers(1, 40)):
        at = int(rng.integers(3600, len(b) - 240))
        b[at + 188 : at + 196] = rng.bytes(8)
    return b


def samples(b, rng):
    """Write NaN, infinite, clipped or random amplitudes."""
    for _ in range(rng.integers(1, 100)):
        at = int(rng.integers(3840, len(b) - 400))
        wild = [b"\x7f\xc0\x00\x00", b"\xff\x80\x00\x00", b"\x7f\x7f\xff\xff", bytes(4), rng.bytes(4)]
        b[at : at + 400] = wild[rng.integers(len(wild))] * 100
    return b


def duplicate(b, rng):
    """Repeat a part of the file."""
    at, n = rng.integers(3600, len(b)), int(rng.integers(1, len(b) // 4))
    return b[: at + n] + b[at:]


def blank(b, rng):
    """Write zeros into a part of the file, as in a sparse file."""
    at, n = int(rng.integers(0, len(b))), int(rng.integers(1, len(b)))
    b[at : at + n] = bytes(len(b[at : at + n]))
    return b


def one_line(b, rng):
    """Keep the first few traces only."""
    n = int(np.frombuffer(bytes(b[3220:3222]), ">u2")[0])
    return b[: 3600 + int(rng.integers(1, 20)) * (240 + 4 * n)]


def look_at(path):
    """Open a volume, read one line and describe it; return 'answered', 'refused' or the unexpected result."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            volume = open_volume(path)
            np.asarray(volume[volume.shape[0] // 2])
            describe(volume)
            return "answered"
        except (ValueError, OSError) as error:
            return "refused" if "\n" not in str(error) else f"several lines: {error}"
        except BaseException as error:
            return f"{type(error).__name__}: {error}"


def mutate_job(job, rng, canary):
    """Damage one file of a job folder; return the kind of damage and the folder of the file."""
    files = sorted(path for path in job.rglob("*") if path.is_file() and path.suffix not in (".png", ".lock"))
    weights = np.array(
        [
            1 + 8 * (path.name in ("job.toml", "retrieved.csv", "zarr.json", "stage.json", "mapper.json"))
            for path in files
        ],
        float,
    )
    path = files[rng.choice(len(files), p=weights / weights.sum())]
    raw, kind = (
        path.read_bytes(),
        str(rng.choice(["remove", "truncate", "flip", "noise", "number", "number", "folder", "link", "word"])),
    )
    path.unlink()
    if kind == "truncate":
        path.write_bytes(raw[: rng.integers(0, max(1, len(raw)))])
    elif kind == "flip":
        data = bytearray(raw or b"0")
        for _ in range(rng.integers(1, 9)):
            data[rng.integers(len(data))] = rng.integers(256)
        path.write_bytes(data)
    elif kind == "noise":
        path.write_bytes(rng.bytes(int(rng.integers(0, 5000))))
    elif kind == "folder":
        path.mkdir()
    elif kind == "link":
        path.symlink_to(canary)
    elif kind in ("number", "word"):
        found = list(re.finditer(rb"-?\d+(\.\d+)?" if kind == "number" else rb"[a-z_]{3,}", raw))
        if found:
            spot = found[rng.integers(len(found))]
            odd = [b'"x"', b"nan", b"[]", b"{}", b"true", b"", b"../../..", "ÿ\n".encode(), b"null", b"-0.5", b"1e308"]
            new = (
                str(NUMBERS[rng.integers(len(NUMBERS))]).encode() if rng.random() < 0.6 else odd[rng.integers(len(odd))]
            )
            raw = raw[: spot.start()] + new + raw[spot.end() :]
        path.write_bytes(raw)
    return f"{kind} {path.relative_to(job).parts[0]}"


def command(words):
    """Run a command in this process; return 'answered', 'refused' or the unexpected result."""
    output = Path("output.txt")
    with (
        mock.patch.object(sys, "argv", ["outcrop", *map(str, words)]),
        mock.patch.object(
            Figure, "savefig", lambda _, path, **options: Path(path).write_bytes(b"picture")
        ),  # figures are slow
        open(output, "w", encoding="utf-8") as stream,
        contextlib.redirect_stderr(stream),
        contextlib.redirect_stdout(stream),
    ):
        try:
            cli.main()
        except SystemExit as stop:
            code = stop.code
        except BaseException as error:
            return f"{type(error).__name__}: {error}"
    text = output.read_text(encoding="utf-8").strip()
    last = text.splitlines()[-1] if text else ""
    if code == 0:
        return "answered"
    return "refused" if code == 2 and last.startswith("Error: ") else f"exit code {code}: {last}"


COMMANDS = [
    ["status", "job.outcrop"],
    ["retrieve", "job.outcrop", "--exemplar", "fault=104,350,200", "--exemplar", "other=105,330,100", "--count", "9"],
    ["label", "job.outcrop", "--mapping", "paper", "--step", "16", "--lines", "103"],
    ["label", "job.outcrop", "--mapping", "paper", "--step", "16", "--lines", "104", "--seed", "1"],
    ["evaluate", "job.outcrop", "--truth", "v.truth.sgy"],
    ["export", "job.outcrop", "out.sgy"],
    ["export", "job.outcrop", "out.zarr"],
    ["index", "v.sgy", "-o", "job.outcrop", "--size", "32", "--step", "24"],
]


def limits(memory):
    """Limit the address space of this process, and let an alarm kill it."""
    import resource  # on POSIX only

    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    signal.signal(signal.SIGALRM, lambda *_: os.kill(os.getpid(), signal.SIGKILL))


def fuzz_job(folder, rng, n_commands=2):
    """Damage a copy of the job in a folder, and run commands on it; yield (damage, command, outcome)."""
    for name in ("job.outcrop", "out.sgy", "out.zarr"):
        shutil.rmtree(folder / name, ignore_errors=True)
        (folder / name).unlink(missing_ok=True)
    shutil.copytree(folder / "sound.outcrop", folder / "job.outcrop")
    canary = folder / "canary"
    canary.write_bytes(b"sing")
    kind = mutate_job(folder / "job.outcrop", rng, canary)
    os.chdir(folder)
    for number in [0, *rng.choice(np.arange(1, len(COMMANDS)), n_commands, replace=False)]:
        signal.alarm(120)
        outcome = command(COMMANDS[number])
        signal.alarm(0)
        if canary.read_bytes() != b"sing":
            outcome = "wrote outside the job"
        yield kind, COMMANDS[number][0], outcome


# Numbers in the headers of a ZGY file of version 2 to 4: byte -> struct format.
ZGY_WORDS = {
    4: "I", 9: "i", 13: "i", 17: "i", 21: "B", 22: "f", 26: "f", 79: "f", 83: "f", 87: "f", 91: "f", 95: "f", 99: "f",
    103: "i", 107: "i", 111: "i", 260: "d", 292: "d", 324: "B", 325: "d", 333: "B", 334: "d", 342: "I",
}  # fmt: skip
ZGY_NUMBERS = [0, 1, -1, 2, 3, 63, 65, 127, 255, 65535, 10**6, 10**7, 2**30, 2**31 - 1, -(2**31), 1e30, -1e30]
ZGY_NUMBERS += [float("nan"), float("inf"), 1e-30]


def mutate_zgy(raw, rng, header):
    """Damage the first `header` bytes of a ZGY file; return the kind of damage and the bytes."""
    kinds = [zgy_truncate, zgy_flip, zgy_lie, zgy_lie, zgy_lie, zgy_blank, zgy_noise, zgy_table, zgy_shift]
    kind = kinds[rng.integers(len(kinds))]
    return kind.__name__.removeprefix("zgy_"), bytes(kind(bytearray(raw), rng, header))


def zgy_truncate(b, rng, header):
    """Cut the file in the headers, or anywhere."""
    return b[: rng.integers(header if rng.random() < 0.5 else len(b))]


def zgy_flip(b, rng, header):
    """Change bytes of the headers."""
    for _ in range(rng.integers(1, 30)):
        b[rng.integers(4, header)] = rng.integers(256)
    return b


def zgy_lie(b, rng, header):
    """Write wrong numbers into the headers."""
    for at in rng.choice(list(ZGY_WORDS), rng.integers(1, 4), replace=False).tolist():
        form = ZGY_WORDS[at]
        value = ZGY_NUMBERS[rng.integers(len(ZGY_NUMBERS))]
        if form in "fd":
            struct.pack_into("<" + form, b, at, value)
        else:
            whole = int(value) if np.isfinite(value) else 0
            size = struct.calcsize(form)
            b[at : at + size] = (whole % 256**size).to_bytes(size, "little")
    return b


def zgy_blank(b, rng, header):
    """Write zeros into a part of the headers."""
    at, n = int(rng.integers(4, header)), int(rng.integers(1, header))
    n = min(n, header - at)
    b[at : at + n] = bytes(n)
    return b


def zgy_noise(b, rng, header):
    """Write random bytes into a part of the headers."""
    at, n = int(rng.integers(4, header)), int(rng.integers(1, 200))
    n = min(n, header - at)
    b[at : at + n] = rng.bytes(n)
    return b


def zgy_table(b, rng, header):
    """Change the position, the kind or the constant of bricks."""
    for _ in range(rng.integers(1, 4)):
        at = header - 8 * int(rng.integers(1, 6))
        entries = [0, 1, 0x80 << 56, rng.integers(2**63), 0xC0 << 56 | 4096, len(b) - 100, 0x80 << 56 | 0x7FC00000]
        b[at : at + 8] = int(entries[rng.integers(len(entries))]).to_bytes(8, "little")
    return b


def zgy_shift(b, rng, header):
    """Remove or insert bytes of the headers."""
    at, n = int(rng.integers(4, header)), int(rng.integers(1, 60))
    return b[:at] + b[at + n :] if rng.random() < 0.5 else b[:at] + bytearray(rng.bytes(n)) + b[at:]
