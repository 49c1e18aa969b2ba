"""Isolation of the script: a private `/opt/ml`, by the best means that this host allows.

Mount namespaces provide a private `/opt/ml` without Docker or root. If the host forbids them, `proot` does the same more
slowly. With neither, the script finds its folders only through `SM_*` variables and `SAGEMAKER_BASE_DIR`; hard-coded
`/opt/ml` paths do not work. In a container, `/opt/ml` exists already.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from gpuproof.agent.contract import code_folder
from gpuproof.agent.isolation.hosts_file import HOSTS_FILE, write_hosts_file
from gpuproof.agent.isolation.reaper import Reaper
from gpuproof.agent.job import AgentJob, Mount
from gpuproof.agent.paths import CONTRACT_ROOT, HOSTS_FILE_COPY, ContractPaths, RunPaths
from gpuproof.util.process_guard import Message
from gpuproof.util.sandbox import make_mount_point

NAMESPACE = "namespace"
PROOT = "proot"
ENVIRONMENT = "environment"
CONTAINER = "container"


class IsolationUnavailable(Exception):
    """The requested isolation is unavailable on this host; the message is the reason."""


@dataclass(frozen=True)
class Isolation:
    """How the script is isolated.

    Args:
        reaper: the process that starts it.
        mode: `namespace`, `proot`, `environment` or `container`.
        contract: the contract's folders as the script sees them.
        names_resolve: whether the names of the job's hosts resolve to their addresses.
    """

    reaper: Reaper
    mode: str
    contract: ContractPaths
    prefix: tuple[str, ...] = ()
    note: str = ""
    names_resolve: bool = True


def loopback_addresses(job: AgentJob) -> dict[str, str]:
    """Addresses of the job's hosts on the loopback device, where they share one network; empty otherwise.

    On Linux, the loopback device has all addresses from 127.0.0.1 to 127.255.255.254.
    """
    if job.shared_network or len(job.hosts) == 1:
        return {host: f"127.0.0.{number}" for number, host in enumerate(sorted(job.hosts), 1)}
    return {}


def isolate(job: AgentJob, paths: RunPaths) -> Isolation:
    """Fork the reaper with the best isolation available, or with the one that the job requests.

    Raises:
        IsolationUnavailable: the host does not offer the requested isolation, or an input does not exist.
    """
    if job.isolation == CONTAINER:
        # SageMaker or Docker provides the isolation.
        reaper = Reaper.start(None, ())
        reaper.message()
        return Isolation(reaper, CONTAINER, ContractPaths(str(paths.ml)))
    mounts = [*job.mounts]
    if job.kind == "training":
        mounts.append(Mount(job.checkpoints, "checkpoints", read_only=False))
    for mount in mounts:
        if not os.path.exists(mount.source):  # noqa: PTH110 - it may hold undecodable bytes
            raise IsolationUnavailable(f"{mount.source} no longer exists")
    refused = ""
    addresses = loopback_addresses(job)
    if job.isolation in ("auto", NAMESPACE):
        reaper, answer = _in_namespace(paths.ml, mounts, addresses)
        if reaper is not None:
            return Isolation(reaper, NAMESPACE, ContractPaths(), names_resolve="unresolved" not in answer)
        refused = answer["reason"]
        if job.isolation == NAMESPACE:
            raise IsolationUnavailable(f"this host does not allow a private {CONTRACT_ROOT}: {refused}")
    import shutil  # only without namespaces

    proot = shutil.which("proot")
    if job.isolation == PROOT and proot is None:
        raise IsolationUnavailable("proot is not installed")
    # proot treats a colon in a path as a separator.
    colons = any(":" in mount.source for mount in mounts)
    if proot is not None and not colons and job.isolation in ("auto", PROOT):
        reaper = Reaper.start(None, ())
        reaper.message()
        why = f" ({refused})" if refused else ""
        note = f"no mount namespaces on this host{why}: using proot, and inputs are not write-protected"
        prefix = _proot_prefix(proot, paths, mounts, addresses)
        return Isolation(reaper, PROOT, ContractPaths(), prefix, note)
    _link(paths.ml, mounts)
    reaper = Reaper.start(None, ())
    reaper.message()
    note = _note(refused, paths.ml / code_folder(job))
    if len(addresses) > 1:
        note += "; the names of the hosts do not resolve"
    return Isolation(
        reaper, ENVIRONMENT, ContractPaths(str(paths.ml)), note=note, names_resolve=not addresses
    )


def hard_coded_paths(code: Path, most: int = 3) -> list[str]:
    """Find hard-coded `/opt/ml` paths in Python and shell files, as `file:line`."""
    import re  # only without a private /opt/ml

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


def _in_namespace(
    ml: Path, mounts: list[Mount], addresses: Mapping[str, str]
) -> tuple[Reaper | None, Message]:
    if not sys.platform.startswith("linux"):
        return None, {"reason": f"{sys.platform} has no mount namespaces"}
    reaper = Reaper.start(ml, mounts, addresses)
    answer = reaper.message()
    if answer["entered"]:
        return reaper, answer
    reaper.close()
    os.close(reaper.output)
    return None, answer


def _proot_prefix(
    proot: str, paths: RunPaths, mounts: list[Mount], addresses: Mapping[str, str]
) -> tuple[str, ...]:
    binds = [f"{paths.ml}:{CONTRACT_ROOT}"]
    if addresses:
        file = paths.ml.with_name(HOSTS_FILE_COPY)
        write_hosts_file(file, addresses)
        binds.append(f"{file}:{HOSTS_FILE}")
    for mount in mounts:
        make_mount_point(mount.source, paths.ml / mount.target)
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
    note = f"no private {CONTRACT_ROOT} on this host{why}: SM_* variables and SAGEMAKER_BASE_DIR hold the job's folders, and inputs are not write-protected"
    places = hard_coded_paths(code)
    if places:
        note += f"; hard-coded {CONTRACT_ROOT} in {', '.join(places)} will not work"
    return note
