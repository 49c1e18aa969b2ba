"""Control groups that end all their members."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from gpuproof.util.cgroup import add_to_group, create_group, end_group, group_name, is_group_of
from support.cli_sandbox import gone

NAME = "gpuproof-test-of-control-groups"


def test_a_group_ends_its_members_and_disappears() -> None:
    folder = create_group(NAME)
    if folder is None:
        pytest.skip("this host lets this user create no control groups")
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    assert add_to_group(folder, process.pid)
    end_group(folder)
    assert gone(process.pid)
    process.wait()
    assert not folder.exists()
    end_group(folder)
    assert not add_to_group(folder, process.pid)


def test_groups_of_the_same_run_do_not_end_each_other() -> None:
    first = create_group(NAME)
    if first is None:
        pytest.skip("this host lets this user create no control groups")
    end_group(first)
    second = create_group(NAME)
    assert second is not None
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    try:
        assert add_to_group(second, process.pid)
        end_group(first)
        assert not gone(process.pid, 0.2)
    finally:
        end_group(second)
        process.wait()


def test_a_group_is_told_from_other_folders() -> None:
    group = Path("/sys/fs/cgroup/user.slice") / f"{group_name('train-1')}.x1"
    assert is_group_of(group, "train-1")
    assert not is_group_of(group, "train-2")
    assert is_group_of(group.with_name(f"{group_name('train-1', 'algo-2')}.x1"), "train-1")
    assert not is_group_of(group.with_name(f"{group_name('train-10')}.x1"), "train-1")
    assert not is_group_of(Path("/home/me") / group.name, "train-1")
    assert not is_group_of(Path("/sys/fs/cgroup/../../../tmp") / group.name, "train-1")
