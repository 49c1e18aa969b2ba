"""Plans what the reaper starts on this host: command, environment and working directory."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import shutil
import socket
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from gpuproof.agent.contract import (
    NETWORK_INTERFACE,
    Machine,
    code_folder,
    script_arguments,
    script_environment,
)
from gpuproof.agent.environments.environment import NotStarted
from gpuproof.agent.isolation.isolation import CONTAINER, Isolation
from gpuproof.agent.isolation.reaper import Launch
from gpuproof.agent.job import AgentJob
from gpuproof.agent.launch.context import LaunchContext
from gpuproof.agent.launch.pytorch import is_pytorch, pytorch_variables
from gpuproof.agent.launch.registry import LAUNCHERS, NONE
from gpuproof.agent.paths import RunPaths
from gpuproof.agent.ranks.rank_file import FOLDER_VARIABLE, HOST_VARIABLE
from gpuproof.agent.stall import FAULTHANDLER_VARIABLE
from gpuproof.gpu.cuda_compat import with_folder
from gpuproof.util import watched
from gpuproof.util.cgroup import group_name

_REGION_VARIABLES = ("AWS_REGION", "AWS_DEFAULT_REGION")
"""boto3 reads only the second, all other AWS libraries the first."""
# Makes `import gpuproof.runtime` work in the script, also from within the agent's archive, and times its steps; see what is in it.
_SHIMS = Path(__file__).parents[2] / "runtime" / "shims"


def plan_launch(
    job: AgentJob, paths: RunPaths, isolation: Isolation, machine: Machine, inherited: Mapping[str, str]
) -> Launch:
    """Return what the reaper starts.

    Raises:
        NotStarted: a program that the launcher needs is missing.
        OSError: a file for the launcher's programs could not be written.
    """
    if not isolation.names_resolve:
        # The hosts then share the machine's network.
        job = replace(job, addresses={**dict.fromkeys(job.hosts, "127.0.0.1"), **job.addresses})
    folder = f"{isolation.contract.base}/{code_folder(job)}"
    script = tuple(_program(job, paths, isolation))
    context = LaunchContext(job, paths, machine, script, _network_interface(machine))
    host = LAUNCHERS[job.launcher](context)
    variables = {**(pytorch_variables(context) if is_pytorch(context) else {}), **host.environment}
    command = [
        *isolation.prefix,
        *(["-w", folder] if isolation.prefix else []),
        *host.command,
    ]
    environment = _environment(context, isolation, inherited, variables)
    # A virtual environment that is not activated may have them, too.
    folders = os.pathsep.join((environment.get("PATH", os.defpath), str(Path(job.python).parent)))
    for program, remedy in host.programs.items():
        if shutil.which(program, path=folders) is None:
            raise NotStarted(
                f"{program} is not on this image's PATH, and the launcher {job.launcher} needs it: {remedy}"
            )
    for path, content in host.files.items():
        _write_private(path, content)
    # proot sets the working directory itself: the folder may not exist outside of it.
    return Launch(
        command,
        environment,
        "/" if isolation.prefix else folder,
        bool(isolation.prefix),
        group="" if isolation.mode == CONTAINER else group_name(job.run_id, _own_group_of(job)),
    )


def _write_private(path: Path, content: str) -> None:
    path.unlink(missing_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(content)


def _own_group_of(job: AgentJob) -> str:
    return job.current_host if len(job.hosts) > 1 else ""


def make_executable(job: AgentJob, paths: RunPaths) -> None:
    """Let an entry point that is no Python script be executed, as the training toolkit does: Git and archives lose the bit."""
    script = paths.ml / code_folder(job) / job.entry_point
    if job.machine is not None or job.entry_point.endswith(".py"):
        return
    with contextlib.suppress(OSError):  # the shell then reports why
        script.chmod(script.stat().st_mode | 0o111)


def is_package(job: AgentJob, paths: RunPaths) -> bool:
    """Whether the source is a package: with a `setup.py`, the training toolkit installs it and runs a module of it."""
    if job.machine is not None or job.entry_point == "setup.py":
        return False
    return (paths.ml / code_folder(job) / "setup.py").is_file()


def _program(job: AgentJob, paths: RunPaths, isolation: Isolation) -> list[str]:
    if job.machine is None:
        return _script(job, is_package=is_package(job, paths))
    from gpuproof.agent.machine.launch import machine_command  # most jobs have a script

    return machine_command(job, job.machine, isolation.contract, paths)


def _script(job: AgentJob, *, is_package: bool) -> list[str]:
    arguments = script_arguments(job)
    if job.entry_point.endswith(".py") and is_package:
        return [job.python, "-m", job.entry_point[: -len(".py")].replace("/", "."), *arguments]
    if job.entry_point.endswith(".py"):
        return [job.python, job.entry_point, *arguments]
    # The training toolkit starts all entry points other than Python like this.
    return ["/bin/sh", "-c", shlex.join([f"./{job.entry_point}", *arguments])]


def _network_interface(machine: Machine) -> str | None:
    """The interface that SageMaker names for traffic between hosts, if this host has it."""
    name = machine.resources.get("network_interface_name", NETWORK_INTERFACE)
    # Not /sys/class/net, which may show another network namespace.
    return name if name in (known for _, known in socket.if_nameindex()) else None


def _environment(
    context: LaunchContext,
    isolation: Isolation,
    inherited: Mapping[str, str],
    launch_variables: Mapping[str, str],
) -> dict[str, str]:
    job, paths = context.job, context.paths
    # What the user has set takes precedence over the launcher's variables.
    environment = {**launch_variables, **inherited}
    # As in AWS's images, so that output appears immediately; a user's own setting takes precedence.
    environment.setdefault("PYTHONUNBUFFERED", "1")
    if job.stall_timeout is not None:
        environment.setdefault(FAULTHANDLER_VARIABLE, "1")
    if job.region is not None:
        environment.update(dict.fromkeys(_REGION_VARIABLES, job.region))
    environment.update(job.environment)
    if job.notify is not None and job.notify.webhook_variable is not None:
        environment.pop(job.notify.webhook_variable, None)
    region = next((environment[name] for name in _REGION_VARIABLES if environment.get(name)), None)
    if region is not None:
        # The service sets AWS_REGION, and the toolkit of AWS's images this one.
        environment.setdefault("SAGEMAKER_REGION", region)
    environment.update(script_environment(job, isolation.contract, context.machine))
    environment.update(_runtime_variables(context))
    if job.visible_devices is not None:
        environment["CUDA_VISIBLE_DEVICES"] = job.visible_devices
    if context.machine.driver is not None:
        environment = with_folder(environment, context.machine.driver.folder)
    # What is changed on a machine takes precedence over its source.
    own = f"{isolation.contract.base}/{code_folder(job)}"
    folders = [own if job.machine is None else isolation.contract.checkpoints]
    if paths.packages.is_dir():
        folders.append(str(paths.packages))
        environment["PATH"] = f"{paths.packages / 'bin'}{os.pathsep}{environment.get('PATH', os.defpath)}"
    if environment.get("PYTHONPATH"):
        folders.append(environment["PYTHONPATH"])
    folders.append(str(_SHIMS))
    environment["PYTHONPATH"] = os.pathsep.join(folders)
    return environment


def _runtime_variables(context: LaunchContext) -> dict[str, str]:
    """Variables that tell `gpuproof.runtime` and the ranks more about the job than SageMaker's contract does."""
    job = context.job
    variables = {"GPUPROOF_THROUGHPUT": str(context.paths.throughput), watched.VARIABLE: watched.RUN}
    if job.step_times and job.machine is None:
        variables["GPUPROOF_STEPS"] = str(context.paths.steps)
    if job.launcher != NONE:
        variables["GPUPROOF_DISTRIBUTION"] = job.launcher
        variables[FOLDER_VARIABLE] = str(context.paths.ranks)
        variables[HOST_VARIABLE] = job.current_host
    if job.addresses or job.shared_network:
        addresses = {host: (context.address(host), context.port_offset(host)) for host in context.hosts}
        variables["GPUPROOF_HOST_ADDRESSES"] = json.dumps(addresses)
    if job.require_gpu is not None:
        variables["GPUPROOF_REQUIRE_GPU"] = str(int(job.require_gpu))
    if job.expected_gpus is not None:
        variables["GPUPROOF_EXPECTED_GPUS"] = str(job.expected_gpus)
    return variables
