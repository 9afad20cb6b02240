"""Robustness to wrong image labels, by the number of atoms per class."""

from outcrop.experiments.robustness import experiment


def run(data, *, quick=False, device=None, folder=None):
    """The paper's figure again; factorisations that ``robustness.json`` in the folder has are not done again."""
    return experiment("k", data, quick=quick, device=device, folder=folder)
