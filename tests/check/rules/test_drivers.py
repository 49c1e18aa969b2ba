"""Drivers of hosts and AMIs (FW113, FW114) beyond the examples of the rules."""

from pathlib import Path

import pytest

from support.check_helpers import check_here, write_files

ECR = "763104351884.dkr.ecr.us-east-1.amazonaws.com"
CU130 = f"{ECR}/pytorch-inference:2.10.0-gpu-py313-cu130-ubuntu22.04-sagemaker"


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def found(files: dict[str, str], *codes: str) -> list[tuple[str, str, int]]:
    write_files(Path.cwd(), files)
    return [(hit.code, str(hit.finding.severity), hit.span.line) for hit in check_here(select=codes).hits]


def variant(**members: str) -> str:
    given = {"VariantName": "a", "ModelName": "m", "InstanceType": "ml.g5.xlarge", **members}
    text = ", ".join(
        f'"{name}": {value}' if value == "name" else f'"{name}": "{value}"' for name, value in given.items()
    )
    return f'c.create_endpoint_config(EndpointConfigName="e", ProductionVariants=[{{{text}}}])'


CREATE = f'import boto3\n\nc = boto3.client("sagemaker")\nc.create_model(ModelName="m", PrimaryContainer={{"Image": "{CU130}"}})\n'


@pytest.mark.parametrize(
    ("members", "severity"),
    [
        ({}, "error"),
        ({"InstanceType": "ml.p5.48xlarge"}, "warning"),
        ({"InstanceType": "ml.g6e.xlarge"}, "warning"),
        ({"InstanceType": "ml.g7e.2xlarge"}, None),
        ({"InstanceType": "ml.c7i.large"}, None),
        ({"InferenceAmiVersion": "al2-ami-sagemaker-inference-gpu-2-1"}, "warning"),
        ({"InferenceAmiVersion": "al2023-ami-sagemaker-inference-gpu-4-1"}, None),
        ({"InferenceAmiVersion": "al2023-ami-sagemaker-inference-gpu-9"}, "error"),
        ({"InferenceAmiVersion": "al2-ami-sagemaker-inference-neuron-2"}, "error"),
        ({"ModelName": "made-elsewhere"}, None),
        ({"ModelName": "made-elsewhere", "InferenceAmiVersion": "gpu-newest"}, "error"),
        (
            {
                "InstanceType": "ml.p6-b200.48xlarge",
                "InferenceAmiVersion": "al2-ami-sagemaker-inference-gpu-3-1",
            },
            "error",
        ),
    ],
)
def test_the_driver_of_an_endpoints_hosts(members: dict[str, str], severity: str | None) -> None:
    hits = found({"a.py": CREATE + variant(**members)}, "FW113")
    assert [hit[1] for hit in hits] == ([severity] if severity else [])


def test_a_model_and_its_endpoint_may_share_a_name_that_is_not_known() -> None:
    code = f'''import boto3, sys

c = boto3.client("sagemaker")
name = f"chat-{{sys.argv[1]}}"
c.create_model(ModelName=name, Containers=[{{"Image": "{CU130}"}}])
{variant(ModelName="name")}
'''
    assert found({"a.py": code}, "FW113") == [("FW113", "error", 6)]


def test_members_from_elsewhere_may_name_the_host_image() -> None:
    code = CREATE + 'import sys\nv = {"ModelName": "m", "InstanceType": "ml.g5.xlarge", **sys.extra}\n'
    code += 'c.create_endpoint_config(EndpointConfigName="e", ProductionVariants=[v])\n'
    assert found({"a.py": code}, "FW113") == []


def test_v3_model_builder_passes_the_version_to_deploy() -> None:
    code = f'''from sagemaker.serve import ModelBuilder

builder = ModelBuilder(image_uri="{CU130}", role_arn="role", instance_type="ml.g5.xlarge")
builder.build()
builder.deploy(endpoint_name="a", initial_instance_count=1)
builder.deploy(endpoint_name="b", inference_ami_version="al2023-ami-sagemaker-inference-gpu-4-1")
'''
    assert [line for _, _, line in found({"a.py": code}, "FW113")] == [3]


def test_an_estimators_endpoint_has_the_cuda_of_its_image() -> None:
    code = f"""from sagemaker.estimator import Estimator

estimator = Estimator(image_uri="{CU130}", role="r", instance_count=1, instance_type="ml.g5.xlarge")
estimator.fit()
estimator.deploy(1, "ml.g4dn.xlarge")
estimator.transformer(1, "ml.g4dn.xlarge")
"""
    assert [line for _, _, line in found({"a.py": code}, "FW113")] == [5, 6]


