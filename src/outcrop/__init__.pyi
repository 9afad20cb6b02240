# The public names, each from its home. Type checkers and editors read this file, and so does `__init__.py`.
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
from outcrop.mapping.label_mapper import LabelMapper as LabelMapper
from outcrop.mapping.registry import MAPPERS as MAPPERS
from outcrop.mapping.registry import load_mapper as load_mapper
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

__version__: str
__all__: list[str]
