"""The file of plans, runs and comparisons: `plan-history.jsonl` in the folder of runs, a JSON document a line."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpuproof.settings import state_dir
from gpuproof.util.atomic import write_bytes

VERSION = 1
PLAN, RUN, COMPARISON = "plan", "run", "comparison"
_FILE = "plan-history.jsonl"
_MOST_BYTES = 4 << 20
_KEPT = {PLAN: 200, RUN: 200, COMPARISON: 2000}
"""Newest entries of each kind that stay when the file has become too large."""
_MEMBERS = {
    PLAN: {"key", "script", "created", "framework", "batch", "gpus", "estimates"},
    RUN: {"key", "run", "backend", "region", "created"},
    COMPARISON: {"key", "script", "run", "created", "gpu", "tier", "batch"},
}


@dataclass(frozen=True)
class History:
    """What the file has.

    Args:
        plans: of `gpuproof plan`, the oldest first.
        runs: that were submitted with the script of a plan.
        comparisons: of runs with plans.
        damaged: lines that are none of these, or of a later version.
    """

    plans: tuple[Mapping[str, Any], ...] = ()
    runs: tuple[Mapping[str, Any], ...] = ()
    comparisons: tuple[Mapping[str, Any], ...] = ()
    damaged: int = 0

    def plan_of(self, key: str, before: float | None = None) -> Mapping[str, Any] | None:
        """The newest plan of a script and its arguments, made before that time (seconds since the epoch)."""
        return next(
            (
                plan
                for plan in reversed(self.plans)
                if plan["key"] == key and (before is None or plan["created"] <= before)
            ),
            None,
        )


class HistoryStore:
    """Reads and appends; several processes may do so at the same time.

    Args:
        path: of the file; the user's own if None.
    """

    def __init__(self, path: Path | None = None) -> None:
        self.path = path or state_dir() / _FILE

    def read(self) -> History:
        """Everything that can be read; lines that cannot are counted."""
        try:
            lines = self.path.read_bytes().splitlines()
        except FileNotFoundError:
            return History()
        found: dict[str, list[Mapping[str, Any]]] = {kind: [] for kind in _KEPT}
        damaged = 0
        for line in lines:
            entry = _parsed(line)
            if entry is None:
                damaged += 1
            else:
                found[entry["kind"]].append(entry)
        return History(tuple(found[PLAN]), tuple(found[RUN]), tuple(found[COMPARISON]), damaged)

    def append(self, kind: str, content: Mapping[str, Any]) -> None:
        """Add an entry; if the file is larger than 4 MiB, older entries are removed.

        Raises:
            OSError: the file cannot be written.
        """
        line = json.dumps({"version": VERSION, "kind": kind, **content}, separators=(",", ":"))
        with self._lock():
            with self.path.open("ab") as file:
                # What a process that was killed left of its line must not damage this one.
                file.write(b"" if self._ends_a_line() else b"\n")
                file.write(line.encode() + b"\n")
            if self.path.stat().st_size > _MOST_BYTES:
                self._compact()

    def _compact(self) -> None:
        history = self.read()
        kept = [
            *history.plans[-_KEPT[PLAN] :],
            *history.runs[-_KEPT[RUN] :],
            *history.comparisons[-_KEPT[COMPARISON] :],
        ]
        lines = [json.dumps(entry, separators=(",", ":")).encode() + b"\n" for entry in kept]
        while sum(map(len, lines)) > _MOST_BYTES // 2 and len(lines) > 1:
            del lines[0]
        write_bytes(self.path, b"".join(lines))

    def _ends_a_line(self) -> bool:
        with self.path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(size - 1, 0))
            return size == 0 or file.read(1) == b"\n"

    @contextmanager
    def _lock(self) -> Generator[None]:
        descriptor = os.open(self.path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)


def _parsed(line: bytes) -> dict[str, Any] | None:
    try:
        entry = json.loads(line)
    except ValueError:
        return None
    if not isinstance(entry, dict) or entry.get("version") != VERSION:
        return None
    members = _MEMBERS.get(str(entry.get("kind")))
    return entry if members is not None and members <= entry.keys() else None
