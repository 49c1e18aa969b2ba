"""Each file of docs/watch-sagemaker.md, run by the program for which it is written, against an emulator."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from support.emulator_jobs import Account
from support.sagemaker_recipes import PAGE, Recipes
from support.sdk_environments import interpreter_of

pytestmark = [pytest.mark.slow, pytest.mark.journey, pytest.mark.xdist_group("watch-sagemaker")]

PROVIDER = Path(__file__).with_name("terraform_provider_aws.py")
both = pytest.mark.parametrize("uses_gpu", [True, False], ids=["used", "unused"])


def test_each_file_changes_one_line() -> None:
    files = re.findall(r"^```(?:python|terraform)\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    starts_a_job = re.compile(r"ModelTrainer|PyTorch|create_training_job|aws_sagemaker_training_job")
    changed = [block.count("changed; was") for block in files if starts_a_job.search(block)]
    assert changed == [1] * 5


@both
def test_boto3(recipes: Recipes, uses_gpu: bool) -> None:
    recipes.write_script(uses_gpu=uses_gpu)
    recipes.upload_source()
    code = recipes.block("boto3", "python").replace("digits-1", recipes.aws.name())
    done = recipes.run_python(code)
    assert done.returncode == 0, done.stderr
    recipes.check(uses_gpu=uses_gpu)


@both
def test_sdk_v2(recipes: Recipes, uses_gpu: bool) -> None:
    recipes.write_script(uses_gpu=uses_gpu)
    (recipes.source / "watch.sh").write_text(recipes.block("SageMaker SDK v2", "bash"))
    done = recipes.run_python(recipes.block("SageMaker SDK v2", "python"), "sagemaker-v2")
    assert (done.returncode == 0) is uses_gpu, done.stderr
    # The toolkit's own exit code.
    recipes.check(uses_gpu=uses_gpu, exit_code=1)
    assert ("[gpu-unused] " in done.stdout + done.stderr) is not uses_gpu
    assert '"train.py", "--epochs", "2"' in " ".join(recipes.report().split())


@pytest.mark.nightly
def test_the_variable_that_names_another_entry_point(recipes: Recipes) -> None:
    recipes.write_script(uses_gpu=False)
    (recipes.source / "watch.sh").write_text(recipes.block("SageMaker SDK v2", "bash"))
    changed = 'entry_point="watch.sh",'
    code = recipes.block("SageMaker SDK v2", "python")
    assert changed in code
    code = code.replace(changed, 'entry_point="train.py", environment={"SAGEMAKER_PROGRAM": "watch.sh"},')
    assert recipes.run_python(code, "sagemaker-v2").returncode == 1
    recipes.check(uses_gpu=False, exit_code=1)


@both
def test_sdk_v3(recipes: Recipes, uses_gpu: bool) -> None:
    recipes.write_script(uses_gpu=uses_gpu)
    done = recipes.run_python(recipes.block("SageMaker SDK v3", "python"), "sagemaker-v3")
    assert (done.returncode == 0) is uses_gpu, done.stderr
    recipes.check(uses_gpu=uses_gpu)


@pytest.mark.nightly
def test_sdk_v3_with_hyperparameters_on_the_command_line(recipes: Recipes) -> None:
    recipes.write_script(uses_gpu=False)
    (recipes.source / "watch.sh").write_text(recipes.block("SageMaker SDK v2", "bash"))
    code = recipes.block("SageMaker SDK v3", "python")
    command = 'command="python gpuproof-agent.pyz watch -- python train.py",'
    assert command in code
    code = code.replace(command, 'entry_script="watch.sh",')
    code = code.replace("base_job_name=", 'hyperparameters={"epochs": 2}, base_job_name=')
    assert recipes.run_python(code, "sagemaker-v3").returncode != 0
    recipes.check(uses_gpu=False)
    assert '"train.py", "--epochs", "2"' in " ".join(recipes.report().split())


@both
@pytest.mark.skipif(shutil.which("terraform") is None, reason="terraform is not installed")
def test_terraform(recipes: Recipes, uses_gpu: bool) -> None:
    recipes.write_script(uses_gpu=uses_gpu)
    recipes.upload_source()
    block = recipes.block("Terraform", "terraform").replace("digits-1", recipes.aws.name())
    (recipes.project / "main.tf").write_text(block)
    done = recipes.run(
        "terraform", "apply", "-auto-approve", "-no-color", **terraform_variables(recipes.project)
    )
    assert done.returncode == 0, done.stdout + done.stderr
    recipes.check(uses_gpu=uses_gpu)


def terraform_variables(folder: Path) -> dict[str, str]:
    """Variables with which Terraform uses the stand-in for AWS's provider."""
    plugin = folder / "provider" / "terraform-provider-aws"
    plugin.parent.mkdir()
    python = interpreter_of("terraform-provider")
    plugin.write_text(f"#!/bin/sh\nexec {python} {PROVIDER}\n")
    plugin.chmod(0o755)
    config = folder / "terraform.rc"
    overrides = f'dev_overrides {{ "hashicorp/aws" = "{plugin.parent}" }}'
    config.write_text(f"provider_installation {{\n{overrides}\ndirect {{}}\n}}\n")
    return {"TF_CLI_CONFIG_FILE": str(config), "CHECKPOINT_DISABLE": "1"}