def test_templates_with_one_model_are_linked_to_its_endpoint() -> None:
    terraform = f'''
resource "aws_sagemaker_model" "m" {{
  primary_container {{
    image = "{CU130}"
  }}
}}
resource "aws_sagemaker_endpoint_configuration" "e" {{
  production_variants {{
    model_name    = aws_sagemaker_model.m.name
    instance_type = "ml.g5.xlarge"
  }}
}}
'''
    cloudformation = f'''Resources:
  M:
    Type: AWS::SageMaker::Model
    Properties:
      PrimaryContainer: {{Image: "{CU130}"}}
  E:
    Type: AWS::SageMaker::EndpointConfig
    Properties:
      ProductionVariants:
        - ModelName: !GetAtt M.ModelName
          InstanceType: ml.g5.xlarge
'''
    hits = found({"main.tf": terraform, "t.yaml": cloudformation}, "FW113")
    assert [(severity, line) for _, severity, line in hits] == [("error", 10), ("error", 11)]


OLD = "Deep Learning AMI GPU TensorFlow 2.11.0 (Ubuntu 20.04) 20230324"


@pytest.mark.parametrize(
    ("name", "instance_type", "severity"),
    [
        ("Deep Learning AMI GPU PyTorch 1.12.1 (Amazon Linux 2)*", "p5e.48xlarge", "error"),
        ("Deep Learning AMI GPU PyTorch 1.12.1 (Amazon Linux 2)*", "g4dn.xlarge", None),
        (OLD, "g7e.2xlarge", "error"),
        (OLD, "g6.xlarge", "warning"),
        ("Deep Learning OSS Nvidia Driver AMI GPU PyTorch 2.9 (Ubuntu 24.04)*", "p3.2xlarge", "error"),
        ("Deep Learning OSS Nvidia Driver AMI GPU PyTorch 2.9 (Ubuntu 24.04)*", "g5g.xlarge", "error"),
        ("Deep Learning OSS Nvidia Driver AMI GPU PyTorch 2.9 (Ubuntu 24.04)*", "p5.48xlarge", None),
        ("my-own-image-*", "g7e.2xlarge", None),
    ],
)
def test_the_driver_of_an_ami(name: str, instance_type: str, severity: str | None) -> None:
    terraform = f'''
variable "size" {{
  default = "{instance_type}"
}}
data "aws_ami" "a" {{
  owners = ["amazon"]
  filter {{
    name   = "name"
    values = ["{name}"]
  }}
}}
resource "aws_launch_template" "t" {{
  image_id      = data.aws_ami.a.id
  instance_type = "{instance_type}"
}}
'''
    assert [hit[1] for hit in found({"main.tf": terraform}, "FW114")] == ([severity] if severity else [])


def test_an_ssm_parameter_selects_an_ami_too() -> None:
    parameter = (
        "/aws/service/deeplearning/ami/x86_64/oss-nvidia-driver-gpu-pytorch-2.9-ubuntu-24.04/latest/ami-id"
    )
    cloudformation = f"""Parameters:
  Image:
    Type: AWS::SSM::Parameter::Value<AWS::EC2::Image::Id>
    Default: {parameter}
Resources:
  Gpu:
    Type: AWS::EC2::Instance
    Properties:
      ImageId: !Ref Image
      InstanceType: p3.2xlarge
"""
    terraform = f'''
data "aws_ssm_parameter" "a" {{
  name = "{parameter}"
}}
resource "aws_instance" "i" {{
  ami           = data.aws_ssm_parameter.a.value
  instance_type = "p3.2xlarge"
}}
'''
    hits = found({"t.yaml": cloudformation, "main.tf": terraform}, "FW114")
    assert [severity for _, severity, _ in hits] == ["error", "warning"]


def test_two_lookups_in_one_module_are_not_told_apart() -> None:
    lookup = 'c.describe_images(Filters=[{{"Name": "name", "Values": ["{}"]}}])'
    code = "\n".join(
        (
            'import boto3\n\nc = boto3.client("ec2")',
            "old = " + lookup.format(OLD),
            "new = " + lookup.format("Deep Learning OSS Nvidia Driver AMI GPU PyTorch 2.9 (Ubuntu 24.04)*"),
            'c.run_instances(ImageId=new["Images"][0]["ImageId"], InstanceType="g6e.xlarge", MinCount=1, MaxCount=1)',
        )
    )
    assert found({"a.py": code}, "FW114") == []


@pytest.mark.parametrize(
    ("resource", "member"), [("aws_spot_instance_request", "ami"), ("aws_launch_configuration", "image_id")]
)
def test_other_resources_that_boot_an_ami(resource: str, member: str) -> None:
    terraform = f"""
data "aws_ami" "a" {{
  owners = ["amazon"]
  filter {{
    name   = "name"
    values = ["{OLD}"]
  }}
}}
resource "{resource}" "r" {{
  {member}      = data.aws_ami.a.id
  instance_type = "g7e.2xlarge"
}}
"""
    assert found({"main.tf": terraform}, "FW114") == [("FW114", "error", 6)]
