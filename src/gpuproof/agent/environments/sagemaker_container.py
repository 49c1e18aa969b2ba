"""`python3 gpuproof-agent.pyz --container FOLDER`: carry a job out as the entry point of SageMaker's container.

It may be process 1, in an image with nothing but Python, whose file system is read-only but for `/tmp` and `/opt/ml`.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable

from gpuproof.agent.artifacts.archive_create import ArtifactError
from gpuproof.agent.artifacts.archive_extract import unpack
from gpuproof.agent.contract import Machine, code_folder, make_folders
from gpuproof.agent.environments.environment import NotStarted
from gpuproof.agent.environments.sagemaker_job import ContainerConfig, NotUnderstood, job_here, read_config
from gpuproof.agent.job import AgentJob
from gpuproof.agent.log_markers import VERDICT_MARK, WORDS_MARK
from gpuproof.agent.output import Sink
from gpuproof.agent.paths import ContainerPaths, RunPaths
from gpuproof.agent.runner import Run
from gpuproof.agent.state import RunState
from gpuproof.gpu.nvml import count_gpus
from gpuproof.util.atomic import write_json
from gpuproof.util.process_tree import adopt_orphans, end_descendants

LONGEST_LINE = 200_000
"""Characters of a verdict in that line; a longer one leaves its series out. CloudWatch takes events of 256 KiB:
https://docs.aws.amazon.com/AmazonCloudWatch/latest/logs/cloudwatch_limits_cwl.html"""


@dataclass(frozen=True)
class Order:
    """What to do in a container.

    Args:
        job: the job.
        config: what SageMaker says about this host.
        source: the packed source tree; `None` where it is in the container already.
        reports: whether verdict and state are left for the ground half.
    """

    job: AgentJob
    config: ContainerConfig
    source: Path | None
    reports: bool


def carry_out(here: ContainerPaths) -> int:
    """Carry out the job that the ground half has sent into this container; gives the exit code for SageMaker."""

    return carry_out_order(here, _read)


def carry_out_order(here: ContainerPaths, read: Callable[[ContainerPaths], Order]) -> int:
    """Carry out what `read` finds in this container; whatever goes wrong is said where SageMaker looks."""
    _hold_standard_files()
    adopt_orphans()
    work: Path | None = None
    try:
        order = read(here)
        work = _working_folder(here.base)
        state = _first_state(order.job)
        venue = Container(here, RunPaths(work, here.base), order, state)
        return Run(venue, order.job, state).carry_out()
    except BaseException as error:  # noqa: BLE001 - whatever it is, SageMaker must be told
        why = str(error)
        if not isinstance(error, (NotUnderstood, OSError)):
            import traceback  # for what should never be needed

            say(traceback.format_exc(), mark="")
            why = f"the agent itself failed: {type(error).__name__}: {error}"
        say(why)
        _leave_word(here, why)
        return 1
    finally:
        end_descendants()
        if work is not None:
            shutil.rmtree(work, ignore_errors=True)


