"""The link to scripts from templates: state machines, Batch and ECS containers with GPUs, user data of instances."""

import json
from pathlib import Path

import pytest

from support.check_helpers import check_here, jobs_in, write_files

TRAIN = """
    import torch

    model = torch.nn.Linear(8, 1).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x in torch.utils.data.DataLoader([]):
        optimizer.zero_grad()
        model(x.cuda()).sum().backward()
        optimizer.step()
    torch.save(model.state_dict(), "/tmp/model.pt")
"""
DOCKERFILE = """
    FROM pytorch/pytorch
    WORKDIR /app
    COPY src/ /app/
"""


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def linked(folder: Path, name: str, text: str, **files: str) -> list[tuple[str, str | None]]:
    """The jobs of a template as their API and script, in a project with a Dockerfile that copies src to /app."""
    write_files(folder, {name: text, "src/train.py": TRAIN, "Dockerfile": DOCKERFILE, **files})
    return [(job.api, job.script.title if job.script else None) for job in jobs_in(folder, name)]


def codes() -> list[str]:
    return [hit.finding.code for hit in check_here().hits]


TRAINING = {
    "TrainingJobName.$": "$.name",
    "AlgorithmSpecification": {
        "TrainingImage": "763104351884.dkr.ecr.us-east-1.amazonaws.com/pytorch-training:2.6",
        "TrainingInputMode": "File",
        "ContainerEntrypoint": ["python3", "src/train.py"],
    },
    "ResourceConfig": {"InstanceType": "ml.g5.12xlarge", "InstanceCount": 1, "VolumeSizeInGB": 50},
}


def machine(parameters: object, resource: str = "arn:aws:states:::sagemaker:createTrainingJob.sync") -> str:
    task = {"Type": "Task", "Resource": resource, "Parameters": parameters, "End": True}
    inner = {"StartAt": "Train", "States": {"Train": task}}
    return json.dumps(
        {"StartAt": "All", "States": {"All": {"Type": "Parallel", "Branches": [inner], "End": True}}}
    )


def test_a_training_job_of_a_state_machine_is_linked(tmp_path: Path) -> None:
    assert linked(tmp_path, "train.asl.json", machine(TRAINING)) == [("create_training_job", "train.py")]


def test_the_definition_of_a_state_machine_is_read_in_terraform(tmp_path: Path) -> None:
    text = (
        f'resource "aws_sfn_state_machine" "train" {{\n  definition = <<EOF\n{machine(TRAINING)}\nEOF\n}}\n'
    )
    assert linked(tmp_path, "main.tf", text) == [("create_training_job", "train.py")]


def test_the_folder_behind_an_archive_in_s3_is_found_by_the_name_of_the_script(tmp_path: Path) -> None:
    packaged = {
        "sagemaker_program": "fit.py",
        "sagemaker_submit_directory": '"s3://bucket/code/sourcedir.tar.gz"',
    }
    specification = {"TrainingImage": "image", "TrainingInputMode": "File"}
    text = machine({**TRAINING, "AlgorithmSpecification": specification, "HyperParameters": packaged})
    (tmp_path / ".git").mkdir()
    found = linked(tmp_path, "infra/train.asl.json", text, **{"model/fit.py": TRAIN})
    assert found == [("create_training_job", "fit.py")]


def test_a_placeholder_in_a_definition_leaves_the_rest_known(tmp_path: Path) -> None:
    text = machine({**TRAINING, "RoleArn": "${aws_iam_role.sagemaker.arn}"})
    template = f'resource "aws_sfn_state_machine" "train" {{\n  definition = <<EOF\n{text}\nEOF\n}}\n'
    assert linked(tmp_path, "main.tf", template) == [("create_training_job", "train.py")]


def test_the_definition_of_a_state_machine_is_read_in_cloudformation(tmp_path: Path) -> None:
    text = f"""
    Resources:
      Machine:
        Type: AWS::StepFunctions::StateMachine
        Properties:
          DefinitionString: !Sub |
            {machine({**TRAINING, "RoleArn": "${{Role.Arn}}"})}
    """
    assert linked(tmp_path, "template.yaml", text) == [("create_training_job", "train.py")]


def test_a_processing_job_is_read_in_cloudformation(tmp_path: Path) -> None:
    text = """
    Resources:
      Prepare:
        Type: AWS::SageMaker::ProcessingJob
        Properties:
          AppSpecification:
            ImageUri: image
            ContainerEntrypoint: [python3, /opt/ml/processing/input/code/src/train.py]
          ProcessingResources:
            ClusterConfig: {InstanceCount: 1, InstanceType: ml.g5.xlarge, VolumeSizeInGB: 30}
    """
    assert linked(tmp_path, "template.yaml", text) == [("AWS::SageMaker::ProcessingJob", "train.py")]


BATCH = """
    resource "aws_batch_job_definition" "train" {
      name = "train"
      type = "container"
      container_properties = jsonencode({
        image   = "${aws_ecr_repository.train.repository_url}:latest"
        command = ["python", "/app/train.py", "--epochs", "Ref::epochs"]
        resourceRequirements = [
          { type = "VCPU", value = "8" },
          { type = "GPU", value = "4" },
        ]
      })
    }
"""


def test_a_batch_container_with_gpus_is_linked_through_the_dockerfile(tmp_path: Path) -> None:
    assert linked(tmp_path, "infra/main.tf", BATCH) == [("aws_batch_job_definition.train", "train.py")]
    (job,) = jobs_in(tmp_path, "infra/main.tf")
    assert job.gpu_count.number == 4
    assert not job.has_contract


