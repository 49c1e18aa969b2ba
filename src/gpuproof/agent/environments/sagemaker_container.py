"""`python3 gpuproof-agent.pyz --container FOLDER`: run a job as the entry point of SageMaker's container.

The agent may be process 1, in an image with nothing but Python and a file system that is read-only except `/tmp` and
`/opt/ml`.
"""

from __future__ import annotations

import contextlib
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
from gpuproof.agent.environments.environment import NotStarted, RunEnvironment, torch_version
from gpuproof.agent.environments.sagemaker_job import (
    ContainerConfig,
    InvalidContainerJob,
    adapt_job,
    read_config,
)
from gpuproof.agent.job import AgentJob
from gpuproof.agent.log_markers import MESSAGE_MARKER, VERDICT_MARKER
from gpuproof.agent.output import Sink
from gpuproof.agent.paths import ContainerPaths, RunPaths, live_file
from gpuproof.agent.state import RunState
from gpuproof.gpu.cuda_compat import read_driver_library
from gpuproof.gpu.nvml import count_gpus
from gpuproof.gpu.telemetry import SENSORS
from gpuproof.util.atomic import write_bytes, write_json
from gpuproof.util.process_tree import adopt_orphans, end_descendants

LONGEST_LINE = 200_000
"""Characters of the verdict on one log line; a longer verdict is written without what has a value for each time. CloudWatch accepts events
of 256 KiB: https://docs.aws.amazon.com/AmazonCloudWatch/latest/logs/cloudwatch_limits_cwl.html"""

RunJob = Callable[[RunEnvironment, AgentJob, RunState], int]
"""Runs a job in an environment and returns the exit code."""


@dataclass(frozen=True)
class ContainerJob:
    """A job in a container, with what SageMaker states about it.

    Args:
        source: the packed source tree; `None` if it is unpacked in the container already.
        reports: whether verdict and state are written for the client.
    """

    job: AgentJob
    config: ContainerConfig
    source: Path | None
    reports: bool


def run_container_job(container: ContainerPaths, run: RunJob) -> int:
    """Run the job that the client has sent into this container; returns the exit code for SageMaker."""
    return run_in_container(container, _read, run)


def run_in_container(
    container: ContainerPaths, read: Callable[[ContainerPaths], ContainerJob], run: RunJob
) -> int:
    """Run the job that `read` finds in this container; any error is reported where SageMaker looks for it."""
    _open_standard_files()
    adopt_orphans()
    work: Path | None = None
    try:
        found = read(container)
        work = _working_folder(container.base)
        state = _first_state(found.job)
        environment = ContainerEnvironment(container, RunPaths(work, container.base), found, state)
        return run(environment, found.job, state)
    except BaseException as error:  # noqa: BLE001 - whatever it is, it must reach SageMaker
        why = str(error)
        if not isinstance(error, (InvalidContainerJob, OSError)):
            import traceback  # hardly ever needed

            log_message(traceback.format_exc(), marker="")
            why = f"the agent itself failed: {type(error).__name__}: {error}"
        log_message(why)
        _write_failure(container, why)
        return 1
    finally:
        end_descendants()
        if work is not None:
            shutil.rmtree(work, ignore_errors=True)


class ContainerEnvironment:
    """A run in SageMaker's container: `/opt/ml` exists, standard output is the log, and the container ends with the run.

    Args:
        paths: a private working folder, and `/opt/ml`.
    """

    packs = False

    def __init__(
        self, container: ContainerPaths, paths: RunPaths, container_job: ContainerJob, state: RunState
    ) -> None:
        self.paths = paths
        self.sink = Sink(lambda: os.dup(1))
        self._container = container
        self._job = container_job.job
        self._container_job = container_job
        self._state = state
        self._verdict: Mapping[str, Any] | None = None

    def prepare(self) -> None:
        make_folders(self._job, self.paths.ml)
        code = self.paths.ml / code_folder(self._job)
        source = self._container_job.source
        if source is not None:
            try:
                unpack(source, code)
            except ArtifactError as error:
                raise NotStarted(str(error)) from error
        if self._job.machine is None and not (code / self._job.entry_point).is_file():
            raise NotStarted(f"{self._job.entry_point} is not in {source or code}")

    def machine(self) -> Machine:
        config = self._container_job.config
        # The agent takes the place of the image's entry point, which would look for the library.
        driver = read_driver_library(self._container.root)
        torch = torch_version(self._job)
        return Machine(os.cpu_count() or 1, count_gpus(), config.resources, config.channels, torch, driver)

    def inherited_variables(self) -> dict[str, str]:
        return dict(os.environ)

    def show_sample(self, sample: Mapping[str, Any]) -> None:
        """Write the sample for the program of an instance on EC2, which has made the file; elsewhere discard it."""
        path = live_file(self._container.base)
        with contextlib.suppress(OSError):
            if path.exists():
                write_bytes(path, json.dumps({"time": time.time(), **sample}).encode())

    def store_verdict(self, verdict: Mapping[str, Any]) -> None:
        self._verdict = verdict

    def finish(self) -> None:
        if not self.sink.ends_line:
            self.sink.write(b"\n")
        if self._state["failure_reason"]:
            log_message(self._state["failure_reason"])
        if not self._container_job.reports:
            return
        for note in self._state["notes"]:
            log_message(note)
        results = self._container.results(self._job.kind, self._job.current_host)
        try:
            results.mkdir(parents=True, exist_ok=True)
            if self._verdict is not None:
                write_json(results / self.paths.verdict.name, self._verdict)
            write_json(results / self.paths.run.name, self._state.values)
        except OSError as error:
            log_message(f"{results} could not be written: {error.strerror}")
        if self._verdict is not None:
            self.sink.write(f"{verdict_line(self._verdict)}\n".encode())


