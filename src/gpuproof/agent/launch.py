"""How the script is started: command, environment and working directory."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from pathlib import Path

from gpuproof.agent.contract import Machine, code_folder, script_arguments, script_environment
from gpuproof.agent.isolation.isolation import World
from gpuproof.agent.isolation.reaper import Launch
from gpuproof.agent.job import AgentJob
from gpuproof.agent.paths import RunPaths

# Makes `import gpuproof.runtime` work in the script, from within the agent's one file too; see the package in it.
_CARRIED = Path(__file__).parents[1] / "runtime" / "carried"


def plan_launch(
    job: AgentJob, paths: RunPaths, world: World, machine: Machine, inherited: Mapping[str, str]
) -> Launch:
    """What the reaper shall start.

    Args:
        inherited: the environment that the script gets beside the contract's and the job's own variables.
    """
    folder = f"{world.contract.base}/{code_folder(job)}"
    command = [*world.prefix, *(["-w", folder] if world.prefix else []), *_command(job)]
    # proot sets the working directory itself: the folder may not be there outside of it.
    return Launch(
        command,
        _environment(job, paths, world, machine, inherited),
        "/" if world.prefix else folder,
        bool(world.prefix),
    )


def _command(job: AgentJob) -> list[str]:
    arguments = script_arguments(job)
    if job.entry_point.endswith(".py"):
        return [job.python, job.entry_point, *arguments]
    # As the training toolkit starts anything that is not Python.
    return ["/bin/sh", "-c", shlex.join([f"./{job.entry_point}", *arguments])]


def _environment(
    job: AgentJob, paths: RunPaths, world: World, machine: Machine, inherited: Mapping[str, str]
) -> dict[str, str]:
    environment = dict(inherited)
    # As in AWS's images, so that a line is seen when it is printed; a user's own setting goes before it.
    environment.setdefault("PYTHONUNBUFFERED", "1")
    environment.update(job.environment)
    environment.update(script_environment(job, world.contract, machine))
    environment.update(_runtime_variables(job))
    folders = [f"{world.contract.base}/{code_folder(job)}"]
    if paths.packages.is_dir():
        folders.append(str(paths.packages))
        environment["PATH"] = f"{paths.packages / 'bin'}{os.pathsep}{environment.get('PATH', os.defpath)}"
    if environment.get("PYTHONPATH"):
        folders.append(environment["PYTHONPATH"])
    folders.append(str(_CARRIED))
    environment["PYTHONPATH"] = os.pathsep.join(folders)
    return environment


def _runtime_variables(job: AgentJob) -> dict[str, str]:
    """What `gpuproof.runtime` knows of the job beside SageMaker's contract."""
    variables: dict[str, str] = {}
    if job.require_gpu is not None:
        variables["GPUPROOF_REQUIRE_GPU"] = str(int(job.require_gpu))
    if job.expected_gpus is not None:
        variables["GPUPROOF_EXPECTED_GPUS"] = str(job.expected_gpus)
    return variables
