"""The parameters with the ids of AWS's Deep Learning AMIs."""

from __future__ import annotations

import pytest
from botocore.exceptions import ClientError

from support.emulator_jobs import Account

pytestmark = pytest.mark.slow

BASE = "/aws/service/deeplearning/ami/x86_64"
PYTORCH = f"{BASE}/oss-nvidia-driver-gpu-pytorch-2.12-ubuntu-24.04/latest/ami-id"
TENSORFLOW = f"{BASE}/oss-nvidia-driver-gpu-tensorflow-2.18-ubuntu-22.04/latest/ami-id"


def test_a_parameter_is_the_id_of_one_image(aws: Account) -> None:
    ssm, ec2 = aws.client("ssm"), aws.client("ec2")
    parameter = ssm.get_parameter(Name=PYTORCH)["Parameter"]
    (image,) = ec2.describe_images(ImageIds=[parameter["Value"]])["Images"]
    assert "PyTorch 2.12 (Ubuntu 24.04)" in image["Name"]
    assert image["RootDeviceName"] == "/dev/sda1"
    assert ssm.get_parameter(Name=PYTORCH)["Parameter"]["Value"] == parameter["Value"]
    assert ssm.get_parameter(Name=TENSORFLOW)["Parameter"]["Value"] != parameter["Value"]


def test_an_unknown_image_is_an_unknown_parameter(aws: Account) -> None:
    with pytest.raises(ClientError) as caught:
        aws.client("ssm").get_parameter(Name=PYTORCH.replace("2.12", "0.1"))
    assert caught.value.response["Error"]["Code"] == "ParameterNotFound"


def test_other_parameters_are_kept_as_before(aws: Account) -> None:
    ssm = aws.client("ssm")
    ssm.put_parameter(Name="/mine/rate", Value="0.1", Type="String", Overwrite=True)
    assert ssm.get_parameter(Name="/mine/rate")["Parameter"]["Value"] == "0.1"
