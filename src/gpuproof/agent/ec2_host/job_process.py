"""The job, in the process that SageMaker would run as a container."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Callable

from gpuproof.agent.ec2_host.contract_files import AGENT
from gpuproof.agent.ec2_host.parameters import HostParameters
from gpuproof.agent.ec2_host.transfer.log_stream import LogStream

_ENVIRONMENT = "environment.json"
_MPI = ("/opt/amazon/openmpi/bin", "/opt/amazon/openmpi5/bin")
"""Where Deep Learning AMIs have mpirun, outside `PATH`:
https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/efa-start.html"""
_GRACE_S = 150.0
"""Seconds between SIGTERM and SIGKILL: the agent ends the script after 110 s at most, and writes the verdict."""
_REPEAT_S = 2.0
_SHORT_GRACE_S = 60.0
"""The same if the instance is taken away two minutes after the notice: the checkpoints come after it."""


Signals = Callable[["subprocess.Popen[bytes]", int], bool]
"""Sends a signal to the job of a process; returns whether it has reached it."""


def send_signal(process: subprocess.Popen[bytes], number: int) -> bool:
    """Send a signal to a job that is the process itself."""
    try:
        process.send_signal(number)
    except ProcessLookupError:
        pass  # it has just ended
    return True


@dataclass(frozen=True)
class JobCommand:
    """How a job is started."""

    words: Sequence[str]
    environment: Mapping[str, str]
    send: Signals = send_signal


class JobProcess:
    """The running job.

    Args:
        clock: seconds, of a monotonic clock.

    Raises:
        OSError: it cannot be started.
    """

    def __init__(
        self, command: JobCommand, log: LogStream, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._command = command
        self._clock = clock
        self._kill_at: float | None = None
        self._terminate_at: float | None = None
        process = subprocess.Popen(
            command.words,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd="/",
            env=command.environment,
            start_new_session=True,
        )
        self._process = process
        assert isinstance(process.stdout, io.BufferedReader)
        log.read(process.stdout)

    def stop(self, *, in_a_hurry: bool) -> None:
        """Ask it to end, and kill it after some time; only the first request counts."""
        if self._kill_at is None:
            now = self._clock()
            self._kill_at = now + (_SHORT_GRACE_S if in_a_hurry else _GRACE_S)
            self._terminate_at = now
            self._send_due()

    def poll(self) -> int | None:
        """Its exit code, as a shell reports it; None while it runs."""
        code = self._process.poll()
        if code is None:
            self._send_due()
            return None
        return code if code >= 0 else 128 - code

    def _send_due(self) -> None:
        """Send the signals that are due; again after some seconds if they did not reach the job, or did not end it."""
        now = self._clock()
        if self._kill_at is not None and now >= self._kill_at:
            self._kill_at = now + _REPEAT_S
            self._command.send(self._process, signal.SIGKILL)
        elif self._terminate_at is not None and now >= self._terminate_at:
            delivered = self._command.send(self._process, signal.SIGTERM)
            self._terminate_at = None if delivered else now + _REPEAT_S


def host_command(code: Path, parameters: HostParameters) -> JobCommand:
    """The command of a job that runs on the host itself.

    Args:
        code: the folder with the agent, the source and `job.json`.

    Raises:
        OSError: the variables of the job cannot be read.
        ValueError: they are no JSON object.
    """
    words = ["python3", str(code / AGENT), "--container", str(code)]
    return JobCommand(words, job_environment(code, parameters, os.environ))


def job_environment(code: Path, parameters: HostParameters, outer: Mapping[str, str]) -> dict[str, str]:
    """The environment of the job: the framework's interpreter first in `PATH`, and the variables of the job description.

    Args:
        code: has `environment.json`, if the job has variables.

    Raises:
        OSError: the variables cannot be read.
        ValueError: they are no JSON object.
    """
    folders = [folder for folder in parameters.pythons if Path(folder, "python3").exists()]
    mpi = [folder for folder in _MPI if Path(folder).is_dir()]
    path = os.pathsep.join([*folders, outer.get("PATH", os.defpath), *mpi])
    found = {**outer, **region_variables(parameters), "PATH": path, **job_variables(code)}
    return {**found, **direct_hosts(found, parameters.hosts)}


def direct_hosts(environment: Mapping[str, str], hosts: Sequence[str]) -> dict[str, str]:
    """The variables with which programs reach the other hosts without a proxy: gRPC would ask a proxy for their names.

    Args:
        hosts: names of all hosts.
    """
    given = {name.lower(): value for name, value in environment.items() if name.lower().endswith("_proxy")}
    if len(hosts) < 2 or not given:
        return {}
    direct = [part.strip() for part in given.get("no_proxy", "").split(",") if part.strip()]
    listed = ",".join([*direct, *(host for host in hosts if host not in direct)])
    return {"no_proxy": listed, "NO_PROXY": listed, "no_grpc_proxy": listed}


def region_variables(parameters: HostParameters) -> dict[str, str]:
    """The variables that name the region to AWS's libraries."""
    return {"AWS_REGION": parameters.region, "AWS_DEFAULT_REGION": parameters.region}


def job_variables(code: Path) -> dict[str, str]:
    """The variables of the job description; as `job_environment`."""
    try:
        own = json.loads((code / _ENVIRONMENT).read_bytes())
    except FileNotFoundError:
        return {}
    if not isinstance(own, dict):
        raise ValueError(f"{_ENVIRONMENT} is no JSON object")
    return {name: str(value) for name, value in own.items()}
