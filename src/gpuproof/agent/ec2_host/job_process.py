"""The job, in the process that SageMaker would run as a container."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Callable

from gpuproof.agent.ec2_host.parameters import HostParameters
from gpuproof.agent.ec2_host.transfer.log_stream import LogStream

_AGENT = "gpuproof-agent.pyz"
_ENVIRONMENT = "environment.json"
_MPI = ("/opt/amazon/openmpi/bin", "/opt/amazon/openmpi5/bin")
"""Where Deep Learning AMIs have mpirun, outside `PATH`:
https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/efa-start.html"""
_GRACE_S = 150.0
"""Seconds between SIGTERM and SIGKILL: the agent ends the script after 110 s at most, and writes the verdict."""
_SHORT_GRACE_S = 60.0
"""The same if the instance is taken away two minutes after the notice: the checkpoints come after it."""


class JobProcess:
    """The running job.

    Args:
        code: the folder with the agent, the source and `job.json`.
        parameters: the host's.
        log: reads the output.
        clock: seconds, of a monotonic clock.

    Raises:
        OSError: it cannot be started.
        ValueError: the environment that the client has sent is damaged.
    """

    def __init__(
        self,
        code: Path,
        parameters: HostParameters,
        log: LogStream,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._clock = clock
        self._kill_at: float | None = None
        environment = job_environment(code, parameters, os.environ)
        process = subprocess.Popen(
            ["python3", str(code / _AGENT), "--container", str(code)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd="/",
            env=environment,
            start_new_session=True,
        )
        self._process = process
        assert isinstance(process.stdout, io.BufferedReader)
        log.read(process.stdout)

    def stop(self, *, in_a_hurry: bool) -> None:
        """Ask it to end, and kill it after some time; only the first request counts.

        Args:
            in_a_hurry: leave less time.
        """
        if self._kill_at is None:
            self._kill_at = self._clock() + (_SHORT_GRACE_S if in_a_hurry else _GRACE_S)
            self._send(signal.SIGTERM)

    def poll(self) -> int | None:
        """Its exit code, as a shell reports it; None while it runs."""
        if self._kill_at is not None and self._clock() >= self._kill_at:
            self._send(signal.SIGKILL)
        code = self._process.poll()
        return None if code is None else code if code >= 0 else 128 - code

    def _send(self, number: int) -> None:
        try:
            self._process.send_signal(number)
        except ProcessLookupError:
            pass  # it has just ended


def job_environment(code: Path, parameters: HostParameters, outer: Mapping[str, str]) -> dict[str, str]:
    """The environment of the job: the framework's interpreter first in `PATH`, and the variables of the job description.

    Args:
        code: has `environment.json`, if the job has variables.
        outer: the environment of this program.

    Raises:
        OSError: the variables cannot be read.
        ValueError: they are no JSON object.
    """
    folders = [folder for folder in parameters.pythons if Path(folder, "python3").exists()]
    mpi = [folder for folder in _MPI if Path(folder).is_dir()]
    path = os.pathsep.join([*folders, outer.get("PATH", os.defpath), *mpi])
    region = {"AWS_REGION": parameters.region, "AWS_DEFAULT_REGION": parameters.region}
    try:
        own = json.loads((code / _ENVIRONMENT).read_bytes())
    except FileNotFoundError:
        own = {}
    if not isinstance(own, dict):
        raise ValueError(f"{_ENVIRONMENT} is no JSON object")
    return {**outer, **region, "PATH": path, **{name: str(value) for name, value in own.items()}}
