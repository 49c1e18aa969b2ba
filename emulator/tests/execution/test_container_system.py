"""A container's own files and host name, as root and as a plain user; this machine's stay as they are."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from gpuproof_emulator.execution.container_system import ContainerSystem

ALLOWED = (
    subprocess.run(["unshare", "--user", "--mount", "--uts", "true"], capture_output=True).returncode == 0
)
pytestmark = pytest.mark.skipif(not ALLOWED, reason="this host allows no user namespaces")
AS_PLAIN_USER = ["unshare", "--user", "--map-user=1000", "--map-group=1000"]
_ENTER = """
import json, os, socket, sys
from gpuproof_emulator.execution.container_system import ContainerSystem, enter_system
system, program = json.loads(sys.argv[1])
enter_system(ContainerSystem(**system), on_host=False)
exec(program)
"""


@pytest.fixture(params=["current", "plain"])
def user(request: pytest.FixtureRequest) -> list[str]:
    """What starts a program as the current user, or as a plain user without privileges."""
    if request.param == "plain" and os.geteuid() != 0:
        pytest.skip("the current user is a plain user")
    return AS_PLAIN_USER if request.param == "plain" else []


def run(system: ContainerSystem, program: str, user: list[str]) -> Any:
    """What a program in a container prints as JSON."""
    words = [*user, sys.executable, "-c", _ENTER, json.dumps([system.to_dict(), program])]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """A folder of the machine: a file, a folder with a file, and links."""
    folder = tmp_path / "machine"
    (folder / "sub").mkdir(parents=True)
    (folder / "file").write_text("the machine's")
    (folder / "sub" / "inner").write_text("inner")
    (folder / "relative").symlink_to("sub/inner")
    (folder / "dead").symlink_to("nowhere")
    return folder


def test_a_file_of_the_machine_is_covered(tmp_path: Path, machine: Path, user: list[str]) -> None:
    own = tmp_path / "own"
    own.write_text("the container's")
    path = str(machine / "file")
    system = ContainerSystem("algo-1", str(tmp_path / "stage"), {path: str(own)})
    program = f"open({path!r}, 'a').write(' and more'); print(json.dumps(open({path!r}).read()))"
    assert run(system, program, user) == "the container's and more"
    assert (machine / "file").read_text() == "the machine's"


@pytest.mark.parametrize("name", ["new", "dead"])
def test_a_file_that_the_machine_lacks_exists_in_the_container_only(
    tmp_path: Path, machine: Path, user: list[str], name: str
) -> None:
    own = tmp_path / "own"
    own.write_text("#!/bin/sh\necho program\n")
    own.chmod(0o755)
    paths = [str(machine / name), str(machine / "another")]
    before = sorted(os.listdir(machine))
    system = ContainerSystem("algo-1", str(tmp_path / "stage"), dict.fromkeys(paths, str(own)))
    program = f"print(json.dumps([os.popen(path).read() for path in {paths!r}]))"
    assert run(system, program, user) == ["program\n", "program\n"]
    assert sorted(os.listdir(machine)) == before
    assert not (machine / name).exists()


def test_in_a_folder_the_machines_entries_are_found_and_new_ones_are_the_containers(
    tmp_path: Path, machine: Path, user: list[str]
) -> None:
    stage = machine / "sub" / "stage"  # the emulator's state may be below the covered folder
    system = ContainerSystem("algo-1", str(stage), folders=[str(machine)])
    program = f"""
os.chdir({str(machine)!r})
open("new", "w").write("new")
os.unlink("file")
print(json.dumps([open("relative").read(), os.listdir("sub"), os.path.exists("new"), os.path.exists("file")]))
"""
    relative, below, *exist = run(system, program, user)
    assert (relative, sorted(below), exist) == ("inner", ["inner", "stage"], [True, False])
    assert sorted(os.listdir(machine)) == ["dead", "file", "relative", "sub"]
    assert (machine / "file").read_text() == "the machine's"


def test_the_container_has_its_own_host_name(tmp_path: Path, user: list[str]) -> None:
    before = socket.gethostname()
    system = ContainerSystem("algo-7", str(tmp_path / "stage"))
    assert run(system, "print(json.dumps(socket.gethostname()))", user) == "algo-7"
    assert socket.gethostname() == before


def test_without_a_stage_nothing_changes() -> None:
    print_name = "print(json.dumps(socket.gethostname()))"
    assert run(ContainerSystem(), print_name, []) == socket.gethostname()


def test_programs_come_first_on_the_path() -> None:
    assert ContainerSystem(programs="/own").environment({"PATH": "/bin"}) == {"PATH": "/own:/bin"}
    assert ContainerSystem().environment({"PATH": "/bin"}) == {"PATH": "/bin"}
