"""How a watched job of SageMaker ends otherwise: its script fails, it is stopped, or it is only reported."""

from __future__ import annotations

import json

import pytest

from support.cli_sandbox import until
from support.sagemaker_recipes import Recipes
from support.sdk_scripts import job_logs

pytestmark = [pytest.mark.slow, pytest.mark.journey, pytest.mark.xdist_group("watch-sagemaker")]

ENDLESS = "import os, time\nprint('started', os.environ['TRAINING_JOB_NAME'], flush=True)\ntime.sleep(600)\n"


def start_with_boto3(recipes: Recipes, code: str | None = None) -> None:
    """Start the job of the page's file for boto3."""
    recipes.upload_source()
    code = code or recipes.block("boto3", "python")
    done = recipes.run_python(code.replace("digits-1", recipes.aws.name()))
    assert done.returncode == 0, done.stderr


@pytest.mark.nightly
def test_the_toolkit_still_finds_the_error_of_a_script(recipes: Recipes) -> None:
    recipes.write_script(uses_gpu=True)
    (recipes.source / "train.py").write_text("raise ValueError('no data')\n")
    (recipes.source / "watch.sh").write_text(recipes.block("SageMaker SDK v2", "bash"))
    recipes.run_python(recipes.block("SageMaker SDK v2", "python"), "sagemaker-v2")
    reason = recipes.job()["FailureReason"]
    assert reason.startswith("AlgorithmError: ExecuteUserScriptError:")
    # The toolkit reads in pieces, and may break a line.
    assert "ValueError" in reason
    assert "no data" in reason
    assert "gpu-unused" not in reason
    assert json.loads(recipes.report())["exit_code"] == 1


def test_a_stopped_job_has_its_report(recipes: Recipes) -> None:
    recipes.write_script(uses_gpu=False)
    (recipes.source / "train.py").write_text(ENDLESS)
    start_with_boto3(recipes)
    aws = recipes.aws
    name = f"{aws.prefix}-1"
    until(lambda: f"started {name}" in job_logs(aws.emulator), "the script's start", 600.0)
    aws.client("sagemaker").stop_training_job(TrainingJobName=name)
    job = recipes.job()
    assert job["TrainingJobStatus"] == "Stopped"
    assert "FailureReason" not in job
    assert json.loads(recipes.report())["signal"] == 15


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (["--if-unused", "stop", "--grace", "3s"], "[gpu-unused] No process of the job opened a GPU."),
        (["--stall-timeout", "3s"], "(--stall-timeout): the command is ended"),
    ],
)
def test_a_job_that_is_ended_fails_with_the_reason(recipes: Recipes, options: list[str], reason: str) -> None:
    recipes.write_script(uses_gpu=False)
    (recipes.source / "train.py").write_text(ENDLESS)
    code = recipes.block("boto3", "python")
    words = ", ".join(f'"{word}"' for word in ["watch", *options, "--"])
    start_with_boto3(recipes, code.replace('"watch", "--",', f"{words},"))
    assert reason in recipes.job()["FailureReason"]
    assert json.loads(recipes.report())["stopped_because"] is not None


def test_the_hosts_of_a_job_bring_their_verdicts_together(recipes: Recipes) -> None:
    recipes.write_script(uses_gpu=False)
    aws = recipes.aws
    code = recipes.block("boto3", "python").replace('"InstanceCount": 1', '"InstanceCount": 2')
    to = f'"watch", "--to", "s3://{aws.bucket}/verdicts", "--",'
    start_with_boto3(recipes, code.replace('"watch", "--",', to))
    assert recipes.job()["TrainingJobStatus"] == "Failed"
    name = f"{aws.prefix}-1"
    folder = f"verdicts/sagemaker-{name}"
    keys = aws.keys(folder)
    assert {f"{folder}/host-algo-1.json", f"{folder}/host-algo-2.json"} < set(keys)
    (job,) = [key for key in keys if key.startswith(f"{folder}/job-")]
    report = json.loads(aws.get(job))
    assert (report["hosts"], report["verdict"]["gpus_working"]) == (2, 0)
    assert f"sagemaker-{name}, all 2 hosts" in "\n".join(aws.log(name) + aws.log(name, "algo-2"))


@pytest.mark.nightly
@pytest.mark.parametrize("uses_gpu", [True, False], ids=["used", "unused"])
def test_ranks_of_torchrun_share_the_verdict_of_their_host(recipes: Recipes, uses_gpu: bool) -> None:
    recipes.write_script(uses_gpu=uses_gpu, before=recipes.block("A line in the script", "python"))
    code = recipes.block("SageMaker SDK v3", "python")
    command = 'command="python gpuproof-agent.pyz watch -- python train.py",'
    assert command in code
    code = code.replace(command, 'entry_script="train.py",')
    code = code.replace("763104351884", "123456789012").replace("pytorch-training", "own")
    code = code.replace("base_job_name=", "distributed=Torchrun(process_count_per_node=2), base_job_name=")
    code = f"from sagemaker.train.distributed import Torchrun\n{code}"
    assert (recipes.run_python(code, "sagemaker-v3").returncode == 0) is uses_gpu
    job = recipes.job()
    assert ("[gpu-unused] " in job.get("FailureReason", "")) is not uses_gpu, job
    report = json.loads(recipes.report())
    assert report["group"].startswith("torchrun-")
    assert "\n".join(recipes.aws.log(job["TrainingJobName"])).count("verdict    ") == 1


def test_without_the_requirement_the_job_completes(recipes: Recipes) -> None:
    recipes.write_script(uses_gpu=False)
    code = recipes.block("boto3", "python")
    assert '"watch", "--",' in code
    start_with_boto3(recipes, code.replace('"watch", "--",', '"watch", "--no-require-gpu", "--",'))
    assert recipes.job()["TrainingJobStatus"] == "Completed"
    assert json.loads(recipes.report())["verdict"]["outcome"] == "cpu-only"
