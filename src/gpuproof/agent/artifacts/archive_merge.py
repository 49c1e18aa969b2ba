"""Merges the archives of several hosts into one, as SageMaker merges their `/opt/ml/model` folders."""

from __future__ import annotations

import tarfile
import zlib
from collections.abc import Sequence
from pathlib import Path, PurePosixPath

from gpuproof.agent.artifacts.archive_create import ArtifactError, PackResult, new_archive


def merge_archives(archives: Sequence[Path], merged: Path) -> PackResult:
    """Merge `.tar.gz` files that `pack` has written; of members with the same name, the first archive's is kept.

    Args:
        archives: in the order of the hosts.

    Raises:
        ArtifactError: an archive cannot be read, or the merged one cannot be written.
    """
    merger = _Merger()
    with new_archive(merged) as (target, digest):
        for archive in archives:
            merger.add(archive, target)
    return PackResult(merger.files, merger.bytes, digest())


class _Merger:
    """Copies members from one tar stream after the other, each name once."""

    def __init__(self) -> None:
        self.files = 0
        self.bytes = 0
        self._folders: set[str] = set()
        self._others: set[str] = set()

    def add(self, archive: Path, target: tarfile.TarFile) -> None:
        try:
            with tarfile.open(archive, "r:gz", encoding="utf-8", errors="surrogateescape") as source:
                self._add(source, target)
        except (OSError, EOFError, zlib.error, tarfile.TarError) as error:
            raise ArtifactError(f"{archive} cannot be read: {error}.") from error

    def _add(self, source: tarfile.TarFile, target: tarfile.TarFile) -> None:
        skipped: set[str] = set()
        for member in source:
            if member.isdir():
                if member.name not in self._folders and not self._is_taken(member.name):
                    self._folders.add(member.name)
                    target.addfile(member)
            elif member.name in self._folders or self._is_taken(member.name):
                skipped.add(member.name)
            else:
                self._others.add(member.name)
                self.files += 1
                self._copy(member, source, target, skipped)

    def _copy(
        self, member: tarfile.TarInfo, source: tarfile.TarFile, target: tarfile.TarFile, skipped: set[str]
    ) -> None:
        if member.islnk() and member.linkname in skipped:
            # Its file was left out, and another host's has taken the name: the link becomes a file.
            content = source.extractfile(member)
            assert content is not None
            size = source.getmember(member.linkname).size
            member.type, member.linkname, member.size = tarfile.REGTYPE, "", size
            skipped.discard(member.name)
            target.addfile(member, content)
            self.bytes += size
        elif member.isreg():
            target.addfile(member, source.extractfile(member))
            self.bytes += member.size
        else:
            target.addfile(member)

    def _is_taken(self, name: str) -> bool:
        """Whether an earlier host has something else than a folder at the name, or above it."""
        return name in self._others or any(
            str(parent) in self._others for parent in PurePosixPath(name).parents
        )
