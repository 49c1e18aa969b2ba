"""Keeps a traced script from changing anything: what it writes goes to a scratch folder, and trackers are turned off."""

from __future__ import annotations

import builtins
import io
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

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


class Scratch:
    """The folder that takes what a script writes.

    Args:
        folder: exists, and is removed by somebody else.
        notes: takes what was redirected or not done.
    """

    def __init__(self, folder: Path, notes: Notes) -> None:
        self._folder = folder
        self._notes = notes
        self._copies: dict[str, Path] = {}
        self._free = (f"{folder}{os.sep}", *_DEVICES)
        self._open: Callable[..., Any] = builtins.open

    def install(self) -> None:
        """Redirect writes of this process from now on; files that are read stay what they are."""
        os.environ.update(_OFF)
        os.environ["TMPDIR"] = tempfile.tempdir = str(self._folder)
        sys.dont_write_bytecode = True
        os.environ["MLFLOW_TRACKING_URI"] = self._folder.joinpath("mlflow").as_uri()
        builtins.open = io.open = self._redirected  # type: ignore[assignment]
        for name in ("mkdir", "rmdir", "remove", "unlink"):
            setattr(os, name, self._one_path(name, getattr(os, name)))
        for name in ("rename", "replace"):
            setattr(os, name, self._two_paths(name, getattr(os, name)))

    def _redirected(self, file: Any, mode: str = "r", *args: Any, **kwargs: Any) -> Any:
        place = self._place(file)
        if place is None:
            return self._open(file, mode, *args, **kwargs)
        copy = self._copies.get(place)
        if not set(mode) & set("wax+"):
            return self._open(file if copy is None else copy, mode, *args, **kwargs)
        if copy is None:
            copy = self._new_copy(place, keep=not set(mode) & set("wx"))
            self._notes.add("write", f"{place} was not written.")
        return self._open(copy, mode, *args, **kwargs)

    def _new_copy(self, place: str, *, keep: bool) -> Path:
        copy = self._folder / f"{len(self._copies)}-{Path(place).name}"
        if keep and Path(place).is_file():
            with self._open(place, "rb") as source, self._open(copy, "wb") as target:
                while content := source.read(1 << 20):
                    target.write(content)
        self._copies[place] = copy
        return copy

    def _one_path(self, name: str, original: Callable[..., Any]) -> Callable[..., Any]:
        def call(path: Any, *args: Any, **kwargs: Any) -> Any:
            place = None if kwargs.get("dir_fd") is not None else self._place(path)
            if place is None:
                return original(path, *args, **kwargs)
            copy = self._copies.pop(place, None)
            if copy is not None:
                return original(copy)
            if name == "mkdir" and Path(place).is_dir():
                raise FileExistsError(17, "File exists", place)
            self._notes.add("write", f"os.{name} of {place} was not done.")
            return None

        return call

    def _two_paths(self, name: str, original: Callable[..., Any]) -> Callable[..., Any]:
        def call(source: Any, target: Any, *args: Any, **kwargs: Any) -> Any:
            from_, to = self._place(source), self._place(target)
            if from_ is None and to is None:
                return original(source, target, *args, **kwargs)
            copy = self._copies.pop(from_, None) if from_ is not None else None
            if copy is not None and to is not None:
                self._copies[to] = copy
                return None
            self._notes.add("write", f"os.{name} of {to or from_} was not done.")
            return None

        return call

    def _place(self, file: Any) -> str | None:
        """The real path of a file that must not be changed; None in the folder, for devices and for descriptors."""
        if isinstance(file, int):
            return None
        path = str(Path(os.fsdecode(file)).resolve())
        # `tempfile` opens the folder itself, with a function that creates the file in it.
        return None if path.startswith(self._free) or path == str(self._folder) else path
