"""Compares the frameworks of the script's interpreter with the framework that the job names."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from gpuproof.errors import InvalidJob
from gpuproof.util.installed_frameworks import FRAMEWORK_DISTRIBUTIONS
from gpuproof.util.versions import version_key

if TYPE_CHECKING:
    from gpuproof.jobs.script_job import AnyJob

_MODULES = {"tensorflow": "tensorflow", "keras": "keras", "pytorch": "torch", "jax": "jax"}
_NAMES = {"tensorflow": "TensorFlow", "keras": "Keras", "torch": "PyTorch", "jax": "JAX"}


def require_framework(job: AnyJob, installed: Mapping[str, str], python: str) -> None:
    """Reject a job whose framework is not installed: it would only fail after it was started.

    Args:
        installed: versions by import name, from `gpuproof.util.installed_frameworks.installed_frameworks`.

    Raises:
        InvalidJob: the interpreter lacks the framework, and neither `requirements.txt` nor `setup.py` may install it.
    """
    module = _MODULES.get(job.framework or "")
    if module is None or module in installed or _may_be_installed(job, module):
        return
    raise InvalidJob(
        f"'{job.name}' sets framework: {job.framework}, but {python} has no {_NAMES[module]} ({module}).",
        remedy=f"Install it: {python} -m pip install {module}\n"
        f"Or add {module} to requirements.txt, or choose another interpreter: --python PYTHON",
    )


def framework_warning(job: AnyJob, installed: Mapping[str, str]) -> str | None:
    """A warning if the installed framework is not the one that the job names; else `None`.

    Args:
        installed: versions by import name, from `gpuproof.util.installed_frameworks.installed_frameworks`.
    """
    if job.framework is None:
        return None
    module = _MODULES.get(job.framework, "")
    here, wanted = installed.get(module), job.framework_version
    if here is None or wanted is None or _matches(here, wanted):
        return None
    return f"the job's framework_version is {wanted}, but this interpreter has {module} {here}"


def _may_be_installed(job: AnyJob, module: str) -> bool:
    """Whether the run may install the framework before the script starts."""
    source = Path(job.source_dir)
    if (source / "setup.py").is_file():
        return True
    try:
        lines = (source / "requirements.txt").read_text(encoding="utf-8-sig", errors="replace").splitlines()
    except OSError:
        return False
    names = "|".join(re.escape(name) for name in FRAMEWORK_DISTRIBUTIONS[module])
    return any(re.match(rf"\s*(({names})\b|-r|--requirement)", line, re.IGNORECASE) for line in lines)


def _matches(version: str, wanted: str) -> bool:
    """Whether a version is the wanted one or one of its patch releases: 2.19.1 matches 2.19, but 2.1 does not."""
    expected = version_key(wanted)
    return version_key(version)[: len(expected)] == expected
