"""The `docker run` command of a job, and how signals reach its container."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path

from gpuproof.agent.ec2_host.job_process import (
    AGENT,
    JobCommand,
    direct_hosts,
    job_variables,
    region_variables,
)
from gpuproof.agent.ec2_host.parameters import HostParameters
from gpuproof.agent.paths import CONTRACT_ROOT

_SIGNAL_S = 30.0
_STACK_BYTES = 64 << 20
_OPEN_FILES = 65536
_NOT_STARTED = range(125, 128)
"""Exit codes of docker run itself: https://docs.docker.com/engine/containers/run/#exit-status"""


def container_command(code: Path, parameters: HostParameters) -> JobCommand:
    """The command that runs the agent in a container of the job's image, as SageMaker does.

    Args:
        code: the folder with the agent, the source and `job.json`, below `/opt/ml`.

    Raises:
        OSError: the job's variables cannot be read.
        ValueError: they are no JSON object.
    """
    variables = {**region_variables(parameters), **job_variables(code)}
    variables.update(direct_hosts(variables, parameters.hosts))
    words = ["docker", "run", *_options(parameters)]
    for name, value in variables.items():
        words += ["--env", f"{name}={value}"]
    words += ["--entrypoint", "python3", parameters.image, str(code / AGENT), "--container", str(code)]
    return JobCommand(words, dict(os.environ), _Signals(parameters.run_id))


def start_failure(code: int, lines: Sequence[str]) -> list[str]:
    """Why a container did not start; empty if the exit code is one of the job.

    Args:
        lines: its last output.
    """
    if code not in _NOT_STARTED:
        return []
    shown = [line for line in lines if line.startswith("docker: ")] or lines[-3:]
    text = " ".join(" ".join(shown).split())
    return [f"the container could not be started: {text or 'docker run printed nothing'}"]


def _options(parameters: HostParameters) -> list[str]:
    options = [
        *("--rm", "--pull", "never", "--name", parameters.run_id),
        *("--label", f"gpuproof.run={parameters.run_id}"),
        # The output comes through the pipe; a copy of it would fill the root volume.
        *("--log-driver", "none"),
        # Of the host: the network for the metadata service and other hosts without a further hop, shared memory for
        # data loaders and NCCL, process ids for NVML, which reports those of the host.
        *("--network", "host", "--ipc", "host", "--pid", "host"),
        *("--ulimit", "memlock=-1", "--ulimit", f"stack={_STACK_BYTES}", "--ulimit", f"nofile={_OPEN_FILES}"),
        # /opt/ml belongs to root.
        *("--user", "0:0", "--workdir", "/"),
        *("--mount", f"type=bind,source={CONTRACT_ROOT},target={CONTRACT_ROOT}"),
    ]
    if len(parameters.hosts) > 1:
        options += ["--mount", "type=bind,source=/etc/hosts,target=/etc/hosts,readonly"]
    if parameters.gpus:
        options += ["--gpus", "all"]
    return options


class _Signals:
    """Sends signals to the container: those to the docker CLI may arrive before it, and SIGKILL would never reach it."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __call__(self, process: subprocess.Popen[bytes], number: int) -> bool:
        words = ["docker", "kill", "--signal", signal.Signals(number).name, self._name]
        try:
            done = subprocess.run(
                words,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                timeout=_SIGNAL_S,
                check=False,
            )
            delivered = done.returncode == 0
        except (OSError, subprocess.TimeoutExpired):
            delivered = False
        if not delivered and number == signal.SIGKILL:
            process.kill()  # the container has not started yet, or Docker does not answer
        return delivered
