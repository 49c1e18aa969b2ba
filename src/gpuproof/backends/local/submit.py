"""Starting a local run: downloads its inputs, creates its folder, and starts its agent."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from gpuproof.agent.contract import code_folder
from gpuproof.agent.paths import RunPaths
from gpuproof.agent.state import COMPLETED, IN_PROGRESS, VERSION
from gpuproof.backends.agent_job.archive import agent_file
from gpuproof.backends.agent_job.document import job_document
from gpuproof.backends.local.plan import LocalPlan
from gpuproof.backends.local.run_folders import RunFolders
from gpuproof.backends.record import RunRecord
from gpuproof.errors import GPUproofError
from gpuproof.jobs.source.tree import copy_to
from gpuproof.util.atomic import write_json
from gpuproof.util.humanize import pluralize

if TYPE_CHECKING:
    from gpuproof.backends.aws import Aws
    from gpuproof.backends.progress import SubmitProgress


def download_inputs(plan: LocalPlan, aws: Aws, cache: Path, progress: SubmitProgress) -> LocalPlan:
    """Download the inputs that are on S3 and not in the cache yet, and return the plan with local folders instead.

    Raises:
        GPUproofError: AWS refused, or the disk is full; no partial input is left.
    """
    from gpuproof.backends.s3_inputs.download import download_all  # most runs have no inputs on S3

    downloaded = download_all(plan.remote_inputs, aws, cache, progress)
    return replace(
        plan,
        sources={**plan.sources, **{name: input_.folder for name, input_ in downloaded.items()}},
        warnings=(*plan.warnings, *(note for input_ in downloaded.values() for note in input_.notes)),
    )


def start_run(plan: LocalPlan, store: RunFolders, cache: Path) -> RunPaths:
    """Create the run's folder and start its agent, which outlives this process.

    Args:
        plan: without inputs on S3; see `download_inputs`.

    Raises:
        GPUproofError: the folder could not be created; nothing of it is left.
    """
    try:
        agent = agent_file(cache)
        paths = store.create(plan.job.name)
        left = _left_checkpoints(plan, store)
        try:
            # Locked before the run is visible: a run without a locked agent counts as killed.
            with locked_run(paths) as lock:
                _write_folder(plan, paths, left)
                start_agent(paths, agent, lock, several_hosts=plan.job.instance_count > 1)
        except BaseException:
            restore_checkpoints(left, paths)
            shutil.rmtree(paths.root, ignore_errors=True)
            raise
    except OSError as error:
        raise GPUproofError(
            f"The run could not be started: {error.strerror}: {error.filename or store.root}.",
            remedy="Free some disk space, or set GPUPROOF_STATE_DIR and GPUPROOF_CACHE_DIR to folders on another disk.",
        ) from error
    return paths


@contextlib.contextmanager
def locked_run(paths: RunPaths) -> Generator[int, None, None]:
    """Hold the run's lock, which its agent inherits; yields the descriptor."""
    lock = os.open(paths.lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield lock
    finally:
        os.close(lock)


def start_agent(
    paths: RunPaths, agent: Path, lock: int, python: str = sys.executable, *, several_hosts: bool = False
) -> None:
    """Start the agent in a session of its own, so that it outlives the terminal, and pass it the lock.

    Args:
        python: the agent's interpreter. Not the script's, which may be too old or broken.
        several_hosts: whether to start the supervisor of several hosts, which starts an agent for each of them.
    """
    _link_agent(agent, paths.agent)
    with paths.agent_log.open("ab") as log:
        # -I: PYTHONPATH and the working directory must not affect the agent.
        subprocess.Popen(
            [
                python,
                "-I",
                str(paths.agent),
                *(["--hosts"] if several_hosts else []),
                str(paths.root),
                "--lock-fd",
                str(lock),
            ],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            pass_fds=(lock,),
            start_new_session=True,
            cwd=paths.root,
        )


def _link_agent(agent: Path, target: Path) -> None:
    """Put the agent's file into the run's folder: the cache may be emptied during the run."""
    try:
        os.link(agent, target)
    except OSError:
        # Another file system, or one without hard links.
        shutil.copyfile(agent, target)


def _write_folder(plan: LocalPlan, paths: RunPaths, left: Path | None) -> None:
    """Write the files of the run's folder."""
    job, agent_job = plan.job, plan.agent_job(paths)
    paths.logs.mkdir()
    several = len(agent_job.hosts) > 1
    for place in [paths.host(host) for host in agent_job.hosts] if several else [paths]:
        code = place.ml / code_folder(agent_job)
        code.mkdir(parents=True)
        copy_to(plan.tree, code)
    write_json(paths.job, job_document(agent_job))
    paths.job.chmod(0o600)
    write_json(
        paths.run,
        {
            "version": VERSION,
            "id": paths.root.name,
            "job_name": job.name,
            "kind": job.kind,
            "backend": "local",
            "status": IN_PROGRESS,
            "secondary_status": "Starting",
            "created": time.time(),
            "source_dir": job.source_dir,
            **({"instance_count": len(agent_job.hosts)} if several else {}),
            "fresh": plan.fresh,
            "notes": [*plan.warnings, *_checkpoint_notes(left)],
            "provenance": plan.provenance(),
        },
    )
    if job.kind != "processing":
        if plan.own_checkpoints is not None:
            plan.own_checkpoints.mkdir(parents=True, exist_ok=True)
        else:
            move_checkpoints(left, paths)


def _left_checkpoints(plan: LocalPlan, store: RunFolders) -> Path | None:
    """The folder of checkpoints that an earlier run left; `None` if there is none to continue from."""
    job = plan.job
    if plan.fresh or job.kind != "training" or plan.own_checkpoints is not None:
        return None

    def left_any(record: RunRecord) -> bool:
        return count_files(store.paths(record.id).checkpoints) > 0

    previous = previous_run(store.records(), job.name, job.source_dir, left_any)
    return None if previous is None else store.paths(previous.id).checkpoints


def _checkpoint_notes(left: Path | None) -> list[str]:
    if left is None:
        return []
    files = pluralize(count_files(left), "checkpoint file")
    return [f"/opt/ml/checkpoints starts with {files} of {left.parent.name} (--fresh starts without)"]


def previous_run(
    records: Iterable[RunRecord], job_name: str, source_dir: str, left_any: Callable[[RunRecord], bool]
) -> RunRecord | None:
    """The run whose checkpoints a new run of the job continues from.

    It is the newest run of the same name and source folder that has ended and left checkpoints, unless a newer run
    completed or was started with `--fresh`.

    Args:
        records: all runs, newest first.
        left_any: whether a run left checkpoints.
    """
    for record in records:
        if record.job_name != job_name or record.document.get("source_dir") != source_dir:
            continue
        if record.status == COMPLETED:
            return None
        if record.has_ended and left_any(record):
            return record
        if record.document.get("fresh"):
            return None
    return None


def count_files(folder: Path) -> int:
    """The number of files below a folder; 0 if it does not exist."""
    return sum(1 for path in folder.rglob("*") if path.is_file())


def move_checkpoints(left: Path | None, paths: RunPaths) -> None:
    """Move an earlier run's checkpoints into a new run's folder, or create that folder empty.

    Args:
        left: the earlier run's folder of checkpoints, which may not exist.
    """
    if left is not None and left.is_dir():
        # Atomic on one file system: an interrupt leaves them in one folder or the other.
        left.rename(paths.checkpoints)
        return
    paths.checkpoints.mkdir()


def restore_checkpoints(left: Path | None, paths: RunPaths) -> None:
    """Undo `move_checkpoints` after the new run could not be started."""
    if left is not None and not left.exists() and paths.checkpoints.is_dir():
        paths.checkpoints.rename(left)
