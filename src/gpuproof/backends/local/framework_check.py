"""The frameworks that the script's interpreter has, against what the job names."""

from __future__ import annotations

from collections.abc import Mapping

from gpuproof.jobs.spec import Job

_MODULES = {"pytorch": "torch", "huggingface": "transformers"}


def framework_note(job: Job, installed: Mapping[str, str]) -> str | None:
    """What a person should know where the job's framework is not the one that is here.

    Args:
        installed: versions by import name, as `gpuproof.util.installed_frameworks.installed_frameworks` gives them.
    """
    if job.framework is None:
        return None
    module = _MODULES.get(job.framework, job.framework)
    if module not in ("tensorflow", "keras", "torch", "jax"):
        return None
    here = installed.get(module)
    if here is None:
        return f"the job's framework is {job.framework}, and this interpreter has no {module}"
    wanted = job.framework_version
    if wanted is None or _matches(here, wanted):
        return None
    return f"the job's framework_version is {wanted}; this interpreter has {module} {here}"


def _matches(version: str, wanted: str) -> bool:
    """Whether a version is the wanted one or one of its patches: 2.19.1 matches 2.19, and 2.1 does not."""
    parts = version.partition("+")[0].split(".")
    return parts[: wanted.count(".") + 1] == wanted.split(".")
