"""What a traced script has changed in files, and the functions of `os` that show it its own changes."""

from __future__ import annotations

import contextlib
import errno
import os
import threading
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any


class FileChanges:
    """Files and folders as a script believes that they are, by their real paths.

    Attributes:
        copies: files in the scratch folder that take the place of those that it wrote.
        moved: files that stay where they are, by the places where it believes them to be; they must not be written.
        made: folders that it made.
        removed: files and folders that it removed.
    """

    def __init__(self) -> None:
        self.copies: dict[str, Path] = {}
        self.moved: dict[str, Path] = {}
        self.made: set[str] = set()
        self.removed: set[str] = set()

    def write(self, place: str, copy: Path) -> None:
        """A file was written."""
        self.copies[place] = copy
        self.moved.pop(place, None)
        self.removed.discard(place)

    def move(self, place: str, target: str, *, keep: bool) -> None:
        """A file of the script's folders was renamed or linked.

        Args:
            keep: whether it remains in the old place, too.
        """
        content = self.content_of(place)
        if content is None and (self.is_removed(place) or not Path(place).is_file()):
            return
        if content is not None and place in self.copies:
            self.write(target, content)
        else:
            self.copies.pop(target, None)
            self.moved[target] = content or Path(place)
            self.removed.discard(target)
        if not keep:
            self.remove(place)

    def content_of(self, place: str) -> Path | None:
        """The file with the content of one that was written or moved; None for others."""
        return self.copies.get(place) or self.moved.get(place)

    def make(self, place: str) -> None:
        """A folder was made; what was in a removed one of this name stays removed."""
        self.made.add(place)

    def remove(self, place: str) -> None:
        """A file, or a folder with everything in it, was removed."""
        for own in (self.copies, self.moved, self.made):
            for path in [path for path in own if path == place or path.startswith(f"{place}{os.sep}")]:
                own.pop(path) if isinstance(own, dict) else own.remove(path)
        if os.path.lexists(place):
            self.removed.add(place)

    def is_removed(self, place: str) -> bool:
        """Whether a file or folder was removed, or one that it is in."""
        if not self.removed or place in self.made or self.content_of(place) is not None:
            return False
        return place in self.removed or any(
            place.startswith(f"{removed}{os.sep}") for removed in self.removed
        )

    def added_to(self, folder: str) -> dict[str, Path | None]:
        """What was written into a folder, by its name; None for folders."""
        found: dict[str, Path | None] = {
            Path(path).name: None for path in self.made if _parent(path) == folder
        }
        for files in (self.moved, self.copies):
            found.update((Path(file).name, copy) for file, copy in files.items() if _parent(file) == folder)
        return found

    def within(self, folder: str) -> bool:
        """Whether a folder was made, or anything in it was changed."""
        changed = (*self.copies, *self.moved, *self.made, *self.removed)
        return folder in self.made or any(path.startswith(f"{folder}{os.sep}") for path in changed)

    @property
    def exist(self) -> bool:
        """Whether anything was changed."""
        return bool(self.copies or self.moved or self.made or self.removed)


