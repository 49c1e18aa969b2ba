"""Tarmac takes a TensorFlow, Keras or PyTorch script to the right AWS GPU and proves that the GPU did the work.

From Python: `tarmac.run(tarmac.TrainingJob(entry_point="train.py"), on="local")`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tarmac.errors import TarmacError
    from tarmac.jobs.spec import ProcessingJob, TrainingJob
    from tarmac.places.api import run

__version__ = "0.1.0"

__all__ = ["ProcessingJob", "TarmacError", "TrainingJob", "__version__", "run"]

_HOMES = {
    "ProcessingJob": "tarmac.jobs.spec",
    "TarmacError": "tarmac.errors",
    "TrainingJob": "tarmac.jobs.spec",
    "run": "tarmac.places.api",
}


def __getattr__(name: str) -> Any:
    # Imported on first use: pydantic alone takes longer than `tarmac --help` may.
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
