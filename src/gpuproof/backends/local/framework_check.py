"""Compares the frameworks of the script's interpreter with the framework that the job names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from gpuproof.util.versions import version_key

if TYPE_CHECKING:
    from gpuproof.jobs.script_job import AnyJob

_MODULES = {"pytorch": "torch", "huggingface": "transformers"}


def framework_warning(job: AnyJob, installed: Mapping[str, str]) -> str | None:
    """A warning if the installed framework is not the one that the job names; else `None`.

    Args:
        installed: versions by import name, from `gpuproof.util.installed_frameworks.installed_frameworks`.
    """
    if job.framework is None:
        return None
    module = _MODULES.get(job.framework, job.framework)
    if module not in ("tensorflow", "keras", "torch", "jax"):
        return None
    here = installed.get(module)
    if here is None:
        return f"the job's framework is {job.framework}, but this interpreter has no {module}"
    wanted = job.framework_version
    if wanted is None or _matches(here, wanted):
        return None
    return f"the job's framework_version is {wanted}, but this interpreter has {module} {here}"


def _matches(version: str, wanted: str) -> bool:
    """Whether a version is the wanted one or one of its patch releases: 2.19.1 matches 2.19, but 2.1 does not."""
    expected = version_key(wanted)
    return version_key(version)[: len(expected)] == expected