class FileView:
    """Functions of `os` that read files and folders with a script's own changes.

    Args:
        changes: of the script.
        folder: an existing one, which stands for those that the script made.
        find_place: returns the real path of a file, by its path, the descriptor of its folder, and whether a link is followed.
    """

    def __init__(
        self, changes: FileChanges, folder: Path, find_place: Callable[[Any, int | None, bool], str | None]
    ) -> None:
        self._changes = changes
        self._folder = folder
        self._find_place = find_place
        self._thread = threading.local()

    def functions(self) -> dict[Any, Callable[..., Any]]:
        """The functions of `os` and those that take their place."""
        return {
            os.stat: self._of_path(os.stat),
            os.lstat: self._of_path(os.lstat, follow=False),
            os.access: self._access(os.access),
            os.listdir: self._list(os.listdir),
            os.scandir: self._scan(os.scandir),
        }

    @contextlib.contextmanager
    def off(self) -> Generator[None, None, None]:
        """Context in which this thread sees files as they are, as for finding a real path."""
        before = getattr(self._thread, "off", False)
        self._thread.off = True
        try:
            yield
        finally:
            self._thread.off = before

    def folder_of_links(self, place: str, folder: Path) -> None:
        """Fill a folder with links to what the script finds in another one, for code that does not list files with Python.

        Args:
            place: real path of the script's folder, which need not exist.
            folder: empty.
        """
        inside = f"{place}{os.sep}"
        with self.off():
            files = {str(path): path for path in Path(place).rglob("*") if path.is_file()}
            found = {name: file for name, file in files.items() if not self._changes.is_removed(name)}
            for name, content in {**found, **self._changes.moved, **self._changes.copies}.items():
                if name.startswith(inside):
                    link = folder / name[len(inside) :]
                    link.parent.mkdir(parents=True, exist_ok=True)
                    link.symlink_to(content)
            for path in self._changes.made:
                if path.startswith(inside):
                    folder.joinpath(path[len(inside) :]).mkdir(parents=True, exist_ok=True)

    def _of_path(self, original: Callable[..., Any], *, follow: bool = True) -> Callable[..., Any]:
        def call(path: Any, *args: Any, **kwargs: Any) -> Any:
            follows = follow and kwargs.get("follow_symlinks", True)
            shown = self._shown(path, kwargs.get("dir_fd"), follows)
            if shown is None:
                return original(path, *args, **kwargs)
            kwargs.pop("dir_fd", None)
            return original(shown, *args, **kwargs)

        return call

    def _access(self, original: Callable[..., bool]) -> Callable[..., bool]:
        of_path = self._of_path(original)

        def access(path: Any, mode: int, **kwargs: Any) -> bool:
            try:
                return of_path(path, mode, **kwargs)
            except FileNotFoundError:
                return False

        return access

    def _list(self, original: Callable[..., list[Any]]) -> Callable[..., list[Any]]:
        def listdir(path: Any = ".") -> list[Any]:
            place = self._place(path)
            if place is None:
                return original(path)
            added = self._changes.added_to(place)
            if not added and place not in self._changes.made and not self._changes.removed:
                return original(path)
            names = [os.fsdecode(name) for name in self._original_entries(original, path, place)]
            return [*(name for name in names if not self._hides(place, name, added)), *added]

        return listdir

    def _scan(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def scandir(path: Any = ".") -> Any:
            place = self._place(path)
            if place is None:
                return original(path)
            added = self._changes.added_to(place)
            if not added and place not in self._changes.made and not self._changes.removed:
                return original(path)
            entries = [
                entry
                for entry in self._original_entries(original, path, place)
                if not self._hides(place, entry.name, added)
            ]
            folder = os.fsdecode(path)
            own = [
                _Entry(name, str(Path(folder, name)), copy or self._folder) for name, copy in added.items()
            ]
            return _Entries([*entries, *own])

        return scandir

    def _original_entries(self, original: Callable[..., Any], path: Any, place: str) -> list[Any]:
        if self._changes.is_removed(place) and place not in self._changes.made:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), os.fsdecode(path))
        with self.off():
            if place in self._changes.made and not Path(place).is_dir():
                return []
            return list(original(path))

    def _hides(self, folder: str, name: str, added: dict[str, Path | None]) -> bool:
        return name in added or self._changes.is_removed(str(Path(folder, name)))

    def _shown(self, path: Any, folder: int | None, follow: bool) -> Path | None:
        place = self._place(path, folder, follow)
        if place is None:
            return None
        copy = self._changes.content_of(place)
        if copy is not None:
            return copy
        if place in self._changes.made:
            return self._folder
        if self._changes.is_removed(place):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), os.fsdecode(path))
        return None

    def _place(self, path: Any, folder: int | None = None, follow: bool = True) -> str | None:
        """The real path of something that the script may have changed; None for all else."""
        if not self._changes.exist or getattr(self._thread, "off", False):
            return None
        return self._find_place(path, folder, follow)


class _Entries:
    """An iterator such as that of `os.scandir`."""

    def __init__(self, entries: list[Any]) -> None:
        self._entries = iter(entries)

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        return next(self._entries)

    def __enter__(self) -> _Entries:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End."""
        self._entries = iter(())


class _Entry:
    """An entry such as those of `os.scandir`, with the metadata of another file or folder."""

    def __init__(self, name: str, path: str, source: Path) -> None:
        self.name, self.path, self._source = name, path, source

    def __fspath__(self) -> str:
        return self.path

    def is_dir(self, *, follow_symlinks: bool = True) -> bool:  # noqa: ARG002 - the signature of os.DirEntry
        """Whether it is a folder."""
        return self._source.is_dir()

    def is_file(self, *, follow_symlinks: bool = True) -> bool:  # noqa: ARG002
        """Whether it is a file."""
        return self._source.is_file()

    def is_symlink(self) -> bool:
        """Never."""
        return False

    def stat(self, *, follow_symlinks: bool = True) -> os.stat_result:  # noqa: ARG002
        """Of the file itself."""
        return self._source.stat()

    def inode(self) -> int:
        """Of the file itself."""
        return self._source.stat().st_ino


def _parent(place: str) -> str:
    return str(Path(place).parent)
