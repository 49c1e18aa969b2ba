"""The runs on this machine: folders below the state directory."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import secrets
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from gpuproof.agent.paths import RunPaths
from gpuproof.agent.state import ENDED, FAILED, read_state
from gpuproof.backends.base import AmbiguousRun
from gpuproof.backends.record import RunRecord
from gpuproof.errors import GPUproofError, RunNotFound, UsageError
from gpuproof.util.atomic import write_json

_NAME_LIMIT = 63  # SageMaker's limit for a job name
_NEEDED = {"job_name", "kind", "place", "status"}
_REMOVED = ".removed"


class RunStore:
    """Finds, lists, settles and removes runs.

    Args:
        root: the folder that holds a folder for each run.
    """

    def __init__(self, root: Path) -> None:
        self.root = root

    def create(self, job_name: str) -> RunPaths:
        """Make the folder of a new run; its id is the job's name, the time and something unique."""
        stamp = time.strftime("%Y%m%d-%H%M%S")
        while True:
            suffix = f"{stamp}-{secrets.token_hex(2)}"
            run_id = f"{job_name[: _NAME_LIMIT - len(suffix) - 1].rstrip('-')}-{suffix}"
            paths = self.paths(run_id)
            try:
                paths.root.mkdir(parents=True, mode=0o700)
            except FileExistsError:
                continue
            return paths

    def paths(self, run_id: str) -> RunPaths:
        """The folder of the run with exactly that id, there or not."""
        return RunPaths(self.root / run_id)

    def records(self) -> Iterator[RunRecord]:
        """All runs, newest first, each settled."""
        found: list[tuple[float, str, dict[str, Any]]] = []
        with contextlib.suppress(FileNotFoundError), os.scandir(self.root) as entries:
            for entry in entries:
                # A dot marks what is being removed.
                document = None if entry.name.startswith(".") else self._document(entry.name)
                if document is not None:
                    found.append((document["created"], entry.name, document))
        for _, _, document in sorted(found, key=lambda item: item[:2], reverse=True):
            yield self._settled(document)

    def record(self, run_id: str) -> RunRecord:
        """The run with exactly that id, settled.

        Raises:
            RunNotFound: there is none.
        """
        document = self._document(run_id)
        if document is None:
            raise RunNotFound(
                f"No run is called {run_id}.", remedy="`gpuproof ps` lists the runs on this machine."
            )
        return self._settled(document)

    def find(self, name: str | None) -> RunRecord:
        """The run that a person means: by id, by the beginning or the end of an id, by the newest of a job's name,
        or the newest of all when nothing is said.

        Raises:
            RunNotFound: no run is meant, or it cannot be told which.
        """
        if name is not None and re.fullmatch(r"\w[\w.-]*", name) and self._document(name) is not None:
            return self.record(name)
        records = list(self.records())
        if not records:
            raise RunNotFound(
                "There are no runs on this machine.", remedy="`gpuproof run train.py` makes one."
            )
        if name is None:
            return records[0]
        for record in records:
            if record.job_name == name:
                return record
        near = [record for record in records if record.id.startswith(name) or record.id.endswith(name)]
        if len(near) == 1:
            return near[0]
        if near:
            listed = ", ".join(record.id for record in near[:5]) + (" …" if len(near) > 5 else "")
            raise AmbiguousRun(f"{name} may mean {len(near)} runs: {listed}.", remedy="Write more of the id.")
        raise RunNotFound(f"No run is called {name}.", remedy="`gpuproof ps` lists the runs on this machine.")

    def remove(self, record: RunRecord) -> None:
        """Delete a run's folder and all that is in it.

        Raises:
            UsageError: it still runs.
        """
        if not record.has_ended:
            raise UsageError(f"{record.id} still runs.", remedy=f"gpuproof stop {record.id}")
        root = self.paths(record.id).root
        # Out of sight first: a half-removed folder must not look like a run.
        doomed = root.with_name(f".{root.name}{_REMOVED}")
        try:
            root.rename(doomed)
            _remove(doomed)
        except OSError as error:
            raise GPUproofError(
                f"{record.id} could not be removed whole: {error.filename or root}: {error.strerror}.",
                remedy=f"Remove it as the user who may: sudo rm -r {doomed if doomed.exists() else root}",
            ) from error
        for left in self.root.glob(f".*{_REMOVED}"):
            # An earlier removal was interrupted.
            with contextlib.suppress(OSError):
                _remove(left)

    def _document(self, run_id: str) -> dict[str, Any] | None:
        """A run's `run.json`; `None` where there is none, or one that is no run's."""
        document = read_state(self.paths(run_id).run)
        if document is None or not isinstance(document.get("created"), int | float):
            return None
        # The folder's name is what everybody types, whatever it was called once.
        return {**document, "id": run_id} if document.keys() >= _NEEDED else None

    def _settled(self, document: dict[str, Any]) -> RunRecord:
        """A run that says it goes on while its agent is gone has failed: say so, and write it down."""
        if document["status"] in ENDED:
            return RunRecord.of(document)
        paths = self.paths(document["id"])
        if agent_alive(paths):
            return RunRecord.of(document)
        # The agent may have ended in good order since we read.
        document = self._document(document["id"]) or document
        if document["status"] not in ENDED:
            document |= {
                "status": FAILED,
                "secondary_status": FAILED,
                "failure_reason": _why_gone(document, paths),
                "ended": _last_sign_of_life(paths),
            }
            with contextlib.suppress(OSError):
                write_json(paths.run, document)
        return RunRecord.of(document)


def agent_alive(paths: RunPaths) -> bool:
    """Whether the agent, or the reaper that ends the script's processes after it, still lives."""
    try:
        lock = os.open(paths.lock, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(lock)
    return False


def _last_sign_of_life(paths: RunPaths) -> float:
    times = [
        path.stat().st_mtime
        for path in (paths.live, paths.run, paths.log(), paths.agent_log)
        if path.exists()
    ]
    return max(times, default=time.time())


def _why_gone(document: dict[str, Any], paths: RunPaths) -> str:
    if document.get("agent_pid") is not None:
        return "the agent was killed, and the script with it"
    try:
        said = paths.agent_log.read_text(encoding="utf-8", errors="replace").split("\n")
    except OSError:
        said = []
    last = next((line.strip() for line in reversed(said) if line.strip()), "it said nothing")
    return f"the agent did not start: {last} (see {paths.agent_log})"


def _remove(folder: Path) -> None:
    _open_up(folder)
    for path, names, _ in os.walk(folder):
        for name in names:
            _open_up(Path(path, name))
    shutil.rmtree(folder)


def _open_up(folder: Path) -> None:
    """A script may have left folders that not even their owner may look into or write to."""
    # Somebody else's folder stays as it is: if it is in the way, the removal itself says so.
    with contextlib.suppress(PermissionError):
        if not folder.is_symlink():
            folder.chmod(0o700)
