"""What carries the encoder mapping: labels of F3 against the expert's by other weights, and without each half.

    python -m pretraining.train out/minute --steps 1400 --seed 1      # on a GPU; --without salt
    python -m pretraining.export out/minute out/minute.onnx
    python benchmarks/encoder.py --weights out/minute.onnx --supervision patches

Every row is fitted and scored as `outcrop reproduce expert` does it. The first two rows are `texture`, which has no
encoder, and the weights that ship.
"""

import argparse
from pathlib import Path

import numpy as np
import pandas as pd

import outcrop as oc
from outcrop.experiments import expert
from outcrop.features import encoder
from outcrop.features.energies import n_energies


class AnswersAlone(oc.EncoderMapper):
    """The encoder mapping without energies; they still tell what is strange."""

    def emphasis(self, n_descriptors):
        """Answers alone."""
        return (np.arange(n_descriptors) >= n_energies()).astype(np.float32)


def scored(yard, kind, mapping, seeds, weights=None):
    """Scores of all lines by weights of the encoder, by default those that ship."""
    shipped = encoder.WEIGHTS
    encoder.WEIGHTS = Path(weights or shipped)
    encoder.weights_digest.cache_clear()
    try:
        table = expert.score(yard, kind, mappings=[mapping], seeds=seeds)
    finally:
        encoder.WEIGHTS = shipped
        encoder.weights_digest.cache_clear()
    return table[table["inline"] == "all"].iloc[0]


def main():
    """Print one row per model as it is done."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", help="folder of the real data; default: OUTCROP_DATA")
    parser.add_argument("--weights", nargs="*", default=[], help="ONNX files as pretraining.export writes them")
    parser.add_argument("--supervision", default="patches", choices=expert.SUPERVISIONS)
    parser.add_argument("--seeds", type=int, default=1)
    asked = parser.parse_args()
    oc.MAPPERS["answers"] = AnswersAlone
    models = [("without encoder (texture)", "texture", None), ("shipped", "encoder", None)]
    models += [("shipped, without energies", "answers", None), *((path, "encoder", path) for path in asked.weights)]
    with expert.opened(asked.data, quick=False) as yard:
        for name, mapping, weights in models:
            row = scored(yard, asked.supervision, mapping, asked.seeds, weights)
            shown = row.filter(like="IU").dropna()
            print(pd.DataFrame([shown], index=[name]).to_string(float_format="{:.3f}".format), flush=True)


if __name__ == "__main__":
    main()
