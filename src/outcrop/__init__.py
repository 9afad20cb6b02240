"""Outcrop: from a few exemplar patches of seismic to thousands of pixel labels."""

import importlib

__version__ = "0.1.0"

_HOMES = {
    "open_volume": "volume",
    "PatchGrid": "patches",
    "Curvelet": "curvelet",
    "MEASURES": "measures",
    "CurveletSVD": "measures",
    "similarity": "measures",
    "build_index": "retrieval",
    "open_index": "retrieval",
    "retrieve": "retrieval",
    "refine": "retrieval",
    "WeakLabels": "retrieval",
    "LabelMapper": "mapping",
    "TextureMapper": "texture",
    "EncoderMapper": "encoder_mapping",
    "Encoder": "encoder",
    "MAPPERS": "labels",
    "label_volume": "labels",
    "load_mapper": "labels",
    "bodies": "geometry.bodies",
    "surface": "geometry.bodies",
    "export_segy": "export",
    "export_zarr": "export",
    "export_training_set": "export",
    "TrainingSet": "export",
    "retrieval_scores": "evaluate",
    "cluster_scores": "evaluate",
    "pixel_scores": "evaluate",
    "fault_sticks": "geometry.faults",
    "Job": "job.core",
    "explore": "app.server",
}

__all__ = [*_HOMES, "__version__"]


def __getattr__(name):
    if name in _HOMES:
        return getattr(importlib.import_module(f"outcrop.{_HOMES[name]}"), name)
    if name in {"datasets", "patches", "plots"}:
        return importlib.import_module(f"outcrop.{name}")
    raise AttributeError(f"module 'outcrop' has no attribute {name!r}")


def __dir__():
    return sorted([*globals(), *_HOMES, "datasets", "plots"])
