"""The folders of local runs, below the state directory."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from gpuproof.agent.paths import RunPaths
from gpuproof.agent.state import ENDED, FAILED, read_state
from gpuproof.backends.errors import AmbiguousRun
from gpuproof.backends.record import NEVER_LAUNCHED, RunRecord
from gpuproof.errors import GPUproofError, RunNotFound, UsageError
from gpuproof.util.atomic import write_json

_NAME_LIMIT = 63  # SageMaker's limit for a job name
_NEEDED = {"job_name", "kind", "backend", "status"}
_REMOVED = ".removed"


class RunFolders:
    """Creates, finds, lists and removes the folders of runs.

    Args:
        root: the folder that holds a folder for each run.
    """

    def __init__(self, root: Path) -> None:
        self.root = root

    def create(self, job_name: str) -> RunPaths:
        """Create the folder of a new run; its id is the job's name, the time and a random suffix."""
        stamp = time.strftime("%Y%m%d-%H%M%S")
        while True:
            suffix = f"{stamp}-{os.urandom(2).hex()}"  # `secrets` would load OpenSSL, which delays the script
            run_id = f"{job_name[: _NAME_LIMIT - len(suffix) - 1].rstrip('-')}-{suffix}"
            paths = self.paths(run_id)
            try:
                paths.root.mkdir(parents=True, mode=0o700)
            except FileExistsError:
                continue
            return paths

    def paths(self, run_id: str) -> RunPaths:
        """The paths of the run with exactly that id, which may not exist."""
        return RunPaths(self.root / run_id)

    def records(self) -> Iterator[RunRecord]:
        """All runs, newest first. A run whose agent was killed is recorded as failed."""
        found: list[tuple[float, str, dict[str, Any]]] = []
        with contextlib.suppress(FileNotFoundError), os.scandir(self.root) as entries:
            for entry in entries:
                # A name that starts with a dot is a folder being removed.
                document = None if entry.name.startswith(".") else self._document(entry.name)
                if document is not None:
                    found.append((document["created"], entry.name, document))
        for _, _, document in sorted(found, key=lambda item: item[:2], reverse=True):
            yield self._checked_record(document)

    def record(self, run_id: str) -> RunRecord:
        """The run with exactly that id. If its agent was killed, it is recorded as failed.

        Raises:
            RunNotFound: there is no such run.
        """
        document = self._document(run_id)
        if document is None:
            raise RunNotFound(f"No run has the id {run_id}.", remedy="`gpuproof ps` lists the runs.")
        return self._checked_record(document)

    def find(self, name: str | None) -> RunRecord:
        """Look up a run by its id, by the beginning or end of its id, or by its job's name (the newest such run).

        Args:
            name: the newest run of all if None.

        Raises:
            RunNotFound: no run, or more than one, matches.
        """
        if name is not None and re.fullmatch(r"\w[\w.-]*", name) and self._document(name) is not None:
            return self.record(name)
        records = list(self.records())
        if not records:
            raise RunNotFound(
                "There are no runs on this machine.", remedy="`gpuproof run train.py` starts one."
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
            raise AmbiguousRun(f"{name} matches {len(near)} runs: {listed}.", remedy="Type more of the id.")
        raise RunNotFound(f"No run matches {name}.", remedy="`gpuproof ps` lists the runs.")

    def remove(self, record: RunRecord) -> None:
        """Delete a run's folder.

        Raises:
            UsageError: it has not ended.
        """
        if not record.has_ended:
            raise UsageError(f"{record.id} is still running.", remedy=f"gpuproof stop {record.id}")
        root = self.paths(record.id).root
        # Renamed first: a half-removed folder must not look like a run.
        hidden = root.with_name(f".{root.name}{_REMOVED}")
        try:
            root.rename(hidden)
            _remove(hidden)
        except OSError as error:
            raise GPUproofError(
                f"{record.id} could not be removed completely: {error.filename or root}: {error.strerror}.",
                remedy=f"Remove it with the necessary permissions: sudo rm -r {hidden if hidden.exists() else root}",
            ) from error
        for leftover in self.root.glob(f".*{_REMOVED}"):
            # An earlier removal was interrupted.
            with contextlib.suppress(OSError):
                _remove(leftover)

    def _document(self, run_id: str) -> dict[str, Any] | None:
        """A run's `run.json`; `None` if it is missing or invalid."""
        document = read_state(self.paths(run_id).run)
        if document is None or not isinstance(document.get("created"), int | float):
            return None
        # The folder's name is the id, even if the folder was renamed.
        return {**document, "id": run_id} if document.keys() >= _NEEDED else None

    def _checked_record(self, document: dict[str, Any]) -> RunRecord:
        """The record, and for a run in progress whose agent is gone: record that it failed."""
        if document["status"] in ENDED:
            return RunRecord.of(document)
        paths = self.paths(document["id"])
        if agent_alive(paths):
            return RunRecord.of(document)
        # The agent may have ended normally since the first read.
        document = self._document(document["id"]) or document
        if document["status"] not in ENDED:
            _end_group(document)
            document |= {
                "status": FAILED,
                "secondary_status": FAILED if document.get("agent_pid") else NEVER_LAUNCHED,
                "failure_reason": _agent_failure(document, paths),
                "ended": _last_change(paths),
            }
            with contextlib.suppress(OSError):
                write_json(paths.run, document)
        return RunRecord.of(document)


def agent_alive(paths: RunPaths) -> bool:
    """Whether the agent, or the process that kills the script's processes after it, is running."""
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


def _end_group(document: dict[str, Any]) -> None:
    """End what a run left behind whose agent and guard processes were all killed."""
    states = [document, *document.get("hosts", {}).values()]
    groups = [group for state in states if isinstance(group := state.get("control_group"), str)]
    if not groups:
        return
    from gpuproof.util.cgroup import end_group, is_group_of  # only for a run that was killed

    for group in groups:
        if is_group_of(Path(group), document["id"]):
            end_group(Path(group))


def _last_change(paths: RunPaths) -> float:
    times = [
        path.stat().st_mtime
        for path in (paths.live, paths.run, *paths.logs.glob("*.log"), paths.agent_log)
        if path.exists()
    ]
    return max(times, default=time.time())


def _agent_failure(document: dict[str, Any], paths: RunPaths) -> str:
    if document.get("agent_pid") is not None:
        return "the agent was killed, and the script with it"
    try:
        lines = paths.agent_log.read_text(encoding="utf-8", errors="replace").split("\n")
    except OSError:
        lines = []
    last = next((line.strip() for line in reversed(lines) if line.strip()), "it printed nothing")
    return f"the agent did not start: {last} (see {paths.agent_log})"


def _remove(folder: Path) -> None:
    _make_accessible(folder)
    for path, names, _ in os.walk(folder):
        for name in names:
            _make_accessible(Path(path, name))
    shutil.rmtree(folder)


def _make_accessible(folder: Path) -> None:
    """Give the owner access to a folder: a script may have taken it away."""
    # A folder of another user cannot be changed; if that matters, the removal fails with an error.
    with contextlib.suppress(PermissionError):
        if not folder.is_symlink():
            folder.chmod(0o700)