@both
def test_pipelines(recipes: Recipes, uses_gpu: bool) -> None:
    recipes.write_script(uses_gpu=uses_gpu)
    done = recipes.run_python(recipes.block("SageMaker Pipelines", "python"), "sagemaker-v3")
    assert (done.returncode == 0) is uses_gpu, done.stderr
    recipes.check(uses_gpu=uses_gpu)
    (step,) = steps_of_newest_execution(recipes.aws)
    assert (step["StepName"], step["StepStatus"]) == ("Train", "Succeeded" if uses_gpu else "Failed")
    assert ("[gpu-unused] " in step.get("FailureReason", "")) is not uses_gpu


UNCHANGED = {
    "v2": ('entry_point="train.py",', 'entry_point="watch.sh",'),
    "v3": ('entry_script="train.py",', 'command="python gpuproof-agent.pyz watch -- python train.py",'),
}
"""For each SDK the line before the change, and after it."""


@both
@pytest.mark.parametrize("sdk", ["v2", "v3"])
def test_the_line_in_the_script(recipes: Recipes, sdk: str, uses_gpu: bool) -> None:
    recipes.write_script(uses_gpu=uses_gpu, before=recipes.block("A line in the script", "python"))
    unchanged, replaced = UNCHANGED[sdk]
    code = recipes.block(f"SageMaker SDK {sdk}", "python")
    assert replaced in code
    done = recipes.run_python(code.replace(replaced, unchanged), f"sagemaker-{sdk}")
    assert (done.returncode == 0) is uses_gpu, done.stderr
    recipes.check(uses_gpu=uses_gpu, exit_code=1 if sdk == "v2" else 4)


def steps_of_newest_execution(aws: Account) -> list[dict[str, Any]]:
    client = aws.client("sagemaker")
    newest = client.list_pipeline_executions(PipelineName="digits")["PipelineExecutionSummaries"][0]
    arn = newest["PipelineExecutionArn"]
    return client.list_pipeline_execution_steps(PipelineExecutionArn=arn)["PipelineExecutionSteps"]


@both
def test_a_processing_job(recipes: Recipes, uses_gpu: bool) -> None:
    recipes.write_script(uses_gpu=uses_gpu)
    recipes.upload_source()
    aws, code, out = recipes.aws, "/opt/ml/processing/input/code", "/opt/ml/processing/gpuproof-out"
    uploaded = {"S3Uri": f"s3://{aws.bucket}/reports", "LocalPath": out, "S3UploadMode": "Continuous"}
    source = {"S3Uri": f"s3://{aws.bucket}/src", "LocalPath": code}
    job = aws.processed(
        f"exec python {code}/gpuproof-agent.pyz watch -- python {code}/train.py",
        ProcessingInputs=[
            {"InputName": "code", "S3Input": {**source, "S3DataType": "S3Prefix", "S3InputMode": "File"}}
        ],
        ProcessingOutputConfig={"Outputs": [{"OutputName": "gpuproof", "S3Output": uploaded}]},
    )
    assert job["ProcessingJobStatus"] == ("Completed" if uses_gpu else "Failed")
    assert ("[gpu-unused] " in job["ExitMessage"]) is not uses_gpu
    outcome = json.loads(aws.get("reports/algo-1/report.json"))["verdict"]["outcome"]
    assert (outcome == "used") is uses_gpu


def test_each_host_of_a_job_has_a_report(recipes: Recipes) -> None:
    recipes.write_script(uses_gpu=False)
    recipes.upload_source()
    code = recipes.block("boto3", "python").replace("digits-1", recipes.aws.name())
    code = code.replace('"watch", "--",', '"watch", "--stall-timeout", "1h", "--",')
    assert recipes.run_python(code.replace('"InstanceCount": 1', '"InstanceCount": 2')).returncode == 0
    assert "exit code: 4, host: algo-" in recipes.job()["FailureReason"]
    reports = [json.loads(recipes.report(host)) for host in ("algo-1", "algo-2")]
    assert [report["host"] for report in reports] == ["algo-1", "algo-2"]
    assert {report["hosts"] for report in reports} == {2}
    assert {report["instance"]["type"] for report in reports} == {"ml.g5.xlarge"}
