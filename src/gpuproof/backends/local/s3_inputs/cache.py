"""What was downloaded from S3, kept so that nothing is downloaded twice.

`objects/` holds each object under a name made of its bucket, key and ETag. `channels/` holds, for each listing that
was ever asked for, a folder of hard links to them: it never changes, so a run that goes on keeps what it began with.
`partial/` holds what is on its way; what lies there counts for nothing.
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
from gpuproof.backends.local.s3_inputs.mapping import Layout

_ABANDONED_SECONDS = 86400.0


class S3Cache:
    """The folders of the cache.

    Args:
        root: where they are; made by `make`.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self._partial = root / "partial"

    def make(self) -> None:
        """Make the folders, and remove what a download that was killed has left."""
        for folder in (self._partial, self.root / "objects", self.root / "channels"):
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        for left in self._partial.iterdir():
            with contextlib.suppress(OSError):
                if time.time() - left.stat().st_mtime > _ABANDONED_SECONDS:
                    shutil.rmtree(left) if left.is_dir() else left.unlink()

    def channel(self, layout: Layout) -> Path:
        """Where the files of a listing lie, there or not."""
        name = _digest(f"{path}\0{item}\0{item.etag}" for path, item in sorted(layout.files.items()))
        return self.root / "channels" / name

    def missing(self, layout: Layout) -> list[S3Object]:
        """The objects of a listing that must be downloaded before `link` can lay them out."""
        return [item for item in layout.files.values() if not _is_whole(self._object(item), item)]

    def is_complete(self, layout: Layout) -> bool:
        """Whether every file of a listing lies in its place."""
        folder = self.channel(layout)
        return all(_is_whole(folder / path, item) for path, item in layout.files.items())

    def spare(self) -> Path:
        """A path that nobody else has, on the same file system."""
        return self._partial / secrets.token_hex(8)

    def keep(self, partial: Path, item: S3Object) -> None:
        """Make a file that has arrived in full the object's."""
        partial.chmod(0o444)
        stamp = int(item.modified)
        os.utime(partial, (stamp, stamp))
        final = self._object(item)
        final.parent.mkdir(exist_ok=True, mode=0o700)
        partial.replace(final)

    def link(self, layout: Layout) -> None:
        """Make a listing's folder of its objects, or mend the one that is there."""
        folder = self.channel(layout)
        if folder.is_dir():
            self._fill(layout, folder)
            return
        building = self.spare()
        try:
            self._fill(layout, building)
            building.rename(folder)
        except OSError:
            shutil.rmtree(building, ignore_errors=True)
            # Another run may have made the same folder meanwhile.
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
            if not _is_whole(target, item):
                beside = self.spare()
                _link_or_copy(self._object(item), beside)
                beside.replace(target)


def _is_whole(path: Path, item: S3Object) -> bool:
    """Whether a file is the object as it was downloaded: a script that wrote to it has changed its time."""
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
