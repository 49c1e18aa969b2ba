"""Jobs and instances that shell scripts, Makefiles and request files start with the AWS CLI or boto3."""

from pathlib import Path

import pytest

from support.check_helpers import check_here, write_files


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def found(tmp_path: Path, **files: str) -> set[tuple[str, str, int]]:
    write_files(tmp_path, {name.replace("_DOT_", "."): text for name, text in files.items()})
    hits = check_here(select=("IN",)).hits
    return {(hit.code, hit.finding.location.file, hit.finding.location.line) for hit in hits}  # type: ignore[union-attr,misc]


def test_shorthand_of_a_training_job(tmp_path: Path) -> None:
    script = """
        #!/bin/bash
        TYPE=ml.g5.3xlarge
        aws --region us-east-1 sagemaker create-training-job \\
          --training-job-name digits \\
          --resource-config InstanceType=$TYPE,InstanceCount=1,VolumeSizeInGB=30
    """
    assert found(tmp_path, run_DOT_sh=script) == {("IN101", "run.sh", 6)}


def test_variants_of_an_endpoint_in_json(tmp_path: Path) -> None:
    script = """
        aws sagemaker create-endpoint-config --endpoint-config-name e --production-variants \\
          '[{"VariantName": "a", "ModelName": "m", "InitialInstanceCount": 1, "InstanceType": "g5.xlarge"}]'
    """
    assert found(tmp_path, run_DOT_sh=script) == {("IN102", "run.sh", 3)}


def test_a_recipe_that_starts_an_instance(tmp_path: Path) -> None:
    makefile = "TYPE ?= g5.3xlarge\ngpu:\n\taws ec2 run-instances --instance-type $(TYPE) --image-id ami-1 --count 1\n"
    assert found(tmp_path, Makefile=makefile) == {("IN101", "Makefile", 3)}


def test_a_request_in_a_file_is_reported_once_and_where_it_is(tmp_path: Path) -> None:
    request = '{\n"ImageId": "ami-1",\n"InstanceType": "ml.g5.xlarge",\n"MinCount": 1, "MaxCount": 1}\n'
    script = "aws ec2 run-instances --cli-input-json file://ec2.json\n"
    assert found(tmp_path, run_DOT_sh=script, ec2_DOT_json=request) == {("IN102", "ec2.json", 3)}


def test_instances_of_boto3(tmp_path: Path) -> None:
    code = """
        import boto3

        boto3.client("ec2").run_instances(ImageId="ami-1", InstanceType="g5.3xlarge", MinCount=1, MaxCount=1)
        boto3.resource("ec2").create_instances(ImageId="ami-1", InstanceType="ml.g5.xlarge", MinCount=1, MaxCount=1)
    """
    assert {(code, line) for code, _, line in found(tmp_path, ec2_DOT_py=code)} == {
        ("IN101", 4),
        ("IN102", 5),
    }


def test_values_that_only_the_caller_knows(tmp_path: Path) -> None:
    script = """
        aws sagemaker create-training-job --training-job-name x --resource-config "InstanceType=$1,InstanceCount=$2"
        aws ec2 run-instances "$@"
    """
    assert found(tmp_path, run_DOT_sh=script) == set()


def test_instance_types_of_node_groups(tmp_path: Path) -> None:
    cluster = """
        apiVersion: eksctl.io/v1alpha5
        kind: ClusterConfig
        metadata: {name: ml, region: us-east-1}
        managedNodeGroups:
          - name: gpu
            instanceType: g5.3xlarge
    """
    assert found(tmp_path, cluster_DOT_yaml=cluster) == {("IN101", "cluster.yaml", 7)}


def test_the_steps_of_a_pipeline(tmp_path: Path) -> None:
    terraform = """
        resource "aws_sagemaker_pipeline" "speech" {
          pipeline_definition = jsonencode({
            Version = "2020-12-01"
            Steps = [{ Name = "Train", Type = "Training", Arguments = {
              ResourceConfig = {
                InstanceType = "ml.g5.3xlarge"
              }
            } }]
          })
        }
    """
    assert found(tmp_path, main_DOT_tf=terraform) == {("IN101", "main.tf", 7)}


@pytest.mark.parametrize("command", ["aws --region us-east-1 sagemaker", "aws sagemaker --region us-east-1"])
def test_an_image_of_another_region_than_the_command(tmp_path: Path, command: str) -> None:
    service, *options = command.partition("sagemaker")[0::2]
    script = f"""
        {service.strip()} sagemaker create-training-job {" ".join(options).strip()} --training-job-name x \\
          --algorithm-specification TrainingImage=763104351884.dkr.ecr.us-west-2.amazonaws.com/pytorch-training:2.3.0-gpu-py311
    """
    write_files(tmp_path, {"run.sh": script})
    assert [hit.code for hit in check_here(select=("FW104",)).hits] == ["FW104"]


def test_a_job_in_a_file_of_a_command_is_reported_once(tmp_path: Path) -> None:
    request = """
        {
          "TrainingJobName": "digits",
          "AlgorithmSpecification": {
            "TrainingImage": "763104351884.dkr.ecr.us-east-1.amazonaws.com/pytorch-training:2.3.0-gpu-py311-cu121-ubuntu20.04-sagemaker",
            "TrainingInputMode": "File"
          },
          "ResourceConfig": {"InstanceType": "ml.g5.xlarge", "InstanceCount": 1, "VolumeSizeInGB": 30}
        }
    """
    command = "aws sagemaker create-training-job --cli-input-json file://job.json\n"
    write_files(tmp_path, {"run.sh": command, "job.json": request})
    hits = check_here(select=("SM118",)).hits
    assert [hit.finding.location.file for hit in hits if hit.finding.location] == ["job.json"]
