"""Submitting makes one job, or leaves nothing; capacity and quotas lead to the next type."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from gpuproof.backends.aws import Aws, AwsRefused
from gpuproof.backends.sagemaker.plan import plan_calls
from gpuproof.backends.sagemaker.s3_layout import CODE_TAGS
from gpuproof.backends.sagemaker.submission.capacity import NotToBeHad
from gpuproof.backends.sagemaker.submission.fallbacks import attempts
from gpuproof.errors import ExitCode
from support.sagemaker_sandbox import Desk, Watched, struck

pytestmark = pytest.mark.slow


def test_a_job_is_made_and_runs(desk: Desk) -> None:
    record = desk.run(desk.training(inputs={"training": "data"}, hyperparameters={"epochs": 3}))
    assert record.status == "Completed"
    assert desk.jobs()[0] == record.id


def test_what_is_executed_is_what_was_planned(desk: Desk) -> None:
    place = desk.place()
    plan = place.plan(desk.training(inputs={"training": "data"}))
    planned = {call.request["Key"] for call in plan_calls(plan) if call.service == "s3"}
    desk.emulator.forget_requests()
    place.submit(plan)
    assert planned <= desk.objects()
    assert desk.emulator.operations("sagemaker").count("CreateTrainingJob") == 1


def test_code_carries_the_tag_by_which_the_bucket_cleans_up(desk: Desk) -> None:
    place = desk.place()
    layout = place.submit(place.plan(desk.training())).plan.layout
    for key in (layout.agent, layout.source, layout.job):
        told = desk.emulator.client("s3").get_object_tagging(Bucket=desk.bucket, Key=key)["TagSet"]
        assert {tag["Key"]: tag["Value"] for tag in told} == CODE_TAGS


def test_what_is_there_is_not_sent_again(desk: Desk) -> None:
    place = desk.place()
    job = desk.training(inputs={"training": "data"})
    first, second = Watched(), Watched()
    place.submit(place.plan(job), first)
    place.submit(place.plan(job), second)
    assert max(done for _, done, _ in first.sent) > 0
    assert [done for _, done, _ in second.sent if done] == []


def test_a_changed_source_is_sent_and_the_data_is_not(desk: Desk) -> None:
    place = desk.place()
    job = desk.training(inputs={"training": "data"})
    place.submit(place.plan(job))
    (desk.folder / "src" / "train.py").write_text("print('another')\n")
    watched = Watched()
    place.submit(place.plan(job), watched)
    assert {what for what, done, _ in watched.sent if done} == {"the source"}


def test_the_steps_are_named_while_it_goes(desk: Desk) -> None:
    place, watched = desk.place(), Watched()
    plan = place.plan(desk.training(inputs={"training": "data"}))
    place.submit(plan, watched)
    assert watched.steps == [
        "send the agent",
        "send the source",
        "send the input training",
        "bring agent and source into the code channel",
        f"create the training job {plan.run_id} on ml.m5.xlarge",
    ]


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_connection_lost_while_creating_makes_one_job(desk: Desk, when: str) -> None:
    place = desk.place()
    plan = place.plan(desk.training())
    with struck(desk.emulator, f"drop,operation=CreateTrainingJob,count=1,when={when}"):
        started = place.submit(plan)
    assert started.run.wait().status == "Completed"
    assert [name for name in desk.jobs() if name.startswith("small-")].count(plan.run_id) == 1


@pytest.mark.parametrize("operation", ["HeadObject", "ListObjectsV2", "PutObject", "CopyObject"])
def test_a_connection_lost_on_the_way_is_mended(desk: Desk, operation: str) -> None:
    place = desk.place()
    plan = place.plan(desk.training(inputs={"training": "data"}))
    with struck(desk.emulator, f"drop,operation={operation},count=2"):
        started = place.submit(plan)
    assert started.run.wait().status == "Completed"


def test_a_job_of_the_same_name_that_is_not_ours_is_not_taken_for_ours(desk: Desk) -> None:
    place = desk.place()
    plan = place.plan(desk.training())
    *_, create = plan_calls(plan)
    place.submit(plan)
    theirs = {**create.request, "TrainingJobName": f"{plan.run_id[:-4]}ffff"}
    theirs["Tags"] = []
    desk.emulator.client("sagemaker").create_training_job(**theirs)
    with pytest.raises(AwsRefused) as raised:
        place.submit(replace(plan, run_id=theirs["TrainingJobName"]))
    assert raised.value.code == "ResourceInUse"


def test_throttling_at_every_step_is_waited_out(desk: Desk) -> None:
    place = desk.place()
    plan = place.plan(desk.training(inputs={"training": "data"}))
    with struck(desk.emulator, "throttling,count=12"):
        started = place.submit(plan)
    assert started.run.wait().status == "Completed"


def test_a_quota_leads_to_the_next_type_and_names_what_the_first_needs(desk: Desk) -> None:
    place, watched = desk.place(), Watched()
    plan = place.plan(desk.training(instance_type="ml.g5.xlarge", fallbacks=["ml.m5.xlarge"]))
    with struck(desk.emulator, "quota,instance=ml.g5.xlarge"):
        started = place.submit(plan, watched)
    assert started.target.name == "ml.m5.xlarge"
    assert [one.name for one in started.tried] == ["ml.g5.xlarge"]
    assert "L-B6D80D9C" in watched.notes[0]
    assert "trying ml.m5.xlarge" in watched.notes[0]
    described = desk.aws.describe_job("training", plan.run_id)
    assert described is not None
    assert described["ResourceConfig"]["InstanceType"] == "ml.m5.xlarge"


def test_the_job_is_told_which_type_it_got(desk: Desk) -> None:
    place = desk.place()
    plan = place.plan(desk.training(instance_type="ml.g5.xlarge", fallbacks=["ml.m5.xlarge"]))
    with struck(desk.emulator, "quota,instance=ml.g5.xlarge"):
        place.submit(plan)
    order = json.loads(desk.aws.get_bytes(desk.bucket, plan.layout.job) or b"{}")
    assert (order["instance_type"], order["expected_gpus"]) == ("ml.m5.xlarge", 0)


def test_no_quota_for_any_type_says_all_that_was_tried_and_what_each_needs(desk: Desk) -> None:
    place = desk.place()
    job = desk.training(instance_type="ml.g5.xlarge", fallbacks=["ml.g6.xlarge"])
    with struck(desk.emulator, "quota"), pytest.raises(NotToBeHad) as raised:
        place.submit(place.plan(job))
    said, remedy = raised.value.message, raised.value.remedy or ""
    assert "ml.g5.xlarge: ResourceLimitExceeded" in said
    assert "ml.g6.xlarge: ResourceLimitExceeded" in said
    assert "request-service-quota-increase --service-code sagemaker --quota-code L-B6D80D9C" in remedy
    assert "'ml.g6.xlarge for training job usage'" in remedy
    assert raised.value.exit_code == ExitCode.AWS_REFUSED
    assert desk.objects("gpuproof/runs/") == set()


def test_no_capacity_at_creation_leads_to_the_next_type(desk: Desk) -> None:
    place = desk.place()
    plan = place.plan(desk.training(instance_type="ml.g5.xlarge", fallbacks=["ml.m5.xlarge"]))
    with struck(desk.emulator, "capacity,instance=ml.g5.xlarge,at=creation"):
        assert place.submit(plan).target.name == "ml.m5.xlarge"


def test_a_run_that_failed_for_capacity_is_followed_by_one_on_the_next_type(desk: Desk) -> None:
    place, watched = desk.place(), Watched()
    plan = place.plan(
        desk.training(instance_type="ml.g5.xlarge", fallbacks=["ml.m5.xlarge"], require_gpu=False)
    )
    made: list[Any] = []
    with struck(desk.emulator, "capacity,instance=ml.g5.xlarge"):
        for started in attempts(place, plan, watched):
            started.run.wait()
            made.append(started)
    first, second = made
    assert first.run.record.status == "Failed"
    assert second.run.record.status == "Completed"
    assert second.target.name == "ml.m5.xlarge"
    assert first.run.id != second.run.id
    assert desk.objects(f"gpuproof/runs/{first.run.id}/") == set()
    assert [one.code for one in second.tried] == ["CapacityError"]


def test_no_capacity_for_the_last_type_is_said_with_all_that_was_tried(desk: Desk) -> None:
    place = desk.place()
    plan = place.plan(desk.training(instance_type="ml.g5.xlarge", require_gpu=False))
    with struck(desk.emulator, "capacity"), pytest.raises(NotToBeHad, match="CapacityError"):
        for started in attempts(place, plan):
            started.run.wait()


def test_a_job_that_fails_by_itself_is_not_tried_on_another_type(desk: Desk) -> None:
    (desk.folder / "src" / "train.py").write_text("raise SystemExit('CapacityError: not really')\n")
    place = desk.place()
    plan = place.plan(desk.training(fallbacks=["ml.m5.2xlarge"]))
    made: list[Any] = []
    for started in attempts(place, plan):
        started.run.wait()
        made.append(started)
    assert len(made) == 1


def test_a_secret_reaches_nothing_but_the_environment(desk: Desk) -> None:
    secret = "tok-3n-v4lue-never-to-be-seen"
    place = desk.place()
    (desk.folder / "src" / "train.py").write_text("import os\nprint(len(os.environ['HF_TOKEN']))\n")
    plan = place.plan(desk.training(environment={"HF_TOKEN": secret}))
    watched = Watched()
    run = place.submit(plan, watched).run
    assert run.wait().status == "Completed"
    for key in desk.objects():
        assert secret.encode() not in (desk.aws.get_bytes(desk.bucket, key) or b"")
    described = dict(desk.aws.describe_job("training", plan.run_id) or {})
    assert described.pop("Environment") == {"HF_TOKEN": secret}
    assert secret not in repr(described)
    assert secret not in repr(desk.aws.tags(described["TrainingJobArn"]))
    assert secret not in repr((watched.steps, watched.notes))


def test_a_secret_that_aws_quotes_in_a_refusal_is_hidden(desk: Desk) -> None:
    secret = "tok-3n-v4lue-never-to-be-seen"

    class Quoting(Aws):
        def call(self, service: str, operation: str, /, **request: Any) -> dict[str, Any]:
            if operation == "create_training_job":
                raise AwsRefused(f"ValidationException: {request['Environment']}", code="ValidationException")
            return super().call(service, operation, **request)

    place = desk.place(desk.client(Quoting))
    plan = place.plan(desk.training(environment={"HF_TOKEN": secret}))
    with pytest.raises(AwsRefused) as raised:
        place.submit(plan)
    assert secret not in str(raised.value)
    assert "***" in raised.value.message


def test_a_processing_job_runs_and_leaves_its_outputs(desk: Desk) -> None:
    (desk.folder / "src" / "train.py").write_text(
        "import pathlib, shutil\n"
        "for path in pathlib.Path('/opt/ml/processing/input/raw').rglob('*.csv'):\n"
        "    shutil.copy(path, '/opt/ml/processing/output/clean')\n"
    )
    job = desk.processing(inputs={"raw": "data"}, outputs={"clean": None})
    record = desk.run(job)
    assert record.status == "Completed", record.failure_reason
    found = desk.objects(f"gpuproof/runs/{record.id}/output/clean/")
    assert {key.rpartition("/")[2] for key in found} == {"a.csv", "b.csv"}
