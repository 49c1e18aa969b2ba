"""One simulated instance: a process that boots user data in a network, with disks and programs of its own.

    with Machine(folder, {"user-data": "#!/bin/sh\\necho hello >/dev/console\\nshutdown -h now\\n"}) as machine:
        machine.wait()
        machine.console     # "hello\\n"

As root only. `nvidia-smi`, `shutdown` and their like are stubs; the AWS CLI, Python and the rest are the computer's own, below file
systems that keep what the instance writes in memory.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Self

from gpuproof.agent.hosts import Egress, HostNetwork
from gpuproof_emulator.execution.instances.aws_cli import find_aws_cli
from gpuproof_emulator.execution.instances.docker.settings import FILE as DOCKER_FILE
from gpuproof_emulator.execution.instances.docker.settings import DockerSettings
from gpuproof_emulator.execution.instances.programs import SYSTEM_STUBS, module_program, wrapper

_BOOT = "gpuproof_emulator.execution.instances.boot"
_DOCKER = "gpuproof_emulator.execution.instances.docker.program"
_HOST = "algo-1"
_SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_STANDARD = {
    "PATH": f"/run/simulation/bin:{_SYSTEM_PATH}",
    "AWS_CONFIG_FILE": "/nonexistent",
    "AWS_SHARED_CREDENTIALS_FILE": "/nonexistent",
    "LC_ALL": "C.UTF-8",
}


class Machine:
    """A simulated instance; it boots when entered, and nothing of it is left when it is left.

    Args:
        folder: an empty folder.
        metadata: what the metadata service knows, by path below `latest/`; `user-data` is the script that is run.
        environment: variables of user data.
        programs: shell scripts first in its `PATH`, by name, in addition to the usual ones.
        files: further shell scripts, by path.
        egress: what it reaches; None is nothing.
        host: a network of several machines, and its name there; it has a network of its own if None, and else ignores `egress`.
        aws_cli: path of the AWS CLI.
        local_disk: whether there is an NVMe disk, mounted as on Deep Learning AMIs.
        small_disk_bytes: size of the file systems at `/opt/ml`, `/opt/gpuproof` and `/var/lib/docker`; None is no limit.
        docker: its Docker; None if it has none.
    """

    def __init__(
        self,
        folder: Path,
        metadata: Mapping[str, str],
        *,
        environment: Mapping[str, str] | None = None,
        programs: Mapping[str, str] | None = None,
        files: Mapping[str, str] | None = None,
        egress: Egress | None = None,
        host: tuple[HostNetwork, str] | None = None,
        aws_cli: str | None = None,
        local_disk: bool = False,
        small_disk_bytes: int | None = None,
        docker: DockerSettings | None = None,
    ) -> None:
        self.folder = folder
        self._shared = folder / "shared"
        self._shared.mkdir(parents=True)
        self._metadata = dict(metadata)
        self._environment = environment or {}
        self._programs = {
            "aws": wrapper(aws_cli or find_aws_cli() or "aws"),
            **SYSTEM_STUBS,
            **({"docker": module_program(_DOCKER)} if docker is not None else {}),
            **(programs or {}),
        }
        self._files = files or {}
        self._egress = egress
        self._host = host
        self._local_disk = local_disk
        self._small = small_disk_bytes
        self._docker = docker

    def __enter__(self) -> Self:
        """Boot.

        Raises:
            NetworkUnavailable: this computer allows no network namespaces.
        """
        programs = self._shared / "bin"
        programs.mkdir()
        for name, content in self._programs.items():
            (programs / name).write_text(content)
            (programs / name).chmod(0o755)
        self._console.touch()
        (self.folder / "disk").mkdir()
        self.metadata()
        if self._host is None:
            self.hosts, name = HostNetwork.create([_HOST], self._egress), _HOST
        else:
            self.hosts, name = self._host
        try:
            self._process = self._start(name)
        except BaseException:
            self._close_network()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.end()
        self._process.wait()
        self._close_network()

    def end(self) -> None:
        """End it at once, as a power cut does."""
        # Its process 1 dies with it, and everything in the namespace with that.
        self._process.kill()

    def wait(self, seconds: float | None = None) -> int:
        """Wait until it is powered off; returns 0, or another code if it was ended or could not boot.

        Raises:
            subprocess.TimeoutExpired: it still runs after so many seconds.
        """
        return self._process.wait(seconds)

    @property
    def is_on(self) -> bool:
        """Whether it still runs."""
        return self._process.poll() is None

    @property
    def has_booted(self) -> bool:
        """Whether user data was started."""
        return (self._shared / "booted").exists()

    def metadata(self, **changes: str) -> None:
        """Change what the metadata service knows, by path; `machine.metadata(**{"meta-data/spot": "{}"})`."""
        self.replace_metadata({**self._metadata, **changes})

    def replace_metadata(self, known: Mapping[str, str]) -> None:
        """Replace all that the metadata service knows."""
        self._metadata = dict(known)
        self.write("metadata.json", json.dumps(self._metadata))

    def write(self, name: str, text: str) -> None:
        """Write a file that the instance sees at `/run/simulation/NAME`."""
        new = self._shared / f"{name}.new"
        new.write_text(text)
        new.replace(self._shared / name)

    def has(self, name: str) -> bool:
        """Whether there is `/run/simulation/NAME`, which something on the instance may have created."""
        return (self._shared / name).exists()

    @property
    def console(self) -> str:
        """The console's output so far."""
        return self._console.read_text(errors="replace")

    @property
    def output(self) -> str:
        """What the simulation itself has printed: why it could not boot."""
        return (self.folder / "output").read_text(errors="replace")

    @property
    def calls(self) -> Sequence[str]:
        """Calls of stubs of the init system: program and arguments."""
        events = self._shared / "events"
        return events.read_text().splitlines() if events.exists() else []

    def processes(self) -> list[int]:
        """Ids of the processes that are in its network."""
        found: list[int] = []
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                if (folder / "ns" / "net").stat().st_ino == self._namespace:
                    found.append(int(folder.name))
            except OSError:
                continue  # it has just ended
        return found

    @property
    def _console(self) -> Path:
        return self._shared / "console"

    def _close_network(self) -> None:
        if self._host is None:
            self.hosts.close()

    def _start(self, name: str) -> subprocess.Popen[bytes]:
        entry = self.hosts.entry(name)
        self._namespace = Path(f"/proc/{entry.holder}/fd/{entry.network}").stat().st_ino
        variables = {**self._environment, **self.hosts.environment}
        if self._docker is not None:
            known = replace(self._docker, environment={**variables, **self._docker.environment})
            self.write(DOCKER_FILE, known.to_json())
        spec = {
            "entry": entry.to_json(),
            "shared": str(self._shared),
            "disk": str(self.folder / "disk"),
            "local_disk": self._local_disk,
            "small_disk_bytes": self._small,
            "environment": {**_STANDARD, **variables},
            "files": dict(self._files),
        }
        settings = self.folder / "spec.json"
        settings.write_text(json.dumps(spec))
        with (self.folder / "output").open("wb") as output:
            return subprocess.Popen(
                [sys.executable, "-P", "-m", _BOOT, str(settings)],
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                # Ctrl-C in the terminal must not reach it.
                start_new_session=True,
            )
