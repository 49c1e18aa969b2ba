"""The plan of a `kind: machine` job on EC2."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gpuproof.backends.ec2.launch_record import LaunchRecord
from gpuproof.backends.ec2.planner import Planner
from gpuproof.backends.ec2.tracking.result_locations import results_of
from gpuproof.backends.remote.s3_layout import RunLayout
from gpuproof.errors import InvalidJob
from gpuproof.jobs.models.machine import MachineJob
from support.ec2_planning import EC2PlanningSandbox

pytestmark = pytest.mark.slow


def machine(sandbox: EC2PlanningSandbox, **keys: Any) -> MachineJob:
    settings = {"bucket": sandbox.bucket, **keys.pop("ec2", {})}
    job = MachineJob(name="bench", source_dir="src", instance_type="g5.xlarge", ec2=settings, **keys)
    return job.with_absolute_paths(sandbox.folder)


def planner(sandbox: EC2PlanningSandbox) -> Planner:
    return Planner(sandbox.aws, sandbox.emulator.state.parent / "cache")


def test_a_machine_has_the_contract_of_a_training_job_and_a_program_instead_of_a_script(
    sandbox: EC2PlanningSandbox,
) -> None:
    plan = planner(sandbox).plan(machine(sandbox, jupyter=True, inputs={"training": "data"}))
    agent_job, parameters = plan.agent_job(plan.target), plan.host_parameters(plan.target)
    assert agent_job.machine is not None
    assert (agent_job.machine.jupyter, agent_job.machine.idle_timeout) == (True, 3600.0)
    assert (agent_job.kind, agent_job.require_gpu, agent_job.if_gpu_unused) == ("training", False, None)
    assert (parameters.machine, parameters.kind, parameters.max_duration) == (True, "training", 43_200.0)
    assert list(parameters.inputs) == ["input/data/training"]
    assert parameters.checkpoints == plan.checkpoints
    lines = dict(plan.describe())
    assert lines["machine"] == "JupyterLab; ends when it is idle for 1h, or after 12h"
    assert "script" not in lines
    record = plan.record(plan.target)
    assert (record.kind, record.require_gpu, record.outputs) == ("machine", False, {"work": plan.checkpoints})
    assert str(results_of(record).outputs["work"]) == plan.checkpoints


def test_the_work_folder_of_a_machine_that_completed_is_used_again(sandbox: EC2PlanningSandbox) -> None:
    first = planner(sandbox).plan(machine(sandbox))
    record = replace(first.record(first.target), instances=("i-0123456789abcdef0",))
    put(sandbox, record)
    again = planner(sandbox).plan(machine(sandbox))
    assert again.checkpoints == first.checkpoints
    assert f"the work folder is that of {first.run_id} (--fresh starts without)" in again.warnings
    fresh = planner(sandbox).plan(machine(sandbox), fresh=True)
    assert fresh.checkpoints != first.checkpoints


def put(sandbox: EC2PlanningSandbox, record: LaunchRecord) -> None:
    """A run that has completed, and left a notebook."""
    layout, client = RunLayout(record.run_id), sandbox.emulator.client("s3")
    key = record.checkpoints.removeprefix(f"s3://{sandbox.bucket}/")
    for name, body in {
        layout.launch: record.to_bytes(),
        layout.host_file("algo-1", "end.json"): b'{"status": "Completed"}',
        f"{key}notes.ipynb": b"{}",
    }.items():
        client.put_object(Bucket=sandbox.bucket, Key=name, Body=body)


def test_a_machine_in_a_container_is_rejected(sandbox: EC2PlanningSandbox) -> None:
    with pytest.raises(InvalidJob, match="runs in the environment of an AMI"):
        planner(sandbox).plan(machine(sandbox, ec2={"container": True}))
