"""A machine boots on a simulated instance: JupyterLab, its work folder, its end when it is idle, stopped or interrupted."""

from __future__ import annotations

import json
import os
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from gpuproof.agent.job import MachineSettings
from support.ec2_host_jobs import HostJob, HostJobs
from support.simulated_instance import SimulatedInstance

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("machine")]

_PATIENCE_S = 300.0


def machine(jobs: HostJobs, idle_timeout: float, *, jupyter: bool, **parameters: Any) -> HostJob:
    """A machine whose source is one file."""
    settings = asdict(MachineSettings(jupyter, idle_timeout, seeds_work_folder=True))
    return jobs.new(
        "print('from the source')",
        job={"machine": settings},
        machine=True,
        checkpoints=f"s3://{jobs.bucket}/work-{os.urandom(4).hex()}/",
        **parameters,
    )


def work_key(job: HostJob, name: str) -> str:
    prefix = job.parameters.checkpoints.removeprefix(f"s3://{job.jobs.bucket}/")
    return f"{prefix}{name}"


def wait_for_access(job: HostJob, instance: SimulatedInstance) -> dict[str, Any]:
    """Wait until the host has uploaded how to reach the server."""
    end = time.monotonic() + _PATIENCE_S
    while (found := job.report("jupyter.json")) is None:
        assert instance.is_on, instance.console
        assert time.monotonic() < end, f"{instance.console}\n{job.jobs.output(job)}"
        time.sleep(0.1)
    return found


def test_a_machine_serves_jupyter_and_ends_when_it_is_idle(jobs: HostJobs, tmp_path: Path) -> None:
    pytest.importorskip("jupyterlab")
    job = machine(jobs, 3.0, jupyter=True)
    with SimulatedInstance(tmp_path, job) as instance:
        access = wait_for_access(job, instance)
        instance.wait_until_off()
        console = instance.console
    end, run = job.end, job.report("run.json")
    assert (end["status"], end["exit_code"]) == ("Completed", 0)
    assert run is not None
    assert "idle for 3.0 s: no kernel was busy and no GPU worked" in run["notes"]
    assert access["port"] == 8888
    assert len(access["token"]) > 30
    log = jobs.output(job)
    assert "Jupyter is ready" in log
    assert "idle for 3.0 s" in log
    for text in (log, console, json.dumps(run), json.dumps(end)):
        assert access["token"] not in text
    assert jobs.get(work_key(job, "train.py")) == b"print('from the source')"
    assert not [key for key in jobs.keys(job.layout.prefix) if key.endswith("model.tar.gz")]


def test_the_work_folder_continues_where_an_earlier_machine_left_it(jobs: HostJobs, tmp_path: Path) -> None:
    job = machine(jobs, 1.0, jupyter=False)
    jobs.put(work_key(job, "notes.ipynb"), b"{}")
    jobs.put(work_key(job, "train.py"), b"print('changed on the machine')")
    with SimulatedInstance(tmp_path, job) as instance:
        instance.wait_until_off()
    assert job.end["status"] == "Completed"
    assert jobs.get(work_key(job, "notes.ipynb")) == b"{}"
    assert jobs.get(work_key(job, "train.py")) == b"print('changed on the machine')"
    assert "train.py was changed here and in the source" in jobs.output(job)


def test_a_spot_notice_saves_the_work(jobs: HostJobs, tmp_path: Path) -> None:
    job = machine(jobs, 600.0, jupyter=False)
    with SimulatedInstance(tmp_path, job) as instance:
        until = time.monotonic() + _PATIENCE_S
        while "the machine is ready" not in jobs.output(job):
            assert time.monotonic() < until, instance.console
            time.sleep(0.1)
        notice = '{"action": "terminate", "time": "2026-05-01T12:00:00Z"}'
        instance.metadata(**{"meta-data/spot/instance-action": notice})
        instance.wait_until_off()
    assert (job.end["status"], job.end["interrupted"]) == ("Stopped", True)
    assert jobs.get(work_key(job, "train.py")) == b"print('from the source')"
