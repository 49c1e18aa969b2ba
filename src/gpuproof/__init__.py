"""GPUproof takes a TensorFlow, Keras or PyTorch script to the right AWS GPU and proves that the GPU did the work.

From Python: `gpuproof.run(gpuproof.TrainingJob(entry_point="train.py"), on="local")`, `gpuproof.plan("train.py")`.

The package has two halves. Host code runs next to the user's script, in any container or AMI: `agent`, `gpu`, `notebook`,
`runtime`, `serve`, `terminal`, `trace`, `util` and `watch` use only the standard library (and `pynvml`, where it is installed) and support Python 3.9. Client
code runs on the user's machine or in CI, requires Python 3.11 and may use libraries; it is everything else. Host code
never imports client code.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from gpuproof.version import __version__

if TYPE_CHECKING:
    from gpuproof.app.account.audit import audit
    from gpuproof.app.account.audit_job import audit_job
    from gpuproof.app.account.cleanup import cleanup
    from gpuproof.app.account.cost import cost
    from gpuproof.app.check import check
    from gpuproof.app.compare import compare
    from gpuproof.app.endpoints.delete import delete
    from gpuproof.app.endpoints.deploy import deploy
    from gpuproof.app.endpoints.predict import predict
    from gpuproof.app.endpoints.transform import transform
    from gpuproof.app.plan import plan
    from gpuproof.app.preflight import ChecksFailed
    from gpuproof.app.run import run
    from gpuproof.errors import GPUproofError
    from gpuproof.jobs.models.endpoint import EndpointJob
    from gpuproof.jobs.models.script_jobs import ProcessingJob, TrainingJob
    from gpuproof.jobs.models.transform import TransformJob
    from gpuproof.planning.model_step import plan_step
    from gpuproof.watch.report import WatchReport

__all__ = [
    "ChecksFailed",
    "EndpointJob",
    "GPUproofError",
    "ProcessingJob",
    "TrainingJob",
    "TransformJob",
    "__version__",
    "audit",
    "audit_job",
    "check",
    "cleanup",
    "compare",
    "cost",
    "delete",
    "deploy",
    "plan",
    "plan_step",
    "predict",
    "run",
    "transform",
]

_HOMES = {
    "ChecksFailed": "gpuproof.app.preflight",
    "EndpointJob": "gpuproof.jobs.models.endpoint",
    "GPUproofError": "gpuproof.errors",
    "ProcessingJob": "gpuproof.jobs.models.script_jobs",
    "TrainingJob": "gpuproof.jobs.models.script_jobs",
    "TransformJob": "gpuproof.jobs.models.transform",
    "audit": "gpuproof.app.account.audit",
    "audit_job": "gpuproof.app.account.audit_job",
    "check": "gpuproof.app.check",
    "cleanup": "gpuproof.app.account.cleanup",
    "compare": "gpuproof.app.compare",
    "cost": "gpuproof.app.account.cost",
    "delete": "gpuproof.app.endpoints.delete",
    "deploy": "gpuproof.app.endpoints.deploy",
    "plan": "gpuproof.app.plan",
    "plan_step": "gpuproof.planning.model_step",
    "predict": "gpuproof.app.endpoints.predict",
    "run": "gpuproof.app.run",
    "transform": "gpuproof.app.endpoints.transform",
}


def __getattr__(name: str) -> Any:
    # Imported on first use: importing pydantic takes longer than `gpuproof --help` may.
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def load_ipython_extension(shell: Any) -> None:
    """Add the magics `%%gpu` and `%gpu` to a notebook: `%load_ext gpuproof`."""
    # Imported when a notebook loads it, as above.
    from gpuproof.notebook.extension import load

    load(shell, _cost)


def unload_ipython_extension(shell: Any) -> None:
    """Remove what `load_ipython_extension` has added, except for the names of the magics, which IPython keeps."""
    from gpuproof.notebook.extension import unload  # as above

    unload(shell)


def _cost(report: WatchReport) -> float | None:
    """What the machine of a notebook costs during a report, in USD; `None` if it is unknown."""
    if report.instance is None:
        return None
    try:
        from gpuproof.app.watch_cost import with_cost  # not needed on other machines
        from gpuproof.catalogue import Catalogue
    except ImportError:
        return None  # the agent's file, which is host code only
    return with_cost(report, Catalogue.load()).cost_usd


def __dir__() -> list[str]:
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})
