"""The Python interpreter of a command."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from gpuproof.watch.prefix.interpreter import find_interpreter


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder of programs, with an interpreter that is a symbolic link, as in a virtual environment."""
    (tmp_path / "python3").symlink_to(sys.executable)
    return tmp_path


def script(folder: Path, name: str, text: str) -> str:
    """A script on the path."""
    path = folder / name
    path.write_text(text)
    path.chmod(0o755)
    return name


def find(folder: Path, *command: str) -> str:
    return find_interpreter(command, {"PATH": f"{folder}:/usr/bin:/bin"})


def test_a_program_on_the_path_keeps_its_symbolic_link(folder: Path):
    assert find(folder, "python3", "train.py") == str(folder / "python3")


@pytest.mark.parametrize(
    "first",
    [
        "#!{folder}/python3",
        "#!/usr/bin/env python3",
        "#!/usr/bin/env -S A=1 python3 -u",
        '#!/bin/sh\n\'\'\'exec\' "{folder}/python3" "$0" "$@"',
    ],
)
def test_a_scripts_first_line_names_it(folder: Path, first: str):
    name = script(folder, "torchrun", first.format(folder=folder) + "\nimport torch\n")
    assert find(folder, name, "train.py") == str(folder / "python3")


def test_a_launcher_that_is_no_python_starts_one(folder: Path):
    script(folder, "mpirun", "#!/bin/sh\n")
    assert find(folder, "mpirun", "-n", "4", "python3", "train.py") == str(folder / "python3")


def test_other_programs_have_none(folder: Path):
    script(folder, "solver", "#!/bin/bash\n")
    assert find(folder, "solver", "--input", "python-data") == ""
    assert find(folder, "no-such-program") == ""
    assert find(folder, "/bin/ls") == ""
