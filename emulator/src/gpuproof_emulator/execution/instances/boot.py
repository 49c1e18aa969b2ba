"""The inside of a simulated EC2 instance: `machine.py` starts it with a file of settings.

It enters the instance's network, covers the machine's file systems with overlays, becomes process 1 of a namespace of its own,
serves the metadata service, and runs user data as cloud-init does. When it ends, the kernel ends everything in the instance.
"""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from gpuproof.agent.hosts import HostEntry, enter_host
from gpuproof.agent.hosts.rtnetlink import RtNetlink
from gpuproof.util.process_tree import die_with_parent
from gpuproof.util.sandbox import CLONE_NEWPID, bind, enter_root, mount, mount_memory, mount_points, unshare
from gpuproof_emulator.execution.instances.metadata_server import ADDRESS, serve_metadata

_SPECIAL = ("/proc", "/sys", "/dev", "/run")
_SHARED = "run/simulation"
_NOT_SHARED = (
    "docker",
    "nvidia-container-runtime",
    "nvidia-container-runtime-hook",
    "nvidia-container-toolkit",
)
"""Programs of the machine that an instance has not: its Docker is simulated, or there is none."""

_MODE = 0o755
_POLL_S = 0.02


def main() -> int:
    """Run the instance until it is powered off."""
    spec = json.loads(Path(sys.argv[1]).read_text())
    die_with_parent()
    enter_host(HostEntry.from_json(spec["entry"]))
    unshare(CLONE_NEWPID)
    child = os.fork()
    if child == 0:
        try:
            _be_init(spec)
        except BaseException:  # noqa: BLE001 - the forked child must not return
            import traceback

            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def _be_init(spec: dict[str, Any]) -> None:
    die_with_parent()
    shared = Path(spec["shared"])
    _enter_root(shared, Path(spec["disk"]), spec["small_disk_bytes"], local_disk=spec["local_disk"])
    with RtNetlink() as devices:
        devices.add_address("lo", ADDRESS, 32)
    known = Path(f"/{_SHARED}/metadata.json")
    serve_metadata(known)
    for folder in spec["environment"]["PATH"].split(":"):
        for name in _NOT_SHARED:
            if not folder.startswith(f"/{_SHARED}"):
                Path(folder, name).unlink(missing_ok=True)
    for path, content in spec["files"].items():
        _write_program(Path(path), content)
    script = Path("/var/lib/cloud/instance/scripts/part-001")
    _write_program(script, json.loads(known.read_text())["user-data"])
    Path(f"/{_SHARED}/booted").touch()
    with Path("/dev/console").open("ab") as console:
        subprocess.Popen(
            [str(script)],
            stdin=subprocess.DEVNULL,
            stdout=console,
            stderr=console,
            env=spec["environment"],
            cwd="/",
            start_new_session=True,
        )
    while not Path(f"/{_SHARED}/power-off").exists():
        time.sleep(_POLL_S)
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            pass


def _enter_root(shared: Path, disk: Path, small: int | None, *, local_disk: bool) -> None:
    """Cover all file systems, so that nothing that the instance writes reaches the machine."""
    mount_memory(disk)
    root = disk / "root"
    points = _mount_points(disk)
    root.mkdir()
    for number, point in enumerate(points):
        _cover(point, root, disk / str(number))
    for name in ("proc", "run", "sys", "dev"):
        (root / name).mkdir(exist_ok=True)
    mount("proc", f"{root}/proc", "proc", 0)
    # The only file with which a process of a namespace could power off the machine.
    trigger = root / "proc" / "sysrq-trigger"
    if trigger.exists():
        bind("/dev/null", trigger)
    mount("sysfs", f"{root}/sys", "sysfs", 0)
    bind("/dev", root / "dev")
    mount_memory(root / "dev" / "shm")
    bind(shared / "console", root / "dev" / "console")
    if Path("/dev/kmsg").exists():
        # The log of this machine's kernel: errors of its GPUs are not the instance's.
        bind("/dev/null", root / "dev" / "kmsg")
    mount_memory(root / "run")
    (root / _SHARED).mkdir()
    bind(shared, root / _SHARED)
    if small is not None:
        for name in ("opt/ml", "opt/gpuproof", "var/lib/docker"):
            folder = root / name
            folder.mkdir(parents=True, exist_ok=True)
            mount_memory(folder, f"size={small}")
    if local_disk:
        folder = root / "opt" / "dlami" / "nvme"
        folder.mkdir(parents=True, exist_ok=True)
        mount_memory(folder)
    enter_root(root)


def _mount_points(disk: Path) -> list[str]:
    skipped = (*_SPECIAL, str(disk))
    kept = {path for path in mount_points() if not any(f"{path}/".startswith(f"{root}/") for root in skipped)}
    return sorted(kept, key=len)


def _cover(point: str, root: Path, layers: Path) -> None:
    target = f"{root}{point}"
    if Path(point).is_dir():
        for name in ("upper", "work"):
            (layers / name).mkdir(parents=True)
        options = f"lowerdir={point},upperdir={layers}/upper,workdir={layers}/work"
        try:
            mount("overlay", target, "overlay", 0, options.encode())
            return
        except OSError:
            if point == "/":
                raise
    try:
        bind(point, target, with_mounts=False)
    except OSError:
        pass  # of no use for the instance


def _write_program(path: Path, content: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    # Not through a link to a file that others use.
    path.unlink(missing_ok=True)
    path.write_text(content)
    path.chmod(_MODE)


if __name__ == "__main__":
    ctypes.CDLL(None)  # before the machine's files are covered
    sys.exit(main())
