"""A simulated EC2 instance, on which real user data boots, without `RunInstances`.

    with SimulatedInstance(tmp_path, job) as instance:
        instance.wait_until_off()
        instance.calls     # ["shutdown -h now"]

It is the machine of `gpuproof emulator --boot-instances`. As root only.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import time
from collections.abc import Generator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self
from urllib.parse import urlsplit

import pytest

from gpuproof.agent.hosts import Egress, Forward, HostNetwork, NetworkUnavailable
from gpuproof_emulator.execution.instances.docker.settings import DockerSettings
from gpuproof_emulator.execution.instances.machine import Machine
from gpuproof_emulator.execution.instances.metadata import role_metadata
from gpuproof_emulator.execution.instances.programs import nvidia_smi as stub_nvidia_smi
from gpuproof_emulator.execution.instances.requirements import missing_requirement
from support.aws_cli import aws_cli
from support.aws_emulator import REGION, RunningEmulator

_PATIENCE_S = 300.0
_ROLE = "gpuproof-host"
_INSTANCE = "i-0123456789abcdef0"


class Launched(Protocol):
    """What an instance was launched for."""

    @property
    def emulator(self) -> RunningEmulator:
        """The account that it reaches."""
        ...

    @property
    def user_data(self) -> str:
        """Its user data."""
        ...


class SimulatedInstance(Machine):
    """A simulated instance; it boots when entered, and is gone when left.

    Args:
        folder: an empty folder.
        job: what it was launched for.
        script: other user data than the job's.
        gpus: GPUs that `nvidia-smi -L` lists.
        nvidia_smi: another shell script for `nvidia-smi`.
        local_disk: whether there is an NVMe disk, mounted as on Deep Learning AMIs.
        small_disk_bytes: size of the file systems at `/opt/ml` and `/opt/gpuproof`.
        network: whether it reaches anything.
        programs: further programs that come first in `PATH`, as shell scripts by name.
        environment: further variables of user data.
        host: a network of several instances, and the name in it of this one; its own if None.
        index: the number of the instance among those of its launch.
        docker: its Docker; None if the machine image has none.
    """

    def __init__(
        self,
        folder: Path,
        job: Launched,
        *,
        script: str | None = None,
        gpus: int = 1,
        nvidia_smi: str | None = None,
        local_disk: bool = False,
        small_disk_bytes: int | None = None,
        network: bool = True,
        programs: Mapping[str, str] | None = None,
        environment: Mapping[str, str] | None = None,
        host: tuple[HostNetwork, str] | None = None,
        index: int = 0,
        docker: DockerSettings | None = None,
    ) -> None:
        require_simulated_instance()
        emulator = job.emulator
        keys = emulator.client("sts").assume_role(RoleArn=emulator.role, RoleSessionName=_INSTANCE)
        super().__init__(
            folder,
            {
                "user-data": job.user_data if script is None else script,
                "meta-data/instance-id": _INSTANCE,
                "meta-data/placement/region": REGION,
                "meta-data/ami-launch-index": str(index),
                "meta-data/local-ipv4": "10.77.0.1" if host is None else host[0].addresses[host[1]],
                **role_metadata(_ROLE, keys["Credentials"]),
            },
            environment={"AWS_ENDPOINT_URL": emulator.url, **(environment or {})},
            programs={
                "nvidia-smi": nvidia_smi or stub_nvidia_smi(["NVIDIA A10G"] * gpus),
                **(programs or {}),
            },
            egress=_egress(emulator if network else None),
            host=host,
            aws_cli=aws_cli(),
            local_disk=local_disk,
            small_disk_bytes=small_disk_bytes,
            docker=docker,
        )

    def __enter__(self) -> Self:
        try:
            return super().__enter__()
        except NetworkUnavailable as why:
            pytest.skip(f"this machine allows no network namespaces: {why}")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        super().__exit__(kind, error, traceback)
        if kind is not None:
            print(self.console)

    def wait_for(self, text: str) -> None:
        """Wait for a text on the console."""
        end = time.monotonic() + _PATIENCE_S
        while text not in self.console:
            assert self.is_on, f"it is off: {self.console}"
            assert time.monotonic() < end, f"no {text!r}: {self.console}"
            time.sleep(0.05)

    def wait_for_file(self, name: str) -> None:
        """Wait until something on the instance has created `/run/simulation/NAME`."""
        end = time.monotonic() + _PATIENCE_S
        while not self.has(name):
            assert self.is_on, f"it is off: {self.console}"
            assert time.monotonic() < end, f"no {name}: {self.console}"
            time.sleep(0.05)

    def wait_until_off(self) -> None:
        """Wait until user data, or its watchdog, has shut the instance down; nothing of it is left then."""
        try:
            code = self.wait(_PATIENCE_S)
        except subprocess.TimeoutExpired:
            pytest.fail(f"the instance still runs: {self.calls}\n{self.console}")
        assert code == 0, self.output
        assert "shutdown -h now" in self.calls
        assert self.processes() == []


def simulated_network(names: Sequence[str], emulator: RunningEmulator | None) -> HostNetwork:
    """A network of instances, which must be closed; skips the test where there can be none.

    Args:
        names: the instances' names.
        emulator: the account that they reach; None is nothing.
    """
    try:
        return HostNetwork.create(names, _egress(emulator))
    except NetworkUnavailable as why:
        pytest.skip(f"this machine allows no network namespaces: {why}")


def _egress(emulator: RunningEmulator | None) -> Egress | None:
    if emulator is None:
        return None
    return Egress([Forward("127.0.0.1", urlsplit(emulator.url).port or 80, "127.0.0.1")])


def require_simulated_instance() -> None:
    """Skip the test where there can be no simulated instance."""
    if reason := missing_requirement(aws_cli()):
        pytest.skip(reason)


@contextlib.contextmanager
def aws_cli_in_path() -> Generator[None]:
    """For `gpuproof emulator --boot-instances`, which looks for the AWS CLI in `PATH`."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", f"{os.environ['PATH']}{os.pathsep}{Path(aws_cli()).parent}")
        yield
