"""A container without Docker: namespaces, and a root folder that shows this machine's with other files mounted into it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

_NAMESPACES = ("unshare", "--mount", "--pid", "--fork", "--kill-child")
_DEVICES = ("null", "zero", "full", "random", "urandom", "shm")
# Builds the root folder and becomes the command, as process 1.
_ENTER = """
import json, os, subprocess, sys
root, mounts, devices, folder, command = json.loads(sys.argv[1])
def mount(*words):
    subprocess.run(["mount", *words], check=True)
def bind(source, target):
    path = root + target
    if os.path.isdir(source):
        os.makedirs(path, exist_ok=True)
    else:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        open(path, "a").close()
    mount("--bind", source, path)
mount("-t", "tmpfs", "tmpfs", root)
for name in os.listdir("/"):
    if os.path.islink("/" + name):
        os.symlink(os.readlink("/" + name), root + "/" + name)
    elif name not in ("dev", "proc") and os.path.isdir("/" + name):
        os.mkdir(root + "/" + name)
        mount("--rbind", "/" + name, root + "/" + name)
os.mkdir(root + "/proc")
mount("-t", "proc", "proc", root + "/proc")
for name in devices:
    if os.path.exists("/dev/" + name):
        bind("/dev/" + name, "/dev/" + name)
for target, source in mounts.items():
    bind(source, target)
os.chroot(root)
os.chdir(folder)
os.execvpe(command[0], command, os.environ)
"""


def skip_without_namespaces() -> None:
    """Skip the test where no containers are allowed."""
    if subprocess.run([*_prefix(), "true"], capture_output=True).returncode != 0:
        pytest.skip("this host allows no mount and PID namespaces: unshare --mount --pid --fork")


def start_container(
    command: Sequence[str],
    root: Path,
    *,
    mounts: Mapping[str, Path],
    folder: Path,
    environment: Mapping[str, str],
) -> subprocess.Popen[str]:
    """Start a container whose process 1 is the command.

    Args:
        root: an empty folder.
        mounts: files and folders of this machine, by their paths in the container.
        folder: the working folder.
    """
    shown = {target: str(source) for target, source in mounts.items()}
    parameters = json.dumps([str(root), shown, _DEVICES, str(folder), list(command)])
    return subprocess.Popen(
        [*_prefix(), sys.executable, "-c", _ENTER, parameters],
        env=dict(environment),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def _prefix() -> tuple[str, ...]:
    user = () if os.geteuid() == 0 else ("--user", "--map-root-user")
    return (*_NAMESPACES[:1], *user, *_NAMESPACES[1:])
