"""A plan decides everything with reads alone, and refuses what cannot run before anything is made."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import boto3
import pytest

from gpuproof.agent.job import UnusedGpuRule
from gpuproof.backends.api_call import format_calls
from gpuproof.backends.aws import Aws, AwsRefused, NoCredentials
from gpuproof.backends.base import PlanOptions
from gpuproof.backends.sagemaker.backend import SageMakerBackend
from gpuproof.errors import InvalidJob, UsageError
from gpuproof.units import Duration
from support.aws_emulator import RunningEmulator
from support.sagemaker_sandbox import SageMakerSandbox

pytestmark = pytest.mark.slow

READS = ("Get", "Head", "List", "Describe")


def refused(sandbox: SageMakerSandbox, job: Any) -> InvalidJob | UsageError:
    with pytest.raises((InvalidJob, UsageError)) as raised:
        sandbox.backend().plan(job)
    return raised.value


def test_planning_reads_and_makes_nothing(sandbox: SageMakerSandbox) -> None:
    job = sandbox.training(inputs={"training": "data"}, sagemaker={"bucket": None})
    sandbox.emulator.forget_requests()
    plan = sandbox.backend().plan(job)
    assert plan.bucket.calls
    assert [operation for operation in sandbox.emulator.operations() if not operation.startswith(READS)] == []


def test_the_calls_are_data_in_the_order_of_their_execution(sandbox: SageMakerSandbox) -> None:
    calls = sandbox.backend().plan(sandbox.training(inputs={"training": "data"})).calls()
    assert [call.operation for call in calls] == [
        "upload_file",
        "upload_file",
        "upload_file",
        "upload_file",
        "put_object",
        "copy_object",
        "copy_object",
        "put_object",
        "create_training_job",
    ]
    assert calls[-1].undo is not None
    assert calls[-1].undo.operation == "stop_training_job"


def test_printed_calls_hide_the_secrets_of_the_environment(sandbox: SageMakerSandbox) -> None:
    plan = sandbox.backend().plan(sandbox.training(environment={"HF_TOKEN": "s3cret-value", "DEBUG": "on"}))
    calls = plan.calls()
    printed = repr([call.to_json() for call in calls]) + repr(format_calls(calls))
    assert "s3cret" not in printed
    assert "'DEBUG': 'on'" in printed


def test_calls_of_one_kind_are_shown_together(sandbox: SageMakerSandbox) -> None:
    shown = format_calls(sandbox.backend().plan(sandbox.training(inputs={"training": "data"})).calls())
    assert "s3 upload_file (2 times): upload the input training, unless it exists" in [
        title for title, _ in shown
    ]


def test_every_plan_has_a_name_of_its_own_that_sagemaker_takes(sandbox: SageMakerSandbox) -> None:
    backend = sandbox.backend()
    job = sandbox.training(name="a" * 63)
    one, other = backend.plan(job).run_id, backend.plan(job).run_id
    assert one != other
    assert len(one) <= 63


def test_a_single_file_is_a_channel_that_holds_it(sandbox: SageMakerSandbox) -> None:
    plan = sandbox.backend().plan(sandbox.training(inputs={"training": "data/a.csv"}))
    address = plan.addresses.inputs["training"]
    keys = [call.request["Key"] for call in plan.calls() if call.what.startswith("upload the input")]
    assert [f"s3://{sandbox.bucket}/{key}" for key in keys] == [f"{address}a.csv"]


def test_an_input_that_is_not_here_is_refused(sandbox: SageMakerSandbox) -> None:
    assert "does not exist" in refused(sandbox, sandbox.training(inputs={"training": "nowhere"})).message


def test_an_input_on_s3_that_is_not_there_is_refused_before_anything_is_paid(
    sandbox: SageMakerSandbox,
) -> None:
    address = f"s3://{sandbox.bucket}/nowhere/"
    assert "no object matches" in refused(sandbox, sandbox.training(inputs={"training": address})).message


def test_an_input_on_s3_is_used_where_it_is(sandbox: SageMakerSandbox) -> None:
    sandbox.aws.put_object(sandbox.bucket, "mine/a.csv", b"1")
    address = f"s3://{sandbox.bucket}/mine/"
    plan = sandbox.backend().plan(sandbox.training(inputs={"training": address}))
    assert plan.addresses.inputs == {"training": address}


def test_a_bucket_of_another_region_is_refused_with_both_names(
    sandbox: SageMakerSandbox, emulator: RunningEmulator
) -> None:
    client = emulator.client("s3", "eu-west-1")
    name = f"{sandbox.bucket}-there"
    client.create_bucket(Bucket=name, CreateBucketConfiguration={"LocationConstraint": "eu-west-1"})
    for job in (
        sandbox.training(sagemaker={"bucket": name}),
        sandbox.training(inputs={"training": f"s3://{name}/data"}),
        sandbox.training(output=f"s3://{name}/out"),
        sandbox.training(checkpoint=f"s3://{name}/checkpoints"),
    ):
        problem = refused(sandbox, job)
        assert "eu-west-1" in problem.message
        assert "us-east-1" in problem.message
        assert "--region eu-west-1" in (problem.remedy or "")


def test_results_on_s3_go_to_the_jobs_output(sandbox: SageMakerSandbox) -> None:
    plan = sandbox.backend().plan(sandbox.training(output=f"s3://{sandbox.bucket}/mine"))
    assert plan.addresses.output == f"s3://{sandbox.bucket}/mine"
    plan = sandbox.backend().plan(sandbox.training(output="here"))
    assert plan.addresses.output == f"s3://{sandbox.bucket}/gpuproof/runs/{plan.run_id}/output/"


def test_earlier_outputs_of_the_script_are_not_source(sandbox: SageMakerSandbox) -> None:
    (sandbox.folder / "src" / "out").mkdir()
    (sandbox.folder / "src" / "out" / "model.tar.gz").write_text("old")
    plan = sandbox.backend().plan(sandbox.training(output="src/out"))
    assert [file.relative for file in plan.tree.files] == ["train.py"]


def test_the_default_limit_of_a_day_is_shown_with_its_cost(sandbox: SageMakerSandbox) -> None:
    plan = sandbox.backend().plan(sandbox.training(max_duration=None, instance_type="ml.g5.xlarge"))
    assert plan.max_cost_usd(plan.target) == pytest.approx(24 * 1.408)
    assert any("may cost $33.79" in note for note in plan.warnings)


def test_a_wait_raised_to_the_time_limit_is_noted(sandbox: SageMakerSandbox) -> None:
    def notes(max_wait: str) -> str:
        job = sandbox.training(resources={"spot": True}, max_duration="1h", sagemaker={"max_wait": max_wait})
        return " ".join(sandbox.backend().plan(job).warnings)

    assert "max_wait (10m) includes the running time and was raised to the time limit, 1h" in notes("10m")
    assert "max_wait" not in notes("1h")


def test_the_default_rule_against_idle_gpus_is_noted(sandbox: SageMakerSandbox) -> None:
    plan = sandbox.backend().plan(sandbox.training(instance_type="ml.g5.xlarge"))
    assert plan.agent_job(plan.target).if_gpu_unused == UnusedGpuRule("stop", 900.0)
    assert any("15 minutes" in note for note in plan.warnings)


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ({"resources": {"spot": True}, "sagemaker": {"keep_alive": "5min"}}, "warm pool"),
        ({"instance_type": "g5.xlarge"}, "start with ml."),
        ({"environment": {f"A{number}": "x" for number in range(100)}, "tags": {"a": "b,c"}}, "'b,c'"),
        ({"inputs": {f"c{number}": "data" for number in range(20)}}, "inputs has 21 entries"),
    ],
)
def test_what_cannot_run_is_refused(sandbox: SageMakerSandbox, keys: dict[str, Any], expected: str) -> None:
    assert expected in refused(sandbox, sandbox.training(**keys)).message


def test_a_mount_over_gpuproofs_own_files_is_refused(sandbox: SageMakerSandbox) -> None:
    job = sandbox.processing(inputs={"/opt/ml/processing/gpuproof/data": "data"})
    assert "GPUproof's own files" in refused(sandbox, job).message


def test_a_processing_job_on_spot_runs_on_demand_with_a_note(sandbox: SageMakerSandbox) -> None:
    plan = sandbox.backend().plan(sandbox.processing(resources={"spot": True}))
    assert any("no spot capacity for processing" in note for note in plan.warnings)


def test_checkpoints_of_a_run_that_did_not_complete_are_taken_over(sandbox: SageMakerSandbox) -> None:
    (sandbox.folder / "src" / "train.py").write_text(
        "import pathlib\npathlib.Path('/opt/ml/checkpoints/1').write_text('1')\nraise SystemExit(3)\n"
    )
    job = sandbox.training(name="goes-on")
    backend = sandbox.backend()
    first = backend.plan(job)
    assert first.checkpoints == f"s3://{sandbox.bucket}/gpuproof/checkpoints/goes-on/{first.run_id}/"
    assert backend.submit_once(first).run.wait().status == "Failed"
    second = backend.plan(job)
    assert second.checkpoints == first.checkpoints
    assert any(first.run_id in note for note in second.warnings)
    assert backend.plan(job, PlanOptions(fresh=True)).checkpoints != first.checkpoints
    assert backend.plan(job.model_copy(update={"name": "goes"})).checkpoints != first.checkpoints


def test_a_run_that_completed_ends_the_series(sandbox: SageMakerSandbox) -> None:
    (sandbox.folder / "src" / "train.py").write_text(
        "import pathlib\npathlib.Path('/opt/ml/checkpoints/1').write_text('1')\n"
    )
    job = sandbox.training(name="is-done")
    backend = sandbox.backend()
    first = backend.plan(job)
    assert backend.submit_once(first).run.wait().status == "Completed"
    assert backend.plan(job).checkpoints != first.checkpoints


def test_a_fresh_run_does_not_load_older_checkpoints(sandbox: SageMakerSandbox) -> None:
    (sandbox.folder / "src" / "train.py").write_text(
        "import pathlib\npathlib.Path('/opt/ml/checkpoints/1').write_text('1')\nraise SystemExit(3)\n"
    )
    job = sandbox.training(name="afresh")
    backend = sandbox.backend()
    backend.submit_once(backend.plan(job)).run.wait()
    (sandbox.folder / "src" / "train.py").write_text("raise SystemExit(3)\n")
    fresh = backend.plan(job, PlanOptions(fresh=True))
    backend.submit_once(fresh).run.wait()
    assert backend.plan(job).checkpoints not in (fresh.checkpoints, None)
    assert not any("left" in note for note in backend.plan(job).warnings)


def test_the_next_attempt_has_another_name_and_the_types_that_are_left(sandbox: SageMakerSandbox) -> None:
    plan = sandbox.backend().plan(sandbox.training(fallbacks=["ml.m5.2xlarge", "ml.m5.4xlarge"]))
    following = plan.next_plan("ml.m5.xlarge")
    assert following is not None
    assert [target.name for target in following.targets] == ["ml.m5.2xlarge", "ml.m5.4xlarge"]
    assert following.run_id != plan.run_id
    assert following.checkpoints == plan.checkpoints
    assert plan.next_plan("ml.m5.4xlarge") is None
    assert replace(plan, targets=plan.targets[:1]).next_plan("ml.m5.xlarge") is None


def test_missing_credentials_are_reported(sandbox: SageMakerSandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    backend = SageMakerBackend(
        Aws(session=lambda: boto3.Session(region_name="us-east-1")), cache=sandbox.folder.parent
    )
    with pytest.raises(NoCredentials):
        backend.plan(sandbox.training())


def test_an_expired_token_is_reported_with_its_code(
    sandbox: SageMakerSandbox, emulator: RunningEmulator
) -> None:
    emulator.faults("expired-token")
    with pytest.raises(AwsRefused) as raised:
        sandbox.backend().plan(sandbox.training())
    assert "ExpiredToken" in raised.value.message
    assert raised.value.remedy


def test_a_missing_region_is_reported_with_what_to_type(
    sandbox: SageMakerSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AWS_DEFAULT_REGION", raising=False)
    backend = SageMakerBackend(Aws(session=lambda: boto3.Session("a", "b")), cache=sandbox.folder.parent)
    with pytest.raises(UsageError, match="region"):
        backend.plan(sandbox.training())


def test_the_most_that_it_may_cost_counts_time_limit_and_instances(sandbox: SageMakerSandbox) -> None:
    job = sandbox.training(instance_type="ml.g5.xlarge", instance_count=2, max_duration="30m")
    plan = sandbox.backend().plan(job)
    assert plan.max_cost_usd(plan.target) == pytest.approx(1.408)


def test_the_highest_cost_is_that_of_the_most_expensive_type_with_its_warm_pool(
    sandbox: SageMakerSandbox,
) -> None:
    job = sandbox.training(instance_type="ml.g5.xlarge", fallbacks=["ml.g5.12xlarge"], max_duration="30m")
    plan = sandbox.backend().plan(job)
    assert plan.max_usd == plan.max_cost_usd(plan.targets[1])
    kept = job.sagemaker.model_copy(update={"keep_alive": Duration(1800)})
    warm = sandbox.backend().plan(job.model_copy(update={"sagemaker": kept}))
    assert warm.max_usd == pytest.approx(2 * (plan.max_usd or 0))


def test_a_cpu_job_has_a_cost_limit(sandbox: SageMakerSandbox) -> None:
    job = sandbox.training(instance_type="ml.m5.xlarge", require_gpu=False, max_duration="1h")
    plan = sandbox.backend().plan(job)
    assert dict(plan.describe())["time limit"].endswith("; at most $0.23 on demand")


def test_a_derived_price_is_marked_wherever_the_plan_prints_it(sandbox: SageMakerSandbox) -> None:
    job = sandbox.training(instance_type="ml.m7i.xlarge", require_gpu=False, max_duration=None)
    plan = sandbox.backend().plan(job)
    text = dict(plan.describe())
    assert "ml.m7i.xlarge at ~$0.24 an hour" in text["instance"]
    assert "~ is derived from similar prices" in text["instance"]
    assert "at most ~$5.81 on demand" in text["time limit"]
    assert any("may cost ~$5.81" in note for note in plan.warnings)
    assert plan.document()["instance_types"][0]["price_kind"] == "derived"


class TestSecrets:
    """Files that look like secrets are refused before anything is uploaded."""

    def test_in_the_source_folder(self, sandbox: SageMakerSandbox) -> None:
        (sandbox.folder / "src" / ".env").write_text("X=1\n")
        sandbox.emulator.forget_requests()
        refusal = refused(sandbox, sandbox.training())
        assert ".env (by its name)" in refusal.message
        assert "--include '.env'" in str(refusal.remedy)
        assert [
            operation for operation in sandbox.emulator.operations() if not operation.startswith(READS)
        ] == []

    def test_in_an_input(self, sandbox: SageMakerSandbox) -> None:
        (sandbox.folder / "data" / "deep" / "id_rsa").write_text("x")
        refusal = refused(sandbox, sandbox.training(inputs={"training": "data"}))
        assert "deep/id_rsa (by its name)" in refusal.message
        sandbox.backend().plan(sandbox.training(inputs={"training": "data"}, include=["deep/id_rsa"]))

    def test_unless_include_names_them(self, sandbox: SageMakerSandbox) -> None:
        (sandbox.folder / "src" / ".env").write_text("X=1\n")
        plan = sandbox.backend().plan(sandbox.training(include=[".env"]))
        assert plan.files() == [
            (".env", 4),
            ("train.py", (sandbox.folder / "src" / "train.py").stat().st_size),
        ]
        assert plan.document()["files"][0] == {"name": ".env", "bytes": 4}

    def test_what_git_ignores_is_not_uploaded_and_no_reason_to_refuse(
        self, sandbox: SageMakerSandbox
    ) -> None:
        (sandbox.folder / "src" / ".env").write_text("X=1\n")
        (sandbox.folder / "src" / ".gitignore").write_text(".env\n")
        plan = sandbox.backend().plan(sandbox.training())
        assert [name for name, _ in plan.files()] == [".gitignore", "train.py"]
        refused(sandbox, sandbox.training(respect_gitignore=False))


def test_every_host_gets_the_launcher_and_a_key_that_is_not_shown(sandbox: SageMakerSandbox) -> None:
    job = sandbox.training(
        instance_type="ml.g5.12xlarge",
        instance_count=2,
        distribution={"launcher": "torchrun", "max_restarts": 2},
        stall_timeout="20m",
        step_times=False,
    )
    plan = sandbox.backend().plan(job)
    sent = plan.agent_job(plan.target)
    assert not sent.step_times
    assert (sent.launcher, sent.max_restarts, sent.stall_timeout) == ("torchrun", 2, 1200.0)
    assert len(sent.cluster_key) == 64
    shown = dict(plan.describe())
    assert shown["launcher"] == "torchrun (4 processes on each of 2 hosts)"
    assert shown["instance"].startswith("2 x ml.g5.12xlarge at $")
    assert " an hour each" in shown["instance"]
    assert not [warning for warning in plan.warnings if "SM_HOSTS" in warning]
    assert sent.cluster_key not in json.dumps(plan.document(), default=str)


def test_auto_is_resolved_for_each_instance_type(sandbox: SageMakerSandbox) -> None:
    (sandbox.folder / "src" / "train.py").write_text(
        "import torch.distributed as dist\ndist.init_process_group()"
    )
    job = sandbox.training(
        instance_type="ml.g5.12xlarge", fallbacks=["ml.g5.xlarge"], distribution="auto", require_gpu=True
    )
    plan = sandbox.backend().plan(job)
    assert [plan.agent_job(target).launcher for target in plan.targets] == ["torchrun", "none"]
    assert (
        dict(plan.describe())["launcher"] == "torchrun (train.py uses torch.distributed; 4 GPUs on one host)"
    )


def test_a_driver_seen_in_this_account_decides_the_default_image(sandbox: SageMakerSandbox) -> None:
    keys = {"name": "driver", "instance_type": "ml.g4dn.xlarge", "require_gpu": False}
    job = sandbox.training(**keys, image=None, framework="pytorch")
    before = sandbox.backend().plan(job).target.image
    assert before.row is not None
    assert before.row.cuda.startswith("13.")
    record = sandbox.run(sandbox.training(**keys))
    client = sandbox.emulator.client("sagemaker")
    arn = client.describe_training_job(TrainingJobName=record.id)["TrainingJobArn"]
    client.add_tags(ResourceArn=arn, Tags=[{"Key": "gpuproof:driver", "Value": "470.256.02"}])
    after = sandbox.backend().plan(job).target.image
    assert after.row is not None
    assert after.row.cuda.startswith("12.")
    client.delete_tags(ResourceArn=arn, TagKeys=["gpuproof:driver"])
