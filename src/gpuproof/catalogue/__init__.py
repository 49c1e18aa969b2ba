"""Dated facts about AWS GPUs: what each instance type is, where it is, what runs on it and what it costs.

The facts lie in `data/*.csv`, each row with its source and date; `gpuproof catalogue refresh` lays fresher ones over
them in the user's cache folder. `Catalogue` answers questions about them; it never raises for a name that it does
not know.
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
