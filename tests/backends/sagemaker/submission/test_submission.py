"""Submitting makes one job, or leaves nothing; capacity and quotas lead to the next type."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from gpuproof.backends.aws import Aws, AwsRefused
from gpuproof.backends.errors import NoCapacity
from gpuproof.backends.progress import SilentProgress
from gpuproof.backends.remote.s3_layout import CODE_TAGS
from gpuproof.errors import ExitCode
from support.sagemaker_sandbox import RecordingProgress, SageMakerSandbox, injected_faults

pytestmark = pytest.mark.slow


def test_a_job_is_made_and_runs(sandbox: SageMakerSandbox) -> None:
    record = sandbox.run(sandbox.training(inputs={"training": "data"}, hyperparameters={"epochs": 3}))
    assert record.status == "Completed"
    assert sandbox.jobs()[0] == record.id


def test_what_is_executed_is_what_was_planned(sandbox: SageMakerSandbox) -> None:
    backend = sandbox.backend()
    plan = backend.plan(sandbox.training(inputs={"training": "data"}))
    planned = {call.request["Key"] for call in plan.calls() if call.service == "s3"}
    sandbox.emulator.forget_requests()
    backend.submit_once(plan)
    assert planned <= sandbox.objects()
    assert sandbox.emulator.operations("sagemaker").count("CreateTrainingJob") == 1


def test_code_carries_the_tag_by_which_the_bucket_cleans_up(sandbox: SageMakerSandbox) -> None:
    backend = sandbox.backend()
    plan = backend.plan(sandbox.training())
    backend.submit_once(plan)
    layout = plan.layout
    for key in (layout.agent, layout.source, layout.job):
        tags = sandbox.emulator.client("s3").get_object_tagging(Bucket=sandbox.bucket, Key=key)["TagSet"]
        assert {tag["Key"]: tag["Value"] for tag in tags} == CODE_TAGS


def test_what_is_there_is_not_sent_again(sandbox: SageMakerSandbox) -> None:
    backend = sandbox.backend()
    job = sandbox.training(inputs={"training": "data"})
    first, second = RecordingProgress(), RecordingProgress()
    backend.submit_once(backend.plan(job), first)
    backend.submit_once(backend.plan(job), second)
    assert max(done for _, done, _ in first.sent) > 0
    assert [done for _, done, _ in second.sent if done] == []


def test_a_changed_source_is_sent_and_the_data_is_not(sandbox: SageMakerSandbox) -> None:
    backend = sandbox.backend()
    job = sandbox.training(inputs={"training": "data"})
    backend.submit_once(backend.plan(job))
    (sandbox.folder / "src" / "train.py").write_text("print('another')\n")
    progress = RecordingProgress()
    backend.submit_once(backend.plan(job), progress)
    assert {what for what, done, _ in progress.sent if done} == {"Uploading the source"}


def test_the_steps_are_named_while_it_goes(sandbox: SageMakerSandbox) -> None:
    backend, progress = sandbox.backend(), RecordingProgress()
    plan = backend.plan(sandbox.training(inputs={"training": "data"}))
    backend.submit_once(plan, progress)
    assert progress.steps == [
        "upload the agent",
        "upload the source",
        "upload the input training",
        "copy the agent and the source into the code channel",
        f"create the training job {plan.run_id} on ml.m5.xlarge",
    ]


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_connection_lost_while_creating_makes_one_job(sandbox: SageMakerSandbox, when: str) -> None:
    backend = sandbox.backend()
    plan = backend.plan(sandbox.training())
    with injected_faults(sandbox.emulator, f"drop,operation=CreateTrainingJob,count=1,when={when}"):
        started = backend.submit_once(plan)
    assert started.run.wait().status == "Completed"
    assert [name for name in sandbox.jobs() if name.startswith("small-")].count(plan.run_id) == 1


@pytest.mark.parametrize("operation", ["HeadObject", "ListObjectsV2", "PutObject", "CopyObject"])
def test_a_connection_lost_on_the_way_is_mended(sandbox: SageMakerSandbox, operation: str) -> None:
    backend = sandbox.backend()
    plan = backend.plan(sandbox.training(inputs={"training": "data"}))
    with injected_faults(sandbox.emulator, f"drop,operation={operation},count=2"):
        started = backend.submit_once(plan)
    assert started.run.wait().status == "Completed"


def test_a_job_of_the_same_name_that_is_not_ours_is_not_taken_for_ours(sandbox: SageMakerSandbox) -> None:
    backend = sandbox.backend()
    plan = backend.plan(sandbox.training())
    *_, create = plan.calls()
    backend.submit_once(plan)
    theirs = {**create.request, "TrainingJobName": f"{plan.run_id[:-4]}ffff"}
    theirs["Tags"] = []
    sandbox.emulator.client("sagemaker").create_training_job(**theirs)
    with pytest.raises(AwsRefused) as raised:
        backend.submit_once(replace(plan, run_id=theirs["TrainingJobName"]))
    assert raised.value.code == "ResourceInUse"


def test_throttling_at_every_step_is_waited_out(sandbox: SageMakerSandbox) -> None:
    backend = sandbox.backend()
    plan = backend.plan(sandbox.training(inputs={"training": "data"}))
    with injected_faults(sandbox.emulator, "throttling,count=12"):
        started = backend.submit_once(plan)
    assert started.run.wait().status == "Completed"


def test_a_quota_leads_to_the_next_type_and_names_what_the_first_needs(sandbox: SageMakerSandbox) -> None:
    backend, progress = sandbox.backend(), RecordingProgress()
    plan = backend.plan(sandbox.training(instance_type="ml.g5.xlarge", fallbacks=["ml.m5.xlarge"]))
    with injected_faults(sandbox.emulator, "quota,instance=ml.g5.xlarge"):
        started = backend.submit_once(plan, progress)
    assert started.target.name == "ml.m5.xlarge"
    assert [attempt.name for attempt in started.tried] == ["ml.g5.xlarge"]
    assert "L-B6D80D9C" in progress.notes[0]
    assert "trying ml.m5.xlarge" in progress.notes[0]
    described = sandbox.aws.describe_job("training", plan.run_id)
    assert described is not None
    assert described["ResourceConfig"]["InstanceType"] == "ml.m5.xlarge"


def test_the_job_document_names_the_type_it_got(sandbox: SageMakerSandbox) -> None:
    backend = sandbox.backend()
    plan = backend.plan(sandbox.training(instance_type="ml.g5.xlarge", fallbacks=["ml.m5.xlarge"]))
    with injected_faults(sandbox.emulator, "quota,instance=ml.g5.xlarge"):
        backend.submit_once(plan)
    agent_job = json.loads(sandbox.aws.get_bytes(sandbox.bucket, plan.layout.job) or b"{}")
    assert (agent_job["instance_type"], agent_job["expected_gpus"]) == ("ml.m5.xlarge", 0)


def test_no_quota_for_any_type_lists_all_that_was_tried_and_what_each_needs(
    sandbox: SageMakerSandbox,
) -> None:
    backend = sandbox.backend()
    job = sandbox.training(instance_type="ml.g5.xlarge", fallbacks=["ml.g6.xlarge"])
    with injected_faults(sandbox.emulator, "quota"), pytest.raises(NoCapacity) as raised:
        backend.submit_once(backend.plan(job))
    output, remedy = raised.value.message, raised.value.remedy or ""
    assert "ml.g5.xlarge: ResourceLimitExceeded" in output
    assert "ml.g6.xlarge: ResourceLimitExceeded" in output
    assert "request-service-quota-increase --service-code sagemaker --quota-code L-B6D80D9C" in remedy
    assert "'ml.g6.xlarge for training job usage'" in remedy
    assert raised.value.exit_code == ExitCode.AWS_REFUSED
    assert sandbox.objects("gpuproof/runs/") == set()


def test_no_capacity_at_creation_leads_to_the_next_type(sandbox: SageMakerSandbox) -> None:
    backend = sandbox.backend()
    plan = backend.plan(sandbox.training(instance_type="ml.g5.xlarge", fallbacks=["ml.m5.xlarge"]))
    with injected_faults(sandbox.emulator, "capacity,instance=ml.g5.xlarge,at=creation"):
        assert backend.submit_once(plan).target.name == "ml.m5.xlarge"


def test_a_run_that_failed_for_capacity_is_followed_by_one_on_the_next_type(
    sandbox: SageMakerSandbox,
) -> None:
    backend, progress = sandbox.backend(), RecordingProgress()
    plan = backend.plan(
        sandbox.training(instance_type="ml.g5.xlarge", fallbacks=["ml.m5.xlarge"], require_gpu=False)
    )
    made: list[Any] = []
    with injected_faults(sandbox.emulator, "capacity,instance=ml.g5.xlarge"):
        for run in backend.submit(plan, progress):
            run.wait()
            made.append(run)
    first, second = made
    assert first.record.status == "Failed"
    assert second.record.status == "Completed"
    assert second.instance_type == "ml.m5.xlarge"
    assert first.id != second.id
    assert sandbox.objects(f"gpuproof/runs/{first.id}/") == set()
    assert first.lacked_capacity
    assert not second.lacked_capacity
    assert progress.notes == ["AWS has no capacity for ml.g5.xlarge; trying ml.m5.xlarge"]


def test_no_capacity_for_the_last_type_is_reported_with_all_that_was_tried(sandbox: SageMakerSandbox) -> None:
    backend = sandbox.backend()
    plan = backend.plan(sandbox.training(instance_type="ml.g5.xlarge", require_gpu=False))
    with injected_faults(sandbox.emulator, "capacity"), pytest.raises(NoCapacity, match="CapacityError"):
        for run in backend.submit(plan, SilentProgress()):
            run.wait()


def test_a_cpu_job_without_capacity_is_offered_cpu_types(sandbox: SageMakerSandbox) -> None:
    backend = sandbox.backend()
    plan = backend.plan(sandbox.training(instance_type="ml.m5.xlarge", require_gpu=False))
    with injected_faults(sandbox.emulator, "capacity"), pytest.raises(NoCapacity) as raised:
        for run in backend.submit(plan, SilentProgress()):
            run.wait()
    offered = [line for line in (raised.value.remedy or "").splitlines() if line.startswith("--fallback")]
    assert len(offered) == 3
    assert all("no GPU, 4 vCPU, " in line and " an hour" in line for line in offered)


def test_a_job_that_fails_by_itself_is_not_tried_on_another_type(sandbox: SageMakerSandbox) -> None:
    (sandbox.folder / "src" / "train.py").write_text("raise SystemExit('CapacityError: not really')\n")
    backend = sandbox.backend()
    plan = backend.plan(sandbox.training(fallbacks=["ml.m5.2xlarge"]))
    made: list[Any] = []
    for run in backend.submit(plan, SilentProgress()):
        run.wait()
        made.append(run)
    assert len(made) == 1


def test_a_secret_reaches_nothing_but_the_environment(sandbox: SageMakerSandbox) -> None:
    secret = "tok-3n-v4lue-never-to-be-seen"
    backend = sandbox.backend()
    (sandbox.folder / "src" / "train.py").write_text("import os\nprint(len(os.environ['HF_TOKEN']))\n")
    plan = backend.plan(sandbox.training(environment={"HF_TOKEN": secret}))
    progress = RecordingProgress()
    run = backend.submit_once(plan, progress).run
    assert run.wait().status == "Completed"
    for key in sandbox.objects():
        assert secret.encode() not in (sandbox.aws.get_bytes(sandbox.bucket, key) or b"")
    described = dict(sandbox.aws.describe_job("training", plan.run_id) or {})
    assert described.pop("Environment") == {"HF_TOKEN": secret}
    assert secret not in repr(described)
    assert secret not in repr(sandbox.aws.tags(described["TrainingJobArn"]))
    assert secret not in repr((progress.steps, progress.notes))


def test_a_secret_that_aws_quotes_in_a_refusal_is_hidden(sandbox: SageMakerSandbox) -> None:
    secret = "tok-3n-v4lue-never-to-be-seen"

    class Quoting(Aws):
        def call(self, service: str, operation: str, /, **request: Any) -> dict[str, Any]:
            if operation == "create_training_job":
                raise AwsRefused(f"ValidationException: {request['Environment']}", code="ValidationException")
            return super().call(service, operation, **request)

    backend = sandbox.backend(sandbox.client(Quoting))
    plan = backend.plan(sandbox.training(environment={"HF_TOKEN": secret}))
    with pytest.raises(AwsRefused) as raised:
        backend.submit_once(plan)
    assert secret not in str(raised.value)
    assert "***" in raised.value.message


def test_a_processing_job_runs_and_leaves_its_outputs(sandbox: SageMakerSandbox) -> None:
    (sandbox.folder / "src" / "train.py").write_text(
        "import pathlib, shutil\n"
        "for path in pathlib.Path('/opt/ml/processing/input/raw').rglob('*.csv'):\n"
        "    shutil.copy(path, '/opt/ml/processing/output/clean')\n"
    )
    job = sandbox.processing(inputs={"raw": "data"}, outputs={"clean": None})
    record = sandbox.run(job)
    assert record.status == "Completed", record.failure_reason
    found = sandbox.objects(f"gpuproof/runs/{record.id}/output/clean/")
    assert {key.rpartition("/")[2] for key in found} == {"a.csv", "b.csv"}
