"""Outcrop: from a few exemplar patches of seismic to thousands of pixel labels."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # what is loaded when it is first used, for type checkers and editors
    from outcrop import datasets as datasets
    from outcrop import plots as plots
    from outcrop.app.server import explore as explore
    from outcrop.evaluate.pixels import pixel_scores as pixel_scores
    from outcrop.evaluate.retrieval import cluster_scores as cluster_scores
    from outcrop.evaluate.retrieval import retrieval_scores as retrieval_scores
    from outcrop.export.label_segy import export_segy as export_segy
    from outcrop.export.label_zarr import export_zarr as export_zarr
    from outcrop.export.training_set import TrainingSet as TrainingSet
    from outcrop.export.training_set import export_training_set as export_training_set
    from outcrop.features.encoder import Encoder as Encoder
    from outcrop.geometry.bodies import bodies as bodies
    from outcrop.geometry.bodies import surface as surface
    from outcrop.geometry.faults import fault_sticks as fault_sticks
    from outcrop.job.core import Job as Job
    from outcrop.labels.volume import label_volume as label_volume
    from outcrop.mapping.encoder_mapping import EncoderMapper as EncoderMapper
    from outcrop.mapping.label_mapper import LabelMapper as LabelMapper
    from outcrop.mapping.registry import MAPPERS as MAPPERS
    from outcrop.mapping.registry import load_mapper as load_mapper
    from outcrop.mapping.texture import TextureMapper as TextureMapper
    from outcrop.measures.curvelet import Curvelet as Curvelet
    from outcrop.measures.curvelet_svd import CurveletSVD as CurveletSVD
    from outcrop.measures.registry import MEASURES as MEASURES
    from outcrop.measures.registry import similarity as similarity
    from outcrop.patches.grid import PatchGrid as PatchGrid
    from outcrop.retrieval.index import build_index as build_index
    from outcrop.retrieval.index import open_index as open_index
    from outcrop.retrieval.ranking import retrieve as retrieve
    from outcrop.retrieval.weak import WeakLabels as WeakLabels
    from outcrop.volumes.opening import open_volume as open_volume

__version__ = "0.2.0"

_HOMES = {
    "open_volume": "volumes.opening",
    "PatchGrid": "patches.grid",
    "Curvelet": "measures.curvelet",
    "MEASURES": "measures.registry",
    "CurveletSVD": "measures.curvelet_svd",
    "similarity": "measures.registry",
    "build_index": "retrieval.index",
    "open_index": "retrieval.index",
    "retrieve": "retrieval.ranking",
    "WeakLabels": "retrieval.weak",
    "LabelMapper": "mapping.label_mapper",
    "TextureMapper": "mapping.texture",
    "EncoderMapper": "mapping.encoder_mapping",
    "Encoder": "features.encoder",
    "MAPPERS": "mapping.registry",
    "label_volume": "labels.volume",
    "load_mapper": "mapping.registry",
    "bodies": "geometry.bodies",
    "surface": "geometry.bodies",
    "export_segy": "export.label_segy",
    "export_zarr": "export.label_zarr",
    "export_training_set": "export.training_set",
    "TrainingSet": "export.training_set",
    "retrieval_scores": "evaluate.retrieval",
    "cluster_scores": "evaluate.retrieval",
    "pixel_scores": "evaluate.pixels",
    "fault_sticks": "geometry.faults",
    "Job": "job.core",
    "explore": "app.server",
}

__all__ = [*_HOMES, "__version__"]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(f"outcrop.{_HOMES[name]}"), name)
    if name in {"datasets", "plots"}:
        return importlib.import_module(f"outcrop.{name}")
    raise AttributeError(f"module 'outcrop' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES, "datasets", "plots"])