def verdict_line(verdict: Mapping[str, Any]) -> str:
    """The verdict on one line. If it would be too long, it is without what the sensors measured over time; if that is not
    enough, also without its series, epochs and windows of steps.
    """
    line = _line(verdict)
    if len(line) > LONGEST_LINE:
        gpus = [{**gpu, "series": _without(gpu["series"], *SENSORS)} for gpu in verdict["gpus"]]
        line = _line({**verdict, "gpus": gpus})
    if len(line) > LONGEST_LINE:
        shorter: dict[str, Any] = {**verdict, "gpus": [_without(gpu, "series") for gpu in verdict["gpus"]]}
        if steps := verdict.get("steps"):
            ranks = [{**rank, "epochs": [], "windows": []} for rank in steps["ranks"]]
            shorter["steps"] = {**steps, "epochs": [], "ranks": ranks}
        line = _line(shorter)
    return VERDICT_MARKER + line


def _line(document: Mapping[str, Any]) -> str:
    return json.dumps(document, separators=(",", ":"))


def _without(document: Mapping[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in document.items() if name not in names}


def log_message(text: str, marker: str = MESSAGE_MARKER) -> None:
    """Write the agent's own message to standard error, which SageMaker logs together with the script's output.

    Args:
        marker: begins each line; `gpuproof` shows lines with the usual marker when the run ends, not in its log.
    """
    sink = Sink(lambda: os.dup(2))
    lines = "".join(f"{marker}{line}\n" for line in text.splitlines())
    sink.write(lines.encode(errors="backslashreplace"))
    sink.close()


def _read(container: ContainerPaths) -> ContainerJob:
    try:
        job = AgentJob.read(container.job)
    except OSError as error:
        raise InvalidContainerJob(f"{container.job} cannot be read: {error.strerror}") from error
    except (ValueError, TypeError, AttributeError) as error:
        raise InvalidContainerJob(
            f"{container.job} is not a job that this agent understands: {error}"
        ) from error
    config = read_config(container, job.kind)
    return ContainerJob(adapt_job(job, config, container), config, container.source, reports=True)


def _first_state(job: AgentJob) -> RunState:
    state = RunState()
    state.update(
        id=job.run_id,
        job_name=job.job_name,
        kind=job.kind,
        backend="sagemaker",
        host=job.current_host,
        hosts=list(job.hosts),
        instance_type=job.instance_type,
        created=time.time(),
        **({"provenance": dict(job.provenance)} if job.provenance else {}),
    )
    return state


def _open_standard_files() -> None:
    """Open descriptors 0, 1 and 2 if they are closed: a file opened in their place would receive their output."""
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:  # noqa: PERF203 - three
            os.open(os.devnull, os.O_RDWR)


def _working_folder(base: Path) -> Path:
    try:
        return Path(tempfile.mkdtemp(prefix="gpuproof-"))
    except OSError:
        # No folder for temporary files, or no room in it: SageMaker's own folder is the next best.
        return Path(tempfile.mkdtemp(prefix=".gpuproof-", dir=base))


def _write_failure(container: ContainerPaths, why: str) -> None:
    """Write the failure file; the kind of an unreadable job follows from the configuration that SageMaker has written."""
    kind = "processing" if container.resource_config("processing").parent.is_dir() else "training"
    failure = RunPaths(container.base, container.base).failure(kind)
    try:
        failure.parent.mkdir(parents=True, exist_ok=True)
        failure.write_text(why, encoding="utf-8", errors="backslashreplace")
    except OSError as error:
        log_message(f"{failure} could not be written: {error.strerror}")
