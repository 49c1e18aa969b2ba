"""A simulated EC2 instance, on which real user data boots: network, metadata service, disks and programs of its own.

    with SimulatedInstance(tmp_path, job) as instance:
        instance.wait_until_off()
        instance.calls     # ["shutdown -h now"]

As root only. `nvidia-smi`, `shutdown` and their like are stubs; the AWS CLI, Python and the rest are the machine's.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self
from urllib.parse import urlsplit

import pytest

from gpuproof.agent.hosts import Egress, Forward, HostNetwork, NetworkUnavailable
from support.aws_cli import aws_cli
from support.aws_emulator import REGION, RunningEmulator

_BOOT = Path(__file__).with_name("simulated_boot.py")
_PATIENCE_S = 240.0
_ROLE = "gpuproof-host"
_GPU = "GPU {number}: NVIDIA A10G (UUID: GPU-0000000{number})"
_FIRST = """#!/bin/sh
echo "$(basename "$0") $*" >> /run/simulation/events
"""
_STUBS = {
    "shutdown": f'{_FIRST}case "$*" in *now) touch /run/simulation/power-off; sleep 60;; esac\n',
    "systemctl": f"{_FIRST}exit 1\n",
    "systemd-run": f"{_FIRST}exit 0\n",
    **dict.fromkeys(("poweroff", "reboot", "halt"), f"{_FIRST}exit 1\n"),
}


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


class SimulatedInstance:
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
        stubs: further programs, or other ones, by name.
        environment: further variables of user data.
        host: a network of several instances, and the name in it of this one; its own if None.
        index: the number of the instance among those of its launch.
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
        stubs: Mapping[str, str] | None = None,
        environment: Mapping[str, str] | None = None,
        host: tuple[HostNetwork, str] | None = None,
        index: int = 0,
    ) -> None:
        require_simulated_instance()
        self._folder = folder
        self._shared = folder / "shared"
        self._shared.mkdir(parents=True)
        self._local_disk = local_disk
        self._small = small_disk_bytes
        lines = "\n".join(_GPU.format(number=number) for number in range(gpus))
        listing = nvidia_smi or f"#!/bin/sh\ncat <<'END'\n{lines}\nEND\n"
        self._stubs = {**_STUBS, "nvidia-smi": listing, **(stubs or {})}
        self._emulator = emulator = job.emulator
        self._network = network
        self._environment = environment or {}
        self._host = host
        keys = emulator.client("sts").assume_role(
            RoleArn=emulator.role, RoleSessionName="i-0123456789abcdef0"
        )
        self._metadata = {
            "user-data": job.user_data if script is None else script,
            "meta-data/instance-id": "i-0123456789abcdef0",
            "meta-data/placement/region": REGION,
            "meta-data/ami-launch-index": str(index),
            "meta-data/local-ipv4": "10.77.0.1" if host is None else host[0].addresses[host[1]],
            "meta-data/iam/security-credentials/": _ROLE,
            f"meta-data/iam/security-credentials/{_ROLE}": _role_document(keys["Credentials"]),
        }

    def __enter__(self) -> Self:
        programs = self._shared / "bin"
        programs.mkdir()
        for name, content in {"aws": f'#!/bin/sh\nexec {aws_cli()} "$@"\n', **self._stubs}.items():
            (programs / name).write_text(content)
            (programs / name).chmod(0o755)
        (self._shared / "console").touch()
        (self._folder / "disk").mkdir()
        self.metadata()
        if self._host is None:
            self.hosts, name = (
                simulated_network(["algo-1"], self._emulator if self._network else None),
                "algo-1",
            )
        else:
            self.hosts, name = self._host
        entry = self.hosts.entry(name)
        self._namespace = os.stat(f"/proc/{entry.holder}/fd/{entry.network}").st_ino
        spec = {
            "entry": entry.to_json(),
            "shared": str(self._shared),
            "disk": str(self._folder / "disk"),
            "local_disk": self._local_disk,
            "small_disk_bytes": self._small,
            "environment": {
                "PATH": "/run/simulation/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
                "AWS_ENDPOINT_URL": self._emulator.url,
                "AWS_CONFIG_FILE": "/nonexistent",
                "AWS_SHARED_CREDENTIALS_FILE": "/nonexistent",
                "LC_ALL": "C.UTF-8",
                **self._environment,
            },
        }
        settings = self._folder / "spec.json"
        settings.write_text(json.dumps(spec))
        self._output = (self._folder / "output").open("w+")
        self._process = subprocess.Popen(
            [sys.executable, str(_BOOT), str(settings)],
            stdin=subprocess.DEVNULL,
            stdout=self._output,
            stderr=self._output,
            start_new_session=True,
        )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        # Its process 1 dies with it, and everything in the namespace with that.
        self._process.kill()
        self._process.wait()
        self._output.close()
        if self._host is None:
            self.hosts.close()
        if kind is not None:
            print(self.console)

    def metadata(self, **changes: str) -> None:
        """Change what the metadata service knows, by path; `instance.metadata(**{"meta-data/spot": "{}"})`."""
        self._metadata.update(changes)
        new = self._shared / "metadata.new"
        new.write_text(json.dumps(self._metadata))
        new.replace(self._shared / "metadata.json")

    def write(self, name: str, text: str) -> None:
        """Write a file that the instance sees at `/run/simulation/NAME`."""
        new = self._shared / f"{name}.new"
        new.write_text(text)
        new.replace(self._shared / name)

    @property
    def console(self) -> str:
        """The console's output so far."""
        return (self._shared / "console").read_text(errors="replace")

    @property
    def calls(self) -> Sequence[str]:
        """Calls of stubs that record them: program and arguments."""
        events = self._shared / "events"
        return events.read_text().splitlines() if events.exists() else []

    def processes(self) -> list[int]:
        """Ids of the processes that are in the instance's network."""
        found: list[int] = []
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                if os.stat(folder / "ns" / "net").st_ino == self._namespace:
                    found.append(int(folder.name))
            except OSError:
                continue  # it has just ended
        return found

    def wait_for(self, text: str) -> None:
        """Wait for a text on the console."""
        end = time.monotonic() + _PATIENCE_S
        while text not in self.console:
            assert self._process.poll() is None, f"it is off: {self.console}"
            assert time.monotonic() < end, f"no {text!r}: {self.console}"
            time.sleep(0.05)

    def wait_for_file(self, name: str) -> None:
        """Wait until something on the instance has created `/run/simulation/NAME`."""
        end = time.monotonic() + _PATIENCE_S
        while not (self._shared / name).exists():
            assert self._process.poll() is None, f"it is off: {self.console}"
            assert time.monotonic() < end, f"no {name}: {self.console}"
            time.sleep(0.05)

    def wait_until_off(self) -> None:
        """Wait until user data, or its watchdog, has shut the instance down; nothing of it is left then."""
        try:
            code = self._process.wait(_PATIENCE_S)
        except subprocess.TimeoutExpired:
            pytest.fail(f"the instance still runs: {self.calls}\n{self.console}")
        assert code == 0, (self._folder / "output").read_text()
        assert "shutdown -h now" in self.calls
        assert self.processes() == []