class Container:
    """A run in SageMaker's container: its `/opt/ml` is there, its logs are standard output, and it ends with it.

    Args:
        here: what lies where.
        paths: a working folder that nobody looks into, and `/opt/ml`.
        order: what to do, and with what.
        state: what becomes of it.
    """

    packs = False

    def __init__(self, here: ContainerPaths, paths: RunPaths, order: Order, state: RunState) -> None:
        self.paths = paths
        self.sink = Sink(lambda: os.dup(1))
        self._here = here
        self._job = order.job
        self._order = order
        self._state = state
        self._verdict: Mapping[str, Any] | None = None

    def prepare(self) -> None:
        make_folders(self._job, self.paths.ml)
        code = self.paths.ml / code_folder(self._job)
        if self._order.source is not None:
            try:
                unpack(self._order.source, code)
            except ArtifactError as error:
                raise NotStarted(str(error)) from error
        if not (code / self._job.entry_point).is_file():
            raise NotStarted(f"{self._job.entry_point} is not in {self._order.source or code}")

    def machine(self) -> Machine:
        return Machine(
            os.cpu_count() or 1, count_gpus(), self._order.config.resources, self._order.config.channels
        )

    def inherited(self) -> dict[str, str]:
        return dict(os.environ)

    def show_sample(self, sample: Mapping[str, Any]) -> None:
        """Nobody looks on."""

    def keep_verdict(self, verdict: Mapping[str, Any]) -> None:
        self._verdict = verdict

    def ended(self) -> None:
        if not self.sink.ends_line:
            self.sink.write(b"\n")
        if self._state["failure_reason"]:
            say(self._state["failure_reason"])
        if not self._order.reports:
            return
        for note in self._state["notes"]:
            say(note)
        results = self._here.results(self._job.kind, self._job.current_host)
        try:
            results.mkdir(parents=True, exist_ok=True)
            if self._verdict is not None:
                write_json(results / self.paths.verdict.name, self._verdict)
            write_json(results / self.paths.run.name, self._state.values)
        except OSError as error:
            say(f"{results} cannot be written: {error.strerror}")
        if self._verdict is not None:
            self.sink.write(f"{verdict_line(self._verdict)}\n".encode())


def verdict_line(verdict: Mapping[str, Any]) -> str:
    """The verdict in one line, without its series where that makes it too long."""
    line = json.dumps(verdict, separators=(",", ":"))
    if len(line) > LONGEST_LINE:
        gpus = [{name: value for name, value in gpu.items() if name != "series"} for gpu in verdict["gpus"]]
        line = json.dumps({**verdict, "gpus": gpus}, separators=(",", ":"))
    return VERDICT_MARK + line


def say(words: str, mark: str = WORDS_MARK) -> None:
    """The agent's own words, to standard error: SageMaker keeps them beside the script's output.

    Args:
        mark: begins each line; `gpuproof` shows what has the usual one at the run's end, not in its log.
    """
    sink = Sink(lambda: os.dup(2))
    lines = "".join(f"{mark}{line}\n" for line in words.splitlines())
    sink.write(lines.encode(errors="backslashreplace"))
    sink.close()


def _read(here: ContainerPaths) -> Order:
    try:
        job = AgentJob.read(here.job)
    except OSError as error:
        raise NotUnderstood(f"{here.job} cannot be read: {error.strerror}") from error
    except (ValueError, TypeError, AttributeError) as error:
        raise NotUnderstood(f"{here.job} is not a job that this agent understands: {error}") from error
    config = read_config(here, job.kind)
    return Order(job_here(job, config, here), config, here.source, reports=True)


def _first_state(job: AgentJob) -> RunState:
    state = RunState()
    state.update(
        id=job.run_id,
        job_name=job.job_name,
        kind=job.kind,
        place="sagemaker",
        host=job.current_host,
        hosts=list(job.hosts),
        instance_type=job.instance_type,
        created=time.time(),
    )
    return state


def _hold_standard_files() -> None:
    """Have something behind 0, 1 and 2: whatever were opened in their place would get what is meant for them."""
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:  # noqa: PERF203 - three
            os.open(os.devnull, os.O_RDWR)


def _working_folder(base: Path) -> Path:
    try:
        return Path(tempfile.mkdtemp(prefix="gpuproof-"))
    except OSError:
        # No room for temporary files, or no place: SageMaker's own folder is the next best.
        return Path(tempfile.mkdtemp(prefix=".gpuproof-", dir=base))


def _leave_word(here: ContainerPaths, why: str) -> None:
    """Tell SageMaker why; of a job that cannot be read the kind is told by the configuration that lies there."""
    kind = "processing" if here.resource_config("processing").parent.is_dir() else "training"
    failure = RunPaths(here.base, here.base).failure(kind)
    try:
        failure.parent.mkdir(parents=True, exist_ok=True)
        failure.write_text(why, encoding="utf-8", errors="backslashreplace")
    except OSError as error:
        say(f"{failure} cannot be written: {error.strerror}")
