"""The world in which the script runs: the best that this host allows.

Namespaces give a private `/opt/ml`, with neither Docker nor root. Where the host forbids them, `proot` does the same
more slowly. Where there is neither, the script finds its folders through `SM_*` variables and `SAGEMAKER_BASE_DIR`
alone, and a script that spells `/opt/ml` out does not find them. In a container all of it is there already.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path

from gpuproof.agent.contract import code_folder
from gpuproof.agent.isolation.opt_ml_mounts import prepare_mount_point
from gpuproof.agent.isolation.reaper import Reaper
from gpuproof.agent.job import AgentJob, Mount
from gpuproof.agent.paths import CONTRACT_ROOT, ContractPaths, RunPaths

NAMESPACE = "namespace"
PROOT = "proot"
ENVIRONMENT = "environment"
CONTAINER = "container"


class NoSuchWorld(Exception):
    """The isolation that was asked for is not to be had here; the message says why."""


@dataclass(frozen=True)
class World:
    """Where and how the script will run.

    Args:
        reaper: the process that will start it.
        isolation: `namespace`, `proot`, `environment` or `container`.
        contract: the contract's folders as the script sees them.
        prefix: what to put before the script's command.
        note: what a person should know about it.
    """

    reaper: Reaper
    isolation: str
    contract: ContractPaths
    prefix: tuple[str, ...] = ()
    note: str = ""


def make_world(job: AgentJob, paths: RunPaths) -> World:
    """Fork the reaper into the best world there is, or into the one that the job names.

    Raises:
        NoSuchWorld: the job names one that this host does not offer.
    """
    if job.isolation == CONTAINER:
        # SageMaker, or Docker, has made the world already.
        reaper = Reaper.start(None, ())
        reaper.message()
        return World(reaper, CONTAINER, ContractPaths(str(paths.ml)))
    mounts = [*job.mounts]
    if job.kind == "training":
        mounts.append(Mount(job.checkpoints, "checkpoints", read_only=False))
    for mount in mounts:
        if not os.path.exists(mount.source):  # noqa: PTH110 - it may hold undecodable bytes
            raise NoSuchWorld(f"{mount.source} is not there any more")
    refused = ""
    if job.isolation in ("auto", NAMESPACE):
        reaper, refused = _in_namespace(paths.ml, mounts)
        if reaper is not None:
            return World(reaper, NAMESPACE, ContractPaths())
        if job.isolation == NAMESPACE:
            raise NoSuchWorld(f"this host allows no private {CONTRACT_ROOT}: {refused}")
    import shutil  # only where there are no namespaces

    proot = shutil.which("proot")
    if job.isolation == PROOT and proot is None:
        raise NoSuchWorld("proot is not installed")
    # proot takes a colon in a path for its own.
    colons = any(":" in mount.source for mount in mounts)
    if proot is not None and not colons and job.isolation in ("auto", PROOT):
        reaper = Reaper.start(None, ())
        reaper.message()
        why = f" ({refused})" if refused else ""
        note = f"no mount namespace on this host{why}: proot stands in, and inputs are not write-protected"
        return World(reaper, PROOT, ContractPaths(), _proot_prefix(proot, paths.ml, mounts), note)
    _link(paths.ml, mounts)
    reaper = Reaper.start(None, ())
    reaper.message()
    return World(
        reaper, ENVIRONMENT, ContractPaths(str(paths.ml)), note=_note(refused, paths.ml / code_folder(job))
    )


def literal_uses(code: Path, most: int = 3) -> list[str]:
    """Places in Python and shell files that spell `/opt/ml` out, as `file:line`."""
    import re  # only where there is no private /opt/ml

    found: list[str] = []
    pattern = re.compile(rb"/opt/ml\b")
    for path in sorted(code.rglob("*")):
        if path.suffix not in (".py", ".sh") or not path.is_file():
            continue
        for number, line in enumerate(path.read_bytes().splitlines(), 1):
            if pattern.search(line):
                found.append(f"{path.relative_to(code)}:{number}")
                break
        if len(found) == most:
            break
    return found


def _in_namespace(ml: Path, mounts: list[Mount]) -> tuple[Reaper | None, str]:
    if not sys.platform.startswith("linux"):
        return None, f"{sys.platform} has no mount namespaces"
    reaper = Reaper.start(ml, mounts)
    answer = reaper.message()
    if answer["entered"]:
        return reaper, ""
    reaper.close()
    os.close(reaper.output)
    return None, answer["reason"]


def _proot_prefix(proot: str, ml: Path, mounts: list[Mount]) -> tuple[str, ...]:
    binds = [f"{ml}:{CONTRACT_ROOT}"]
    for mount in mounts:
        prepare_mount_point(mount, ml)
        binds.append(f"{mount.source}:{CONTRACT_ROOT}/{mount.target}")
    flags = [part for bind in binds for part in ("-b", bind)]
    return (proot, *flags)


def _link(ml: Path, mounts: list[Mount]) -> None:
    for mount in mounts:
        target = ml / mount.target
        target.parent.mkdir(parents=True, exist_ok=True)
        if target.is_dir() and not target.is_symlink():
            target.rmdir()
        target.unlink(missing_ok=True)
        target.symlink_to(mount.source)


def _note(refused: str, code: Path) -> str:
    why = f" ({refused})" if refused else ""
    note = f"no private {CONTRACT_ROOT} on this host{why}: the job's folders are in SM_* variables and SAGEMAKER_BASE_DIR, and inputs are not write-protected"
    places = literal_uses(code)
    if places:
        note += f"; {', '.join(places)} spells {CONTRACT_ROOT} out and will not find them"
    return note