def test_the_entry_point_of_the_image_comes_before_the_command(tmp_path: Path) -> None:
    text = BATCH.replace('"python", "/app/train.py"', '"train.py"')
    recipe = f'{DOCKERFILE}\n    ENTRYPOINT ["python"]'
    found = linked(tmp_path, "infra/main.tf", text, Dockerfile=recipe)
    assert found == [("aws_batch_job_definition.train", "train.py")]


def test_user_data_in_a_folder_of_its_own_reaches_the_script(tmp_path: Path) -> None:
    boot = "#!/bin/bash\nsource activate pytorch\ncd /home/ubuntu/project\nnohup python src/train.py &\n"
    data = 'templatefile("${path.module}/../scripts/boot.sh", {})'
    text = f'resource "aws_instance" "gpu" {{\n  instance_type = "g5.12xlarge"\n  user_data = {data}\n}}\n'
    (tmp_path / ".git").mkdir()
    found = linked(tmp_path, "infra/main.tf", text, **{"scripts/boot.sh": boot})
    assert found == [("aws_instance.gpu", "train.py")]
    assert "SM126" not in codes()
    assert "IN102" not in codes()
    (idle,) = [hit.finding for hit in check_here().hits if hit.finding.code == "DS101"]
    assert "Use g5.xlarge" in (idle.remedy or "")


def test_a_job_definition_in_a_request_file_is_linked(tmp_path: Path) -> None:
    container = {"command": ["python", "train.py"], "resourceRequirements": [{"type": "GPU", "value": "1"}]}
    text = json.dumps({"jobDefinitionName": "train", "type": "container", "containerProperties": container})
    assert linked(tmp_path, "job.json", text) == [("register_job_definition", "train.py")]


def test_a_container_that_boto3_registers_is_linked(tmp_path: Path) -> None:
    text = """
    import boto3

    boto3.client("batch").register_job_definition(
        jobDefinitionName="train", type="container",
        containerProperties={
            "image": "image", "command": ["python", "train.py"],
            "resourceRequirements": [{"type": "GPU", "value": "1"}],
        },
    )
    """
    assert linked(tmp_path, "launch.py", text) == [("register_job_definition", "train.py")]


def test_the_containers_of_an_ecs_task_are_linked(tmp_path: Path) -> None:
    text = """
    Resources:
      Task:
        Type: AWS::ECS::TaskDefinition
        Properties:
          ContainerDefinitions:
            - Name: train
              Image: image
              EntryPoint: [torchrun, --nproc_per_node=4]
              Command: [train.py]
              ResourceRequirements: [{Type: GPU, Value: "4"}]
            - Name: proxy
              Image: envoy
              Command: [python, missing.py]
    """
    assert linked(tmp_path, "template.yaml", text) == [
        ("AWS::ECS::TaskDefinition", "train.py"),
        ("AWS::ECS::TaskDefinition", None),
    ]


def test_a_batch_job_that_a_state_machine_submits_is_linked(tmp_path: Path) -> None:
    overrides = {"Command": ["python", "train.py"], "ResourceRequirements": [{"Type": "GPU", "Value": "1"}]}
    text = machine({"ContainerOverrides": overrides}, "arn:aws:states:::batch:submitJob.sync")
    assert linked(tmp_path, "train.asl.json", text) == [("batch:submitJob", "train.py")]


@pytest.mark.parametrize(
    "data",
    [
        'file("${path.module}/boot.sh")',
        'templatefile("${path.module}/boot.sh", { bucket = var.bucket })',
        'base64encode(templatefile("boot.sh", {}))',
        'filebase64("boot.sh")',
        "<<-EOT\n#!/bin/bash\naws s3 cp s3://${var.bucket}/data . --recursive\ncd /home/ubuntu/project\npython3 src/train.py\nEOT",
    ],
)
def test_user_data_is_followed_to_its_file_and_to_the_script(data: str, tmp_path: Path) -> None:
    text = f'resource "aws_instance" "gpu" {{\n  instance_type = "g5.12xlarge"\n  user_data = {data}\n}}\n'
    boot = "#!/bin/bash\npip install -r requirements.txt\ncd /home/ubuntu/project && python3 src/train.py\n"
    found = linked(tmp_path, "main.tf", text, **{"boot.sh": boot})
    assert found == [("aws_instance.gpu", "train.py")]


def test_idle_gpus_of_a_container_are_found(tmp_path: Path) -> None:
    linked(tmp_path, "infra/main.tf", BATCH)
    assert "DS101" in codes()


def test_a_script_that_is_not_here_is_named_once(tmp_path: Path) -> None:
    write_files(tmp_path, {"main.tf": BATCH.replace("train.py", "other.py")})
    assert codes() == ["SM126"]


@pytest.mark.parametrize(
    "text",
    [
        'resource "aws_instance" "web" {\n  instance_type = "t3.micro"\n  user_data = "#!/bin/bash\\npython3 app.py\\n"\n}\n',
        'resource "aws_instance" "gpu" {\n  instance_type = "g5.xlarge"\n  user_data = "#!/bin/bash\\nyum update -y\\n"\n}\n',
        'resource "aws_ecs_task_definition" "web" {\n  container_definitions = jsonencode([{ name = "web", image = "nginx", command = ["python", "app.py"] }])\n}\n',
        'resource "aws_batch_job_definition" "x" {\n  container_properties = jsonencode({ image = "x", command = ["Ref::command"] })\n}\n',
        'resource "aws_sfn_state_machine" "x" {\n  definition = templatefile("${path.module}/x.asl.json", {})\n}\n',
        'resource "aws_sfn_state_machine" "x" {\n  definition = <<EOF\n{"StartAt": "A", "States": {"A": {"Type": "Pass", "End": true}}}\nEOF\n}\n',
    ],
)
def test_infrastructure_that_trains_nothing_is_quiet(text: str, tmp_path: Path) -> None:
    write_files(tmp_path, {"main.tf": text})
    assert codes() == []