def simulated_network(names: Sequence[str], emulator: RunningEmulator | None) -> HostNetwork:
    """A network of instances, which must be closed; skips the test where there can be none.

    Args:
        names: the instances' names.
        emulator: the account that they reach; None is nothing.
    """
    egress = None
    if emulator is not None:
        egress = Egress([Forward("127.0.0.1", urlsplit(emulator.url).port or 80, "127.0.0.1")])
    try:
        return HostNetwork.create(names, egress)
    except NetworkUnavailable as why:
        pytest.skip(f"this machine allows no network namespaces: {why}")


def require_simulated_instance() -> None:
    """Skip the test where there can be no simulated instance."""
    if not sys.platform.startswith("linux") or os.geteuid() != 0:
        pytest.skip("a simulated instance requires root on Linux")
    if shutil.which("bash") is None or shutil.which("setsid") is None:
        pytest.skip("user data requires bash and setsid")
    if not aws_cli():
        pytest.skip("the AWS CLI is not installed, and cannot be")


def _role_document(keys: Mapping[str, object]) -> str:
    return json.dumps(
        {
            "Code": "Success",
            "Type": "AWS-HMAC",
            "LastUpdated": "2026-01-01T00:00:00Z",
            "AccessKeyId": keys["AccessKeyId"],
            "SecretAccessKey": keys["SecretAccessKey"],
            "Token": keys["SessionToken"],
            "Expiration": "2099-01-01T00:00:00Z",
        }
    )
