"""Keeps a traced script from changing anything: what it writes goes to a scratch folder, and trackers are turned off."""

from __future__ import annotations

import builtins
import contextlib
import errno
import io
import os
import pathlib
import shutil
import sqlite3
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from gpuproof.trace.file_changes import FileChanges, FileView
from gpuproof.trace.notes import Notes

_OFF = {
    "WANDB_MODE": "disabled",
    "COMET_MODE": "disabled",
    "NEPTUNE_MODE": "debug",
    "CLEARML_OFFLINE_MODE": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "DISABLE_MLFLOW_INTEGRATION": "TRUE",
}
"""Variables by which trackers do nothing, from their documentation."""

_DEVICES = ("/dev/", "/proc/")
_REMOVING = ("rmdir", "remove", "unlink")
_ONE_PATH = ("mkdir", *_REMOVING, "truncate", "chmod", "chown", "utime")
_LINKING = ("link", "symlink")
_TWO_PATHS = ("rename", "replace", *_LINKING)
"""Functions of `os` that change files, by the number of their paths."""
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


class Scratch:
    """The folder that takes what a script writes.

    Args:
        folder: exists; the caller removes it.
        notes: takes what was redirected or not done.
        own: further folders that belong to the trace, each with a slash at its end.
    """

    def __init__(self, folder: Path, notes: Notes, own: Sequence[str] = ()) -> None:
        self._folder = folder
        self._notes = notes
        self._changes = FileChanges()
        self._view = FileView(self._changes, folder, self._place)
        self._files = 0
        self._views: tuple[str, ...] = ()
        self._free = (f"{folder}{os.sep}", *own, *_DEVICES, *_caches())
        self._open: Callable[..., Any] = builtins.open

    def install(self) -> None:
        """Redirect writes of this process from now on; files that are read stay what they are."""
        os.environ.update(_OFF)
        os.environ["TMPDIR"] = tempfile.tempdir = str(self._folder)
        sys.dont_write_bytecode = True
        os.environ["MLFLOW_TRACKING_URI"] = self._folder.joinpath("mlflow").as_uri()
        builtins.open = io.open = self._redirected  # type: ignore[assignment]
        replaced: dict[Any, Callable[..., Any]] = {self._open: self._redirected}
        for name in _ONE_PATH:
            replaced[getattr(os, name)] = self._one_path(name, getattr(os, name))
        for name in _TWO_PATHS:
            replaced[getattr(os, name)] = self._two_paths(name, getattr(os, name))
        replaced[os.open] = self._opened(os.open)
        replaced.update(self._view.functions())
        for original, new in replaced.items():
            if original is not self._open:
                setattr(os, original.__name__, new)
        _replace_in_pathlib(replaced)
        shutil.rmtree = self._tree_removed(shutil.rmtree)  # type: ignore[assignment]
        sqlite3.connect = self._database(sqlite3.connect)  # type: ignore[assignment]

    def view_of(self, folder: Any) -> Any:
        """A folder with what the script believes to be in another one; that folder itself if nothing in it was changed.

        Args:
            folder: path, which need not exist.
        """
        place = self._place(folder)
        if place is None or not self._changes.within(place):
            return folder
        view = Path(tempfile.mkdtemp(prefix="view-", dir=self._folder))
        self._view.folder_of_links(place, view)
        self._views = (*self._views, f"{view}{os.sep}")
        return str(view)

    def _redirected(self, file: Any, mode: str = "r", *args: Any, **kwargs: Any) -> Any:
        place = self._place(file)
        if place is None:
            return self._open(file, mode, *args, **kwargs)
        copy = self._changes.copies.get(place)
        if not set(mode) & set("wax+"):
            self._check_exists(place)
            return self._open(self._changes.content_of(place) or file, mode, *args, **kwargs)
        if copy is None:
            copy = self._new_copy(place, keep=not set(mode) & set("wx"))
            self._notes.add("write", f"writing {place}")
        return self._open(copy, mode, *args, **kwargs)

    def _new_copy(self, place: str, *, keep: bool) -> Path:
        copy = self._folder / f"{self._files}-{Path(place).name}"
        self._files += 1
        original = self._changes.moved.get(place) or Path(place)
        with self._view.off():
            exists = original.is_file()
        if keep and exists:
            with self._open(original, "rb") as source, self._open(copy, "wb") as target:
                while content := source.read(1 << 20):
                    target.write(content)
        self._changes.write(place, copy)
        return copy

    def _check_exists(self, place: str) -> None:
        if self._changes.is_removed(place):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), place)

    def _one_path(self, name: str, original: Callable[..., Any]) -> Callable[..., Any]:
        def call(path: Any, *args: Any, **kwargs: Any) -> Any:
            # What a link points to is not removed with it.
            place = self._place(path, kwargs.get("dir_fd"), name not in _REMOVING)
            if place is None or (name == "mkdir" and self._leads_to_cache(place)):
                return original(path, *args, **kwargs)
            copy = self._changes.copies.get(place)
            if copy is not None:
                if name in _REMOVING:
                    self._changes.remove(place)
                kwargs.pop("dir_fd", None)
                return original(copy, *args, **kwargs)
            self._pretend(name, place)
            return None

        return call

    def _pretend(self, name: str, place: str) -> None:
        """Note what was not done with a file or folder, or raise the error that it would have raised."""
        if name == "mkdir":
            if Path(place).is_dir():
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), place)
            if not Path(place).parent.is_dir():
                # `Path.mkdir(parents=True)` makes the parents then.
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), place)
            self._changes.make(place)
        elif place in self._changes.made:
            if name in _REMOVING:
                self._changes.remove(place)
            return
        elif name in _REMOVING and place in self._changes.moved:
            self._changes.remove(place)
            return
        elif not os.path.lexists(place):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), place)
        elif name in _REMOVING:
            self._changes.remove(place)
        self._notes.add("write", f"os.{name}({place})")

    def _opened(self, original: Callable[..., int]) -> Callable[..., int]:
        def call(path: Any, flags: int, *args: Any, **kwargs: Any) -> int:
            place = self._place(path, kwargs.get("dir_fd"))
            copy = None if place is None else self._changes.copies.get(place)
            if place is None:
                return original(path, flags, *args, **kwargs)
            if copy is None and not flags & _WRITING:
                self._check_exists(place)
                return original(self._changes.moved.get(place, path), flags, *args, **kwargs)
            if copy is None:
                if flags & os.O_CREAT and flags & os.O_EXCL and Path(place).exists():
                    raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), place)
                if not flags & os.O_CREAT and not Path(place).exists():
                    raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), place)
                copy = self._new_copy(place, keep=not flags & os.O_TRUNC)
                self._notes.add("write", f"writing {place}")
            kwargs.pop("dir_fd", None)
            return original(copy, flags, *args, **kwargs)

        return call

    def _tree_removed(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def rmtree(path: Any, ignore_errors: bool = False, *args: Any, **kwargs: Any) -> None:
            place = self._place(path, kwargs.get("dir_fd"), False)
            if place is None:
                original(path, ignore_errors, *args, **kwargs)
            elif place in self._changes.made:
                self._changes.remove(place)
            elif Path(place).is_dir() and not Path(place).is_symlink():
                self._changes.remove(place)
                self._notes.add("write", f"shutil.rmtree({place})")
            elif not ignore_errors:
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), place)

        return rmtree

    def _database(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def connect(database: Any, *args: Any, **kwargs: Any) -> Any:
            place = None
            if isinstance(database, (str, bytes, os.PathLike)) and not str(database).startswith(
                ("file:", ":memory:")
            ):
                place = self._place(database)
            if place is None:
                return original(database, *args, **kwargs)
            copy = self._changes.copies.get(place)
            if copy is None:
                copy = self._new_copy(place, keep=True)
                self._notes.add("write", f"The database {place} was not changed.")
            return original(copy, *args, **kwargs)

        return connect

    def _two_paths(self, name: str, original: Callable[..., Any]) -> Callable[..., Any]:
        def call(source: Any, target: Any, *args: Any, **kwargs: Any) -> Any:
            # A symbolic link is relative to its own folder.
            beside = Path(os.fsdecode(target)).parent / os.fsdecode(source) if name == "symlink" else source
            from_, to = self._place(beside), self._place(target)
            if to is None and (from_ is None or name in _LINKING):
                return original(source, target, *args, **kwargs)
            if to is not None and from_ is None and os.path.lexists(source):
                # A temporary file that becomes one of the script's: libraries write theirs in this way.
                original(source, self._new_copy(to, keep=False), *args, **kwargs)
            elif from_ is not None and to is not None:
                known = from_ in self._changes.copies
                self._changes.move(from_, to, keep=name in _LINKING)
                if known:
                    return None
            self._notes.add("write", f"os.{name}({to or from_})")
            return None

        return call

    def _leads_to_cache(self, place: str) -> bool:
        return any(free.startswith(f"{place}{os.sep}") for free in self._free)

    def _place(self, file: Any, folder: int | None = None, follow: bool = True) -> str | None:
        """The real path of a file that must not be changed; None in the folder, for devices and for descriptors.

        Args:
            folder: descriptor of the folder to which the path is relative.
            follow: whether a link stands for what it points to.
        """
        if isinstance(file, int):
            return None
        name = os.fsdecode(file)
        if folder is not None:
            name = str(Path(f"/proc/self/fd/{folder}").resolve() / name)
        if name.startswith(self._views):
            # Its links lead to files that the script believes to be elsewhere.
            return None
        with self._view.off():
            path = str(Path(name).resolve() if follow else Path(name).parent.resolve() / Path(name).name)
        # `tempfile` opens the folder itself, with a function that creates the file in it.
        return None if f"{path}{os.sep}".startswith(self._free) else path


def _caches() -> tuple[str, ...]:
    """Folders of what libraries download, which they keep.

    Sources: https://huggingface.co/docs/huggingface_hub/package_reference/environment_variables,
    https://docs.pytorch.org/docs/stable/hub.html, https://keras.io/api/utils/python_utils/.
    """
    home = Path("~").expanduser()
    caches = Path(os.environ.get("XDG_CACHE_HOME") or home / ".cache")
    hugging_face = Path(os.environ.get("HF_HOME") or caches / "huggingface")
    folders = (
        *(hugging_face, Path(os.environ.get("HF_HUB_CACHE") or hugging_face / "hub")),
        Path(os.environ.get("HF_DATASETS_CACHE") or hugging_face / "datasets"),
        Path(os.environ.get("TORCH_HOME") or caches / "torch"),
        Path(os.environ.get("KERAS_HOME") or home / ".keras"),
    )
    return tuple(f"{folder.expanduser().resolve()}{os.sep}" for folder in folders)


def _replace_in_pathlib(replaced: dict[Any, Callable[..., Any]]) -> None:
    """Let the paths of Python 3.9 and 3.10 use the new functions: they keep those of the time of their import."""
    accessor = getattr(pathlib, "_NormalAccessor", None)
    for name, function in list(vars(accessor).items()) if accessor is not None else ():
        with contextlib.suppress(TypeError):  # not hashable
            if function in replaced:
                setattr(accessor, name, staticmethod(replaced[function]))
