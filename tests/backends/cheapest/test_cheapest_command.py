"""`gpuproof run --on cheapest` shows what it compared, and runs the job on the chosen backend."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from gpuproof.cli.main import main
from gpuproof.errors import ExitCode
from support.ec2_planning import EC2PlanningSandbox

pytestmark = pytest.mark.slow

JOB = """
name: small
entry_point: train.py
source_dir: src
instance_type: g5.xlarge
max_duration: 1h
require_gpu: false
"""
Typed = Callable[..., tuple[int, str, str]]


@pytest.fixture
def typed(
    sandbox: EC2PlanningSandbox, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Typed:
    """Run a command beside the job; returns the exit code and its output."""
    monkeypatch.chdir(sandbox.folder)
    monkeypatch.setenv("GPUPROOF_BUCKET", sandbox.bucket)
    sandbox.write("gpuproof.yaml", JOB)

    def run(*words: str) -> tuple[int, str, str]:
        code = main(["run", "--on", "cheapest", "--no-check", *words])
        captured = capfd.readouterr()
        return code, captured.out, captured.err

    return run


def test_a_dry_run_shows_the_comparison_and_the_plan(typed: Typed) -> None:
    code, out, err = typed("--dry-run")
    assert code == ExitCode.OK, err
    # On a busy machine, a line says which request is being waited for.
    lines = [line for line in (out + err).splitlines() if not line.startswith("gpuproof: waiting for ")]
    assert lines[0] == "dry run    of 'small': nothing was created"
    assert lines[1].startswith("choice     on EC2, g5.xlarge at $1.0")
    assert lines[1].endswith(" an hour: the lowest price")
    assert "on EC2 with spot capacity, g5.xlarge at $0." in lines[2]
    assert "on SageMaker, ml.g5.xlarge at $1.4" in lines[2]
    assert lines[3].startswith("script ")
    assert any(line.startswith("call       ec2 run_instances") for line in lines)


def test_a_dry_run_for_programs_lists_the_candidates(typed: Typed) -> None:
    code, out, err = typed("--dry-run", "--format", "json")
    assert code == ExitCode.OK, err
    document = json.loads(out)
    assert document["backend"] == "ec2"
    first, *others = document["candidates"]
    assert set(first) == {
        *("backend", "instance_type", "spot", "usd_per_hour", "predicted_seconds", "predicted_usd"),
        *("chosen", "reason"),
    }
    assert first["predicted_seconds"] is None
    assert (first["backend"], first["instance_type"], first["spot"]) == ("ec2", "g5.xlarge", False)
    assert (first["chosen"], first["reason"]) == (True, "the lowest price")
    assert {(other["backend"], other["spot"], other["chosen"]) for other in others} == {
        ("ec2", True, False),
        ("sagemaker", False, False),
        ("sagemaker", True, False),
    }


def test_the_job_is_submitted_to_the_chosen_backend(typed: Typed, sandbox: EC2PlanningSandbox) -> None:
    code, out, err = typed("--detach", "--format", "json")
    assert code == ExitCode.OK, err
    document = json.loads(out)
    try:
        assert document["instance_type"] == "g5.xlarge"
        assert [candidate["backend"] for candidate in document["candidates"] if candidate["chosen"]] == [
            "ec2"
        ]
        assert "choice     on EC2, g5.xlarge" in err
    finally:
        _terminate(sandbox, document["id"])


def test_without_quota_on_ec2_it_is_submitted_to_sagemaker(typed: Typed, sandbox: EC2PlanningSandbox) -> None:
    sandbox.emulator.quotas({"L-DB2E81BA": 0})
    try:
        code, out, err = typed("--detach", "--format", "json")
    finally:
        sandbox.emulator.quotas({"L-DB2E81BA": 500})
    assert code == ExitCode.OK, err
    run_id = json.loads(out)["id"]
    sagemaker = sandbox.emulator.client("sagemaker")
    described = sagemaker.describe_training_job(TrainingJobName=run_id)
    assert described["ResourceConfig"]["InstanceType"] == "ml.g5.xlarge"
    sagemaker.stop_training_job(TrainingJobName=run_id)


def test_no_quota_at_all_lists_the_candidates(typed: Typed, sandbox: EC2PlanningSandbox) -> None:
    sandbox.emulator.quotas({"L-DB2E81BA": 0, "L-B6D80D9C": 0})
    try:
        code, out, err = typed("--format", "json")
    finally:
        sandbox.emulator.quotas({"L-DB2E81BA": 500, "L-B6D80D9C": 500})
    assert code == ExitCode.AWS_REFUSED
    assert "No backend can run the job" in err
    document = json.loads(out)
    assert document["exit_code"] == ExitCode.AWS_REFUSED
    assert not any(candidate["chosen"] for candidate in document["candidates"])
    assert any("L-DB2E81BA" in line for line in err.splitlines())


def test_flags_of_other_backends_are_rejected(typed: Typed) -> None:
    code, _, err = typed("--python", "python3")
    assert code == ExitCode.USAGE
    assert "--python requires --on local" in err


def _terminate(sandbox: EC2PlanningSandbox, run_id: str) -> None:
    ec2 = sandbox.emulator.client("ec2")
    tagged = [{"Name": "tag:gpuproof:run", "Values": [run_id]}]
    pages = ec2.describe_instances(Filters=tagged)["Reservations"]
    ids = [instance["InstanceId"] for page in pages for instance in page["Instances"]]
    assert len(ids) == 1
    ec2.terminate_instances(InstanceIds=ids)
