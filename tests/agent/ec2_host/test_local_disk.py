"""The folder of the job is on all local disks, or the note says why it is on the root volume."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from gpuproof.agent.ec2_host.setup import local_disk
from gpuproof.agent.ec2_host.setup.local_disk import DiskPaths, use_local_disk

pytestmark = pytest.mark.slow

DISK_BYTES = 32 << 20


@dataclass
class Disks:
    """A machine with loop devices as its local disks."""

    root: Path
    paths: DiskPaths
    loops: list[str]

    @property
    def folder(self) -> Path:
        """The folder that is mounted on them."""
        return self.root / "ml"

    def add(self) -> str:
        """Add a blank disk; returns its device."""
        image = self.root / f"disk-{len(self.loops)}"
        with image.open("wb") as file:
            file.truncate(DISK_BYTES)
        done = subprocess.run(
            ["losetup", "--find", "--show", str(image)], capture_output=True, text=True, check=False
        )
        if done.returncode:
            pytest.skip(f"this machine has no loop devices: {done.stderr}")
        device = done.stdout.strip()
        self.loops.append(device)
        name = f"nvme-Amazon_EC2_NVMe_Instance_Storage_AWS{len(self.loops):04d}"
        for link in (name, f"{name}-ns-1"):
            (self.paths.by_id / link).symlink_to(device)
        return device

    def use(self, *, expected: bool = False) -> str | None:
        """Put the folder on them; returns the note."""
        found = use_local_disk(self.folder, lambda _: time.sleep(0.01), expected=expected, paths=self.paths)
        assert found is None or found.is_local == bool(self.source)
        return None if found is None else found.note

    @property
    def source(self) -> str:
        """What is mounted at the folder; empty if nothing is."""
        done = subprocess.run(
            ["findmnt", "-n", "-o", "SOURCE", "--mountpoint", str(self.folder)],
            capture_output=True,
            text=True,
            check=False,
        )
        return done.stdout.strip()


@pytest.fixture
def disks(tmp_path: Path) -> Iterator[Disks]:
    if os.geteuid() != 0:
        pytest.skip("mounting needs root")
    paths = DiskPaths(tmp_path / "nvme", tmp_path / "by-id", tmp_path / "dev")
    for path in (paths.mounted, paths.by_id, paths.devices):
        path.mkdir()
    machine = Disks(tmp_path, paths, [])
    yield machine
    for path in (machine.folder, paths.mounted):
        subprocess.run(["umount", str(path)], capture_output=True, check=False)
    for device in machine.loops:
        subprocess.run(["losetup", "--detach", device], check=False)


Programs = Callable[..., Path]


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Programs:
    """Puts shell scripts into `PATH`; each records its call in the file whose path is returned."""

    def make(**scripts: str) -> Path:
        folder, calls = tmp_path / "bin", tmp_path / "calls"
        folder.mkdir(exist_ok=True)
        for name, script in scripts.items():
            program = folder / name
            program.write_text(f'#!/bin/sh\necho "{name} $*" >> {calls}\n{script}\n')
            program.chmod(0o755)
        monkeypatch.setenv("PATH", str(folder), prepend=":")
        return calls

    make(systemctl="exit 5", vgcreate="exit 127", mdadm="exit 127")
    return make


def test_a_blank_disk_is_formatted_and_mounted(disks: Disks, programs: Programs) -> None:
    device = disks.add()
    assert disks.use() == f"{disks.folder} is on the local disk ({device})"
    assert disks.source == device
    (disks.folder / "file").write_text("works")


def test_the_unit_of_the_machine_image_is_awaited_before_looking(disks: Disks, programs: Programs) -> None:
    """It mounts the disks in parallel to user data, and would format the same ones."""
    device = disks.add()
    mounted = disks.paths.mounted
    calls = programs(systemctl=f"sleep 0.3; mkfs.ext4 -q -F {device} && mount {device} {mounted}")
    assert disks.use() == f"{disks.folder} is on the local disk ({mounted})"
    assert calls.read_text() == "systemctl start dlami-nvme.service\n"
    assert disks.source == f"{device}[/gpuproof]"


def test_disks_of_a_unit_that_does_not_finish_are_left_alone(
    disks: Disks, programs: Programs, monkeypatch: pytest.MonkeyPatch
) -> None:
    disks.add()
    programs(systemctl="exec sleep 600")
    monkeypatch.setattr(local_disk, "_UNIT_S", 1.0)
    note = f"{disks.folder} is on the root volume: dlami-nvme.service has not finished within 1 s"
    assert disks.use() == note
    assert disks.source == ""


def test_a_disk_that_somebody_has_formatted_is_not_taken(disks: Disks, programs: Programs) -> None:
    device = disks.add()
    subprocess.run(["mkfs.ext4", "-q", "-F", device], check=True)
    assert disks.use() == f"{disks.folder} is on the root volume: the local disks ({device}) are in use"


def test_disks_that_are_expected_and_missing_are_reported(disks: Disks, programs: Programs) -> None:
    assert disks.use() is None
    assert "the instance type has local disks, and none was found" in (disks.use(expected=True) or "")


def test_several_disks_are_striped_with_lvm(disks: Disks, programs: Programs) -> None:
    first, second = disks.add(), disks.add()
    volume = disks.paths.devices / "gpuproof" / "ml"
    # A stand-in for the device mapper: the volume is the second disk.
    calls = programs(vgcreate="exit 0", lvcreate=f"mkdir {volume.parent}; ln -s {second} {volume}")
    assert disks.use() == f"{disks.folder} is on the local disk (2 disks as {volume})"
    assert calls.read_text().splitlines()[1:] == [
        f"vgcreate -y gpuproof {first} {second}",
        "lvcreate -y -i 2 -I 64 -l 100%FREE -n ml gpuproof",
    ]
    assert disks.source == second


def test_without_lvm_several_disks_are_striped_with_mdadm(disks: Disks, programs: Programs) -> None:
    first, second = disks.add(), disks.add()
    array = disks.paths.devices / "md" / "gpuproof"
    calls = programs(mdadm=f"mkdir {array.parent}; ln -s {second} {array}")
    assert disks.use() == f"{disks.folder} is on the local disk (2 disks as {array})"
    assert calls.read_text().splitlines()[-1] == (
        f"mdadm --create {array} --run --level=0 --raid-devices=2 {first} {second}"
    )


def test_where_nothing_can_stripe_them_one_disk_is_used_and_the_note_says_why(
    disks: Disks, programs: Programs
) -> None:
    first, _ = disks.add(), disks.add()
    programs(vgcreate="echo no device mapper >&2; exit 5", mdadm="echo no raid0 >&2; exit 1")
    assert disks.use() == (
        f"{disks.folder} is on the local disk ({first}, one of 2: no device mapper; no raid0)"
    )
    assert disks.source == first
