"""CO104 and CO106 on what lifecycle configurations do, not on their presence."""

from pathlib import Path

import pytest

from gpuproof.linter.engine import CheckOptions, check_paths
from gpuproof.linter.registry import Selection
from support.check_helpers import write_files

TERRAFORM = """
resource "aws_sagemaker_notebook_instance_lifecycle_configuration" "lab" {{
  name     = "lab"
  on_start = base64encode(<<SCRIPT
#!/bin/bash
{script}
SCRIPT
  )
}}

resource "aws_sagemaker_notebook_instance" "lab" {{
  name                  = "lab"
  role_arn              = "arn:aws:iam::111122223333:role/lab"
  instance_type         = "ml.g5.xlarge"
  lifecycle_config_name = {name}
}}
"""
REFERENCE = "aws_sagemaker_notebook_instance_lifecycle_configuration.lab.name"
BOTO3 = """
import base64
import boto3

client = boto3.client("sagemaker")
client.create_notebook_instance_lifecycle_config(
    NotebookInstanceLifecycleConfigName="lab",
    OnStart=[{{"Content": base64.b64encode(script.encode()).decode()}}],
)
client.create_notebook_instance(
    NotebookInstanceName="lab", InstanceType="ml.g5.xlarge", RoleArn="r", LifecycleConfigName="{name}"
)
"""


def codes(folder: Path, script: str, name: str = REFERENCE) -> list[str]:
    write_files(folder, {"main.tf": TERRAFORM.format(script=script, name=name)})
    report = check_paths([str(folder)], CheckOptions(Selection(select=("CO104", "CO106"))))
    return sorted(hit.code for hit in report.hits)


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("pip install jupyterlab-git", ["CO104"]),
        ("conda create -y -n lab python=3.12", ["CO104", "CO106"]),
        ("sudo -u ec2-user /opt/conda/bin/conda env update -f env.yml", ["CO104", "CO106"]),
        ("nohup conda create -y -n lab python=3.12 &", ["CO104"]),
        ("conda create -y -n lab python=3.12 > /tmp/log 2>&1 &", ["CO104"]),
        ("(crontab -l; echo '*/5 * * * * python3 /home/ec2-user/autostop.py') | crontab -", []),
        ("wget https://example.com/auto-stop-idle/autostop.py", []),
        ("aws s3 cp s3://bucket/setup.sh /tmp/ && bash /tmp/setup.sh", []),
        ("aws sagemaker stop-notebook-instance --notebook-instance-name lab", []),
        ("echo 'conda create is slow'", ["CO104"]),
        ("cp a b && pip install x && echo done", ["CO104"]),
    ],
)
def test_a_configuration_counts_by_what_it_does(script: str, expected: list[str], tmp_path: Path) -> None:
    assert codes(tmp_path, script) == expected


def test_a_configuration_from_elsewhere_is_not_judged(tmp_path: Path) -> None:
    assert codes(tmp_path, "pip install x", '"another"') == []


def test_a_configuration_of_boto3_is_read(tmp_path: Path) -> None:
    script = 'script = """#!/bin/bash\\npip install x\\n"""\n' + BOTO3
    for name, expected in (("lab", ["CO104"]), ("another", [])):
        write_files(tmp_path, {"lab.py": script.format(name=name)})
        report = check_paths([str(tmp_path)], CheckOptions(Selection(select=("CO104", "CO106"))))
        assert [hit.code for hit in report.hits] == expected
