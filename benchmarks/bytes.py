"""Bytes of votes and descriptors on disk, and the cost of reading a crossline of labels compared with an inline.

python benchmarks/bytes.py                  # about three minutes on two cores

Votes are computed on real sections (OUTCROP_DATA), or on a synthetic volume without them. They are written in the
current format, and in the earlier one: chunks of 128 traces without differences. A survey of 651 lines, like F3, is
made of these lines, each rolled by some traces.
"""

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np
import zarr
from labelling import fitted, sections
from zarr.codecs import Crc32cCodec, ZstdCodec

import outcrop as oc
from outcrop.job.corrections import Corrections
from outcrop.job.votes import Labels
from outcrop.labels.vote_store import VoteStore
from outcrop.labels.votes import line_votes
from outcrop.storage.chunks import stored_bytes


def votes_of():
    """Return votes of the default mapping on real or synthetic sections, shape (lines, classes, traces, samples)."""
    volume, truth = sections()
    mapper, _ = fitted(volume, truth)
    found = line_votes(volume, oc.PatchGrid(volume, size=99, step=33), mapper)
    return np.stack([votes for _, votes in found]), mapper.classes_


def earlier_format(path, shape):
    """Create an array of votes in the earlier format: 128 traces per chunk, no differences."""
    checked = {"dtype": "uint8", "compressors": [ZstdCodec(), Crc32cCodec()], "fill_value": 0}
    return zarr.create_array(path, shape=shape, chunks=(1, shape[1], 128, shape[3]), **checked)


def best(function, rounds=5):
    """Return the smallest CPU time of several calls; other programs have no effect."""
    seconds = []
    for _ in range(rounds):
        begin = time.process_time()
        function()
        seconds.append(time.process_time() - begin)
    return min(seconds)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lines", type=int, default=651)
    options = parser.parse_args()
    votes, names = votes_of()
    n_lines, (_, n_classes, n_traces, n_samples) = options.lines, votes.shape
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        store = VoteStore.make(folder, (n_lines, n_traces, n_samples), list(map(str, names)))
        before = earlier_format(folder / "before.zarr", (n_lines, n_classes, n_traces, n_samples))
        writing = 0.0
        for line in range(n_lines):
            rolled = np.roll(votes[line % len(votes)], 3 * line, axis=1)
            begin = time.process_time()
            store.confirm(line, store.write(line, rolled))
            writing += (time.process_time() - begin) / n_lines
            before[line] = rolled
        samples = n_lines * n_traces * n_samples
        now, then = stored_bytes(store.votes) / samples, stored_bytes(before) / samples
        print(f"votes of {n_classes} classes: {now:.3f} bytes a sample, {then:.3f} before, {now / then:.2f} times")
        files = sum(path.is_file() for path in (folder / "votes.zarr" / "votes").rglob("*")) - 1
        print(f"files of votes: {files / n_lines:.0f} a line, decided, written, read back in {1000 * writing:.0f} ms")
        shape = n_lines, n_traces, n_samples
        nothing = Corrections({}, {}, names=[], background=None, along=0, shape=shape)
        labels = Labels(dict.fromkeys(range(n_lines), store), {str(n): i + 1 for i, n in enumerate(names)}, nothing,
                        0.0, 0, shape)  # fmt: skip
        every = slice(None)
        inline = best(lambda: labels.block("label", (slice(5, 6), every, every)))
        crossline = best(lambda: labels.block("label", (every, slice(500, 501), every)), rounds=3)
        print(
            f"labels of an inline ({n_traces} traces) {1000 * inline:.0f} ms, of a crossline ({n_lines} traces) "
            f"{1000 * crossline:.0f} ms: {crossline / inline:.1f} times"
        )
        inline = best(lambda: before[5])
        crossline = best(lambda: [before.oindex[line, :, slice(500, 501)] for line in range(n_lines)], rounds=1)
        print(f"votes in the earlier format: a crossline {crossline / inline:.0f} times an inline")
    describe_bytes()


def describe_bytes():
    """Print the bytes of a descriptor in an index for both measures."""
    volume, _ = oc.datasets.synthetic((8, 300, 300), seed=1)
    for measure in ("curvelet-svd", "encoder"):
        with tempfile.TemporaryDirectory() as temporary:
            grid = oc.PatchGrid(volume, size=99, step=33)
            index = oc.build_index(volume, grid, f"{temporary}/i.outcrop", measure=measure)
            values = index.features[:]
            earlier = zarr.create_array(
                f"{temporary}/before.zarr", data=values, chunks=index.features.chunks,
                compressors=[ZstdCodec(), Crc32cCodec()],
            )  # fmt: skip
            now, then = (stored_bytes(array) / len(values) for array in (index.features, earlier))
            print(f"index, {measure}: {now:.0f} bytes a patch, {then:.0f} before, {4 * values.shape[1]} in memory")


if __name__ == "__main__":
    main()
