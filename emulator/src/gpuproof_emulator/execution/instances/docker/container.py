"""A container of the simulated docker: the instance's file systems in a mount namespace, without what is the host's own."""

from __future__ import annotations

import os
import resource
import shutil
import sys
from pathlib import Path

from gpuproof.util.sandbox import bind, enter_root, make_mount_point, mount_memory, own_mounts
from gpuproof_emulator.execution.instances.docker.run_options import Mount, RunOptions
from gpuproof_emulator.execution.instances.docker.settings import DockerSettings, SimulatedImage

NOT_FOUND = 127
"""The exit code of `docker run` if the entry point does not exist."""

_HIDDEN = ("run", "opt/ml", "opt/gpuproof", "opt/pytorch", "opt/tensorflow", "var/lib/docker")
"""Folders of the host that no image has."""

_SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_BIN = "/run/image/bin"
_NVIDIA_SMI = Path("/run/simulation/bin/nvidia-smi")
_LIMITS = {
    "memlock": resource.RLIMIT_MEMLOCK,
    "nofile": resource.RLIMIT_NOFILE,
    "stack": resource.RLIMIT_STACK,
}


def enter_and_execute(
    folder: Path, options: RunOptions, image: SimulatedImage, settings: DockerSettings
) -> None:
    """Turn this process into the entry point of a container; does not return.

    Args:
        folder: an empty folder for the container's root.

    Raises:
        OSError: a mount or the program is refused.
    """
    programs = {"python3": f'#!/bin/sh\nexec {image.python} "$@"\n'} if image.python else {}
    if options.gpus and _NVIDIA_SMI.exists():
        programs["nvidia-smi"] = _NVIDIA_SMI.read_text()  # the toolkit mounts the driver's programs
    os.setsid()
    own_mounts()
    _mount_root(folder, options.mounts)
    enter_root(folder)
    os.chdir(options.workdir)
    Path(_BIN).mkdir(parents=True)
    for name, content in programs.items():
        path = Path(_BIN, name)
        path.write_text(content)
        path.chmod(0o755)
    for name, (soft, hard) in options.limits.items():
        _set_limit(_LIMITS[name], _limit(soft), _limit(hard))
    folders = [_BIN, str(Path(image.python).parent)] if image.python else [_BIN]
    own = {"PATH": ":".join([*folders, _SYSTEM_PATH]), "HOME": "/root"}
    environment = {**own, **settings.environment, **options.environment}
    found = shutil.which(options.entrypoint, path=environment["PATH"] if image.python else _BIN)
    if found is None:
        print(
            "docker: Error response from daemon: failed to create task for container: failed to create shim task: OCI "
            "runtime create failed: runc create failed: unable to start container process: error during container init: "
            f'exec: "{options.entrypoint}": executable file not found in $PATH: unknown.',
            file=sys.stderr,
            flush=True,
        )
        os._exit(NOT_FOUND)
    os.execve(found, [options.entrypoint, *options.arguments], environment)  # noqa: S606 - the container's program


def _mount_root(root: Path, mounts: list[Mount]) -> None:
    bind("/", root)
    sources = [os.open(mount.source, os.O_PATH) for mount in mounts]  # some are hidden below
    for name in _HIDDEN:
        if (root / name).is_dir():
            mount_memory(root / name)
    for mount, descriptor in zip(mounts, sources, strict=True):
        target, source = root / mount.target.lstrip("/"), f"/proc/self/fd/{descriptor}"
        make_mount_point(source, target)
        bind(source, target, read_only=mount.readonly)
        os.close(descriptor)


def _set_limit(kind: int, soft: int, hard: int) -> None:
    try:
        resource.setrlimit(kind, (soft, hard))
    except ValueError:  # root of a container, unlike Docker's daemon, may not raise the hard limit
        most = resource.getrlimit(kind)[1]
        resource.setrlimit(kind, (min(soft, most) if soft >= 0 else most, most))


def _limit(value: int) -> int:
    return resource.RLIM_INFINITY if value == -1 else value
