"""Starting a run on this machine: its folder, its files, its agent."""

from __future__ import annotations

import shutil
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from gpuproof.agent.contract import code_folder
from gpuproof.agent.job import AgentJob
from gpuproof.agent.paths import RunPaths
from gpuproof.agent.state import IN_PROGRESS, VERSION
from gpuproof.backends.agent_archive import agent_file
from gpuproof.backends.expected_gpus import ExpectedGpus, expected_gpus
from gpuproof.backends.interpreter import find_interpreter
from gpuproof.backends.local.agent_job import Sources, local_order, notes_for, order_document
from gpuproof.backends.local.checkpoints import count_files, give_back, previous_attempt, take_over
from gpuproof.backends.local.s3_inputs.mapping import S3Prefix
from gpuproof.backends.local.store import RunStore
from gpuproof.backends.local.submit import held_lock, spawn
from gpuproof.backends.record import RunRecord
from gpuproof.catalogue import Catalogue
from gpuproof.errors import GPUproofError, GpuRequired, InvalidJob
from gpuproof.gpu.nvml import count_gpus
from gpuproof.jobs.local_paths import output_folders
from gpuproof.jobs.source_tree import SourceTree, collect, copy_to
from gpuproof.jobs.spec import Job, TrainingJob
from gpuproof.jobs.validators import is_s3
from gpuproof.settings import own_folders
from gpuproof.util.atomic import write_json
from gpuproof.util.humanize import pluralize

if TYPE_CHECKING:
    from gpuproof.backends.local.s3_inputs.download import Watch


@dataclass(frozen=True)
class LocalPlan:
    """What a run on this machine will do, decided before anything is made.

    Args:
        job: the job, its paths absolute.
        python: the script's interpreter.
        expected: the GPUs that the job asks for.
        gpus_here: GPUs that this machine has.
        sources: the folder, file or S3 prefix behind each input; `fetch` makes folders of the prefixes.
        tree: the files that go along.
        isolation: `auto`, or one rung of the ladder by name.
        fresh: begin without an earlier attempt's checkpoints.
        notes: what a person should know.
    """

    job: Job
    python: str
    expected: ExpectedGpus
    gpus_here: int
    sources: Sources
    tree: SourceTree
    isolation: str
    fresh: bool
    notes: tuple[str, ...]

    @property
    def remote(self) -> dict[str, S3Prefix]:
        """The inputs that are on S3 and were not fetched yet."""
        return {name: source for name, source in self.sources.items() if isinstance(source, S3Prefix)}


def plan(job: Job, *, python: str | None = None, isolation: str = "auto", fresh: bool = False) -> LocalPlan:
    """Decide everything that can be decided without making anything.

    Raises:
        InvalidJob: the job cannot run here, or a file that it names is not there.
        UsageError: the interpreter is not there, or the source folder is too large.
        GpuRequired: the job requires a GPU and this machine has none.
    """
    expected = expected_gpus(job, Catalogue.load())
    if job.require_gpu and expected.count == 0:
        raise InvalidJob(f"'{job.name}' requires a GPU, and {expected.because}.", remedy="gpuproof gpus")
    here = count_gpus()
    if job.require_gpu and here == 0:
        raise GpuRequired(
            f"'{job.name}' requires a GPU and this machine has none that the NVIDIA driver shows.",
            remedy="Run it where there is one, or try it here with --no-require-gpu.",
        )
    sources = {name: _source(job, name) for name in job.inputs}
    inputs = [path for path in sources.values() if isinstance(path, Path)]
    tree = collect(
        Path(job.source_dir), job.entry_point, exclude=[*inputs, *output_folders(job), *own_folders()]
    )
    chosen = LocalPlan(
        job=job,
        python=find_interpreter(python),
        expected=expected,
        gpus_here=here,
        sources=sources,
        tree=tree,
        isolation=isolation,
        fresh=fresh,
        notes=(*notes_for(job, expected), *([tree.note] if tree.note else [])),
    )
    order_for(chosen, RunPaths(Path("/")))
    return chosen


def order_for(chosen: LocalPlan, paths: RunPaths) -> AgentJob:
    """The agent's orders for the run in that folder."""
    return local_order(
        chosen.job,
        paths,
        python=chosen.python,
        expected=chosen.expected,
        gpus_here=chosen.gpus_here,
        checkpoints=_own_checkpoints(chosen.job) or paths.checkpoints,
        sources=chosen.sources,
        isolation=chosen.isolation,
    )


