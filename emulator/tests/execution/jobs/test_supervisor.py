"""The supervisor stops jobs that are running, and no others."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuproof_emulator.context import Context
from gpuproof_emulator.execution.jobs.job_control import JobControl
from gpuproof_emulator.execution.jobs.supervisor import JobSupervisor
from gpuproof_emulator.store import PROCESSING, Resource
from support.emulator_context import make_context


@pytest.mark.parametrize("ended", ["Completed", "Failed", "Stopped"])
def test_a_job_that_has_just_ended_does_not_begin_to_stop(tmp_path: Path, ended: str) -> None:
    context = make_context(tmp_path)
    job = _job(context, ended)
    assert not JobSupervisor(context).stop(job)
    assert job.document["ProcessingJobStatus"] == ended


def test_a_stop_that_comes_before_the_jobs_thread_is_heeded(tmp_path: Path) -> None:
    context = make_context(tmp_path)
    job = _job(context, "InProgress")
    seen: list[bool] = []

    def run(_context: Context, _job: Resource, control: JobControl, _folder: Path) -> None:
        seen.append(control.stop_requested)

    supervisor = JobSupervisor(context, {PROCESSING: run})
    assert supervisor.stop(job)
    supervisor.start(job)
    supervisor.shutdown()
    assert seen == [True]


def _job(context: Context, status: str) -> Resource:
    job = Resource(PROCESSING, "us-east-1", "job", {"ProcessingJobStatus": status})
    context.store.add(job)
    return job
