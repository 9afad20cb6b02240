"""Robustness to wrong image labels, by the sparsity of the initial atoms."""

from outcrop.experiments.robustness import experiment


def run(data, *, quick=False, device=None, folder=None):
    """The paper's figure again; factorisations that ``robustness.json`` in the folder has are not done again."""
    return experiment("sparsity", data, quick=quick, device=device, folder=folder)
