"""Published data, and synthetic volumes with true labels."""

from outcrop.datasets.places import exemplars
from outcrop.datasets.published import F3_PICTURES, f3_sections, landmass, seg2017_patches
from outcrop.datasets.section import CHAOTIC, CLASSES, FAULT, OTHER, SALT_DOME
from outcrop.datasets.survey import synthetic, synthetic_lines, synthetic_seed, synthetic_top, write_synthetic

__all__ = [
    "CHAOTIC",
    "CLASSES",
    "F3_PICTURES",
    "FAULT",
    "OTHER",
    "SALT_DOME",
    "exemplars",
    "f3_sections",
    "landmass",
    "seg2017_patches",
    "synthetic",
    "synthetic_lines",
    "synthetic_seed",
    "synthetic_top",
    "write_synthetic",
]