def fetch(chosen: LocalPlan, cache: Path, watch: Watch | None = None) -> LocalPlan:
    """The plan with every input on this machine; what is on S3 and not in the cache yet is downloaded.

    Args:
        cache: the user's cache folder.
        watch: is told how it goes; nobody if not given.

    Raises:
        GPUproofError: AWS refused, or the disk is full; nothing half is left.
    """
    if not chosen.remote:
        return chosen
    # Most runs have nothing on S3, and start sooner without.
    from gpuproof.backends.aws import Aws
    from gpuproof.backends.local.s3_inputs.download import bring_all

    brought = bring_all(chosen.remote, Aws(), cache, watch)
    return replace(
        chosen,
        sources={**chosen.sources, **{name: one.folder for name, one in brought.items()}},
        notes=(*chosen.notes, *(note for one in brought.values() for note in one.notes)),
    )


def start(chosen: LocalPlan, store: RunStore, cache: Path) -> RunPaths:
    """Make the run's folder and start its agent, which goes on by itself from there.

    Args:
        chosen: what `plan` decided; its inputs on S3 are fetched first.

    Raises:
        GPUproofError: the folder could not be made; nothing of it is left.
    """
    chosen = fetch(chosen, cache)
    try:
        agent = agent_file(cache)
        paths = store.create(chosen.job.name)
        left = _left_checkpoints(chosen, store)
        try:
            # Held before the run can be seen: nobody takes it for one whose agent was killed.
            with held_lock(paths) as lock:
                _lay_out(chosen, paths, left)
                spawn(paths, agent, lock)
        except BaseException:
            give_back(left, paths)
            shutil.rmtree(paths.root, ignore_errors=True)
            raise
    except OSError as error:
        raise GPUproofError(
            f"The run could not be started: {error.strerror}: {error.filename or store.root}.",
            remedy="Make room, or set GPUPROOF_STATE_DIR and GPUPROOF_CACHE_DIR to folders on another disk.",
        ) from error
    return paths


def _lay_out(chosen: LocalPlan, paths: RunPaths, left: Path | None) -> None:
    """Fill the run's folder."""
    job = chosen.job
    order = order_for(chosen, paths)
    paths.logs.mkdir()
    code = paths.ml / code_folder(order)
    code.mkdir(parents=True)
    copy_to(chosen.tree, code)
    write_json(paths.job, order_document(order))
    write_json(
        paths.run,
        {
            "version": VERSION,
            "id": paths.root.name,
            "job_name": job.name,
            "kind": job.kind,
            "place": "local",
            "status": IN_PROGRESS,
            "secondary_status": "Starting",
            "created": time.time(),
            "source_dir": job.source_dir,
            "fresh": chosen.fresh,
            "notes": [*chosen.notes, *_checkpoint_notes(left)],
        },
    )
    if isinstance(job, TrainingJob):
        own = _own_checkpoints(job)
        if own is not None:
            own.mkdir(parents=True, exist_ok=True)
        else:
            take_over(left, paths)


def _left_checkpoints(chosen: LocalPlan, store: RunStore) -> Path | None:
    """Where an earlier attempt left checkpoints to go on from."""
    job = chosen.job
    if chosen.fresh or not isinstance(job, TrainingJob) or _own_checkpoints(job) is not None:
        return None

    def left_any(record: RunRecord) -> bool:
        return count_files(store.paths(record.id).checkpoints) > 0

    previous = previous_attempt(store.records(), job.name, job.source_dir, left_any)
    return None if previous is None else store.paths(previous.id).checkpoints


def _checkpoint_notes(left: Path | None) -> list[str]:
    if left is None:
        return []
    files = pluralize(count_files(left), "checkpoint file")
    return [f"/opt/ml/checkpoints begins with {files} of {left.parent.name} (--fresh begins without)"]


def _own_checkpoints(job: Job) -> Path | None:
    if isinstance(job, TrainingJob) and job.checkpoint is not None and job.checkpoint.path is not None:
        return Path(job.checkpoint.path)
    return None


def _source(job: Job, name: str) -> Path | S3Prefix:
    given = job.inputs[name]
    text = given if isinstance(given, str) else given.source
    if is_s3(text):
        return S3Prefix.parse(text)
    path = Path(text)
    if not path.exists():
        raise InvalidJob(
            f"Input '{name}' of '{job.name}' is not there: {path}.", remedy=f"--input {name}=FOLDER"
        )
    return path.resolve()
