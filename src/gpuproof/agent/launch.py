"""Plans how to start the script: command, environment and working directory."""

from __future__ import annotations

import contextlib
import os
import shlex
from collections.abc import Mapping
from pathlib import Path

from gpuproof.agent.contract import Machine, code_folder, script_arguments, script_environment
from gpuproof.agent.isolation.isolation import CONTAINER, Isolation
from gpuproof.agent.isolation.reaper import Launch
from gpuproof.agent.job import AgentJob
from gpuproof.agent.paths import RunPaths
from gpuproof.util.cgroup import group_name

# Makes `import gpuproof.runtime` work in the script, also from within the agent's archive; see the package in it.
_CARRIED = Path(__file__).parents[1] / "runtime" / "carried"


def plan_launch(
    job: AgentJob, paths: RunPaths, isolation: Isolation, machine: Machine, inherited: Mapping[str, str]
) -> Launch:
    """Return what the reaper starts.

    Args:
        inherited: environment variables that the script inherits, besides the contract's and the job's own.
    """
    folder = f"{isolation.contract.base}/{code_folder(job)}"
    command = [
        *isolation.prefix,
        *(["-w", folder] if isolation.prefix else []),
        *_command(job, is_package=is_package(job, paths)),
    ]
    # proot sets the working directory itself: the folder may not exist outside of it.
    return Launch(
        command,
        _environment(job, paths, isolation, machine, inherited),
        "/" if isolation.prefix else folder,
        bool(isolation.prefix),
        group="" if isolation.mode == CONTAINER else group_name(job.run_id),
    )


def make_executable(job: AgentJob, paths: RunPaths) -> None:
    """Let an entry point that is no Python script be executed, as the training toolkit does: Git and archives lose the bit."""
    script = paths.ml / code_folder(job) / job.entry_point
    if job.entry_point.endswith(".py"):
        return
    with contextlib.suppress(OSError):  # the shell then reports why
        script.chmod(script.stat().st_mode | 0o111)


def is_package(job: AgentJob, paths: RunPaths) -> bool:
    """Whether the source is a package: with a `setup.py`, the training toolkit installs it and runs a module of it."""
    return (paths.ml / code_folder(job) / "setup.py").is_file() and job.entry_point != "setup.py"


def _command(job: AgentJob, *, is_package: bool) -> list[str]:
    arguments = script_arguments(job)
    if job.entry_point.endswith(".py") and is_package:
        return [job.python, "-m", job.entry_point[: -len(".py")].replace("/", "."), *arguments]
    if job.entry_point.endswith(".py"):
        return [job.python, job.entry_point, *arguments]
    # The training toolkit starts all entry points other than Python like this.
    return ["/bin/sh", "-c", shlex.join([f"./{job.entry_point}", *arguments])]


def _environment(
    job: AgentJob, paths: RunPaths, isolation: Isolation, machine: Machine, inherited: Mapping[str, str]
) -> dict[str, str]:
    environment = dict(inherited)
    # As in AWS's images, so that output appears immediately; a user's own setting takes precedence.
    environment.setdefault("PYTHONUNBUFFERED", "1")
    environment.update(job.environment)
    environment.update(script_environment(job, isolation.contract, machine))
    environment.update(_runtime_variables(job))
    folders = [f"{isolation.contract.base}/{code_folder(job)}"]
    if paths.packages.is_dir():
        folders.append(str(paths.packages))
        environment["PATH"] = f"{paths.packages / 'bin'}{os.pathsep}{environment.get('PATH', os.defpath)}"
    if environment.get("PYTHONPATH"):
        folders.append(environment["PYTHONPATH"])
    folders.append(str(_CARRIED))
    environment["PYTHONPATH"] = os.pathsep.join(folders)
    return environment


def _runtime_variables(job: AgentJob) -> dict[str, str]:
    """Variables that tell `gpuproof.runtime` more about the job than SageMaker's contract does."""
    variables: dict[str, str] = {}
    if job.require_gpu is not None:
        variables["GPUPROOF_REQUIRE_GPU"] = str(int(job.require_gpu))
    if job.expected_gpus is not None:
        variables["GPUPROOF_EXPECTED_GPUS"] = str(job.expected_gpus)
    return variables
