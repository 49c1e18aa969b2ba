"""Dated facts about AWS GPUs: instance types, regions, prices, quotas, images, drivers and framework builds.

The facts are in `data/*.csv`, each row with its source and date; `gpuproof catalogue refresh` overlays newer ones from
the user's cache folder. `Catalogue` is the query interface; it never raises for an unknown name.
"""

from gpuproof.catalogue.build_support import Support
from gpuproof.catalogue.catalogue import JOB_KINDS, Catalogue
from gpuproof.catalogue.model import Build, Gpu, Instance, JobKind, Price
from gpuproof.catalogue.search import InstanceQuery

__all__ = [
    "JOB_KINDS",
    "Build",
    "Catalogue",
    "Gpu",
    "Instance",
    "InstanceQuery",
    "JobKind",
    "Price",
    "Support",
]
