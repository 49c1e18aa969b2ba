"""Packs the artifacts of a training job's hosts into one archive, as the agent does for several hosts of one machine."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from gpuproof.agent.artifacts.archive_create import pack
from gpuproof.agent.artifacts.archive_merge import merge_archives
from gpuproof_emulator.execution.container_paths import ROOT


def have_content(mls: Sequence[Path], name: str) -> bool:
    """Whether a folder of any host contains something.

    Args:
        mls: the `/opt/ml` of each host.
        name: of the folder below it.
    """
    return any((ml / name).is_dir() and any((ml / name).iterdir()) for ml in mls)


def pack_artifacts(mls: Sequence[Path], name: str, archive: Path) -> None:
    """Pack a folder of all hosts; of files with the same name, the first host's is kept.

    Args:
        mls: the `/opt/ml` of each host.
        name: of the folder below it; hosts without it are left out.
        archive: the `.tar.gz` to write.

    Raises:
        ArtifactError: a folder cannot be read, or the archive cannot be written.
    """
    having = [ml for ml in mls if (ml / name).is_dir()]
    if len(having) == 1:
        pack(having[0] / name, archive, seen_as={ROOT: having[0]})
        return
    parts = [archive.with_name(f"{number}-{archive.name}") for number in range(len(having))]
    for ml, part in zip(having, parts, strict=True):
        pack(ml / name, part, seen_as={ROOT: ml})
    merge_archives(parts, archive)
    for part in parts:
        part.unlink()
