"""Cache of objects downloaded from S3.

`objects/` holds each object under a name derived from its bucket, key and ETag. `channels/` holds a folder of hard links
to them for each listing that a run has used: such a folder never changes, so running jobs keep their inputs. `partial/`
holds downloads in progress, which are ignored.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
import shutil
import time
from collections.abc import Iterable
from pathlib import Path

from gpuproof.backends.aws import S3Object
from gpuproof.backends.s3_inputs.mapping import Layout

_OLD_SECONDS = 86400.0


class S3Cache:
    """The folders of the cache.

    Args:
        root: where they are; `make` creates them.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self._partial = root / "partial"

    def make(self) -> None:
        """Create the folders, and remove old partial files of downloads that were killed."""
        for folder in (self._partial, self.root / "objects", self.root / "channels"):
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        for left in self._partial.iterdir():
            with contextlib.suppress(OSError):
                if time.time() - left.stat().st_mtime > _OLD_SECONDS:
                    shutil.rmtree(left) if left.is_dir() else left.unlink()

    def channel(self, layout: Layout) -> Path:
        """The folder of a listing's files, which may not exist yet."""
        name = _digest(f"{path}\0{item}\0{item.etag}" for path, item in sorted(layout.files.items()))
        return self.root / "channels" / name

    def missing(self, layout: Layout) -> list[S3Object]:
        """The objects of a listing that must be downloaded before `link`."""
        return [item for item in layout.files.values() if not _is_unchanged(self._object(item), item)]

    def is_complete(self, layout: Layout) -> bool:
        """Whether every file of a listing exists."""
        folder = self.channel(layout)
        return all(_is_unchanged(folder / path, item) for path, item in layout.files.items())

    def new_partial(self) -> Path:
        """A new unique path on the same file system."""
        return self._partial / secrets.token_hex(8)

    def add(self, partial: Path, item: S3Object) -> None:
        """Add an object whose download is complete."""
        partial.chmod(0o444)
        stamp = int(item.modified)
        os.utime(partial, (stamp, stamp))
        final = self._object(item)
        final.parent.mkdir(exist_ok=True, mode=0o700)
        partial.replace(final)

    def link(self, layout: Layout) -> None:
        """Create the folder of a listing's files, or repair the existing one."""
        folder = self.channel(layout)
        if folder.is_dir():
            self._fill(layout, folder)
            return
        building = self.new_partial()
        try:
            self._fill(layout, building)
            building.rename(folder)
        except OSError:
            shutil.rmtree(building, ignore_errors=True)
            # Another process may have created the same folder in the meantime.
            if not self.is_complete(layout):
                raise

    def _object(self, item: S3Object) -> Path:
        name = _digest([f"{item}\0{item.etag}"])
        return self.root / "objects" / name[:2] / name

    def _fill(self, layout: Layout, folder: Path) -> None:
        made: set[Path] = set()
        for path, item in layout.files.items():
            target = folder / path
            if target.parent not in made:
                target.parent.mkdir(parents=True, exist_ok=True)
                made.add(target.parent)
            if not _is_unchanged(target, item):
                temporary = self.new_partial()
                _link_or_copy(self._object(item), temporary)
                temporary.replace(target)


def _is_unchanged(path: Path, item: S3Object) -> bool:
    """Whether a file is the unchanged object: writing to it would have changed its modification time."""
    try:
        status = path.stat()
    except OSError:
        return False
    return status.st_size == item.size and status.st_mtime == int(item.modified)


def _link_or_copy(source: Path, target: Path) -> None:
    try:
        target.hardlink_to(source)
    except OSError:
        # A file system without hard links, or one file with too many.
        shutil.copy2(source, target)


def _digest(texts: Iterable[str]) -> str:
    digest = hashlib.sha256()
    for text in texts:
        digest.update(text.encode("utf-8", "surrogatepass"))
        digest.update(b"\n")
    return digest.hexdigest()[:40]
