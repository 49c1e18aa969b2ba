"""What a container has in place of this machine's: files, in a mount namespace of its own, and a host name."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from gpuproof.util.sandbox import bind, make_mount_point, own_mounts

_MACHINE = ".machine"


@dataclass(frozen=True)
class ContainerSystem:
    """What a container has in place of this machine's, which stays as it is.

    Args:
        hostname: its host name, if it runs in the machine's network; hosts of a network have their own.
        stage: a folder of the container's disk for what is made to show files; empty if all is this machine's.
        files: paths, and the files or folders that are shown there, whether this machine has something there or not.
        folders: folders in which the container finds this machine's entries, and in which its new entries are its own.
        programs: folder that precedes all others on `PATH`; empty for none.
    """

    hostname: str = ""
    stage: str = ""
    files: Mapping[str, str] = field(default_factory=dict)
    folders: Sequence[str] = ()
    programs: str = ""

    def environment(self, variables: Mapping[str, str]) -> dict[str, str]:
        """The container's variables, in which `PATH` begins with the folder of programs."""
        if not self.programs:
            return dict(variables)
        path = os.pathsep.join([self.programs, variables.get("PATH", os.defpath)])
        return {**variables, "PATH": path}

    def to_dict(self) -> dict[str, Any]:
        """The arguments."""
        return asdict(self)


def enter_system(system: ContainerSystem, *, on_host: bool) -> None:
    """Move this process, which must have one thread, to a container's system; its children will be in it, too.

    Args:
        on_host: whether it has entered a host of a network, and so has mounts and a host name of its own.

    Raises:
        OSError: a step is refused. The process must end then.
    """
    if not system.stage:
        return
    if not on_host:
        own_mounts(system.hostname)
    stage = Path(system.stage)
    covered: set[Path] = set()
    for path in system.folders:
        _cover_folder(Path(path), stage, covered)
    for path, source in system.files.items():
        target = Path(path)
        if not target.exists():
            _cover_folder(target.parent, stage, covered)
            target.unlink(missing_ok=True)  # a dead link
            make_mount_point(source, target)
        bind(source, target, with_mounts=False)


def _cover_folder(folder: Path, stage: Path, covered: set[Path]) -> None:
    """Show a folder of links to this machine's entries in place of a folder of this machine, unless it is shown already."""
    folder = folder.resolve(strict=True)
    if folder in covered:
        return
    covered.add(folder)
    own = stage / str(folder).strip("/").replace("/", "-")
    machine, machine_entries = own / _MACHINE, folder / _MACHINE
    machine.mkdir(parents=True, mode=0o755)
    for entry in set(folder.iterdir()):  # a folder that changes meanwhile may list a name twice
        try:
            link = entry.readlink()
        except OSError:  # no link, or gone
            link = machine_entries / entry.name
        (own / entry.name).symlink_to(link)
    bind(folder, machine)
    bind(own, folder)
