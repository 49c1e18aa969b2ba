"""GPUproof takes a TensorFlow, Keras or PyTorch script to the right AWS GPU and proves that the GPU did the work.

From Python: `gpuproof.run(gpuproof.TrainingJob(entry_point="train.py"), on="local")`, `gpuproof.plan("train.py")`.

The package has two halves. Host code runs next to the user's script, in any container or AMI: `agent`, `gpu`, `runtime`,
`serve` and `util` use only the standard library (and `pynvml`, where it is installed) and support Python 3.9. Client
code runs on the user's machine or in CI, requires Python 3.11 and may use libraries; it is everything else. Host code
never imports client code.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from gpuproof.version import __version__

if TYPE_CHECKING:
    from gpuproof.backends.api import run
    from gpuproof.errors import GPUproofError
    from gpuproof.jobs.models.script_jobs import ProcessingJob, TrainingJob
    from gpuproof.planning.api import plan
    from gpuproof.planning.model_step import plan_step

__all__ = ["GPUproofError", "ProcessingJob", "TrainingJob", "__version__", "plan", "plan_step", "run"]

_HOMES = {
    "ProcessingJob": "gpuproof.jobs.models.script_jobs",
    "GPUproofError": "gpuproof.errors",
    "TrainingJob": "gpuproof.jobs.models.script_jobs",
    "plan": "gpuproof.planning.api",
    "plan_step": "gpuproof.planning.model_step",
    "run": "gpuproof.planning.history.observed_run",
}


def __getattr__(name: str) -> Any:
    # Imported on first use: importing pydantic takes longer than `gpuproof --help` may.
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})
