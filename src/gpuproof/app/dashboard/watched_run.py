"""Runs in progress that several readers watch: one thread follows each run, and keeps its newest snapshot."""

from __future__ import annotations

import threading
import time
import traceback
from collections.abc import Callable

from gpuproof.app.live_view import RunView, Snapshot
from gpuproof.backends.base import Run
from gpuproof.errors import GPUproofError

_UNREAD_S = 600.0


class WatchedRun:
    """A run that is followed in a thread, until it has ended or nothing has read it for ten minutes.

    Args:
        run: which run.
        unread_s: seconds without a reader after which it is no longer followed.
    """

    def __init__(self, run: Run, *, unread_s: float = _UNREAD_S) -> None:
        self._view = RunView(run)
        self._unread_s = unread_s
        self._changed = threading.Condition()
        self._snapshot: Snapshot | None = None
        self._version = 0
        self._read = time.monotonic()
        self._error: GPUproofError | None = None
        self._done = False
        threading.Thread(target=self._follow, daemon=True, name=f"follow {run.id}").start()

    @property
    def is_done(self) -> bool:
        """Whether it is no longer followed."""
        return self._done

    def newer(self, version: int, timeout: float) -> tuple[int, Snapshot | None]:
        """The newest snapshot with its number, as soon as that is above `version`; the last ones after `timeout` seconds.

        Raises:
            GPUproofError: the run cannot be followed any more, such as because AWS refused.
        """
        with self._changed:
            self._read = time.monotonic()
            self._changed.wait_for(lambda: self._version > version or self._done, timeout)
            if self._error is not None:
                raise self._error
            return self._version, self._snapshot

    def _follow(self) -> None:
        error: GPUproofError | None = None
        try:
            for snapshot in self._view.snapshots():
                with self._changed:
                    self._snapshot = snapshot
                    self._version += 1
                    self._changed.notify_all()
                    if time.monotonic() - self._read > self._unread_s:
                        return
        except GPUproofError as found:
            error = found
        except Exception:  # noqa: BLE001 - the readers must not wait for ever
            traceback.print_exc()
            error = GPUproofError("An internal error; the terminal of the dashboard shows it.")
        finally:
            with self._changed:
                self._error, self._done = error, True
                self._changed.notify_all()


class WatchedRuns:
    """The runs that are watched, by backend and id."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._runs: dict[tuple[str, str], WatchedRun] = {}

    def of(self, backend: str, run_id: str, find: Callable[[], Run]) -> WatchedRun:
        """The run, watched from now on if it was not.

        Args:
            find: looks it up.

        Raises:
            GPUproofError: of `find`.
        """
        key = backend, run_id
        with self._lock:
            if (watched := self._runs.get(key)) is not None and not watched.is_done:
                return watched
        run = find()
        with self._lock:
            if (watched := self._runs.get(key)) is None or watched.is_done:
                self._runs = {name: kept for name, kept in self._runs.items() if not kept.is_done}
                watched = self._runs[key] = WatchedRun(run)
            return watched
