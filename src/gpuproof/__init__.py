"""GPUproof takes a TensorFlow, Keras or PyTorch script to the right AWS GPU and proves that the GPU did the work.

From Python: `gpuproof.run(gpuproof.TrainingJob(entry_point="train.py"), on="local")`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from gpuproof.version import __version__

if TYPE_CHECKING:
    from gpuproof.backends.api import run
    from gpuproof.errors import GPUproofError
    from gpuproof.jobs.spec import ProcessingJob, TrainingJob

__all__ = ["GPUproofError", "ProcessingJob", "TrainingJob", "__version__", "run"]

_HOMES = {
    "ProcessingJob": "gpuproof.jobs.spec",
    "GPUproofError": "gpuproof.errors",
    "TrainingJob": "gpuproof.jobs.spec",
    "run": "gpuproof.backends.api",
}


def __getattr__(name: str) -> Any:
    # Imported on first use: pydantic alone takes longer than `gpuproof --help` may.
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
