"""What a first job needs: the IAM role of a new emulator, an instance profile, and the environment variables of its users."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from gpuproof_emulator.auth.token import ACCESS_KEY_ID
from gpuproof_emulator.protocol import ACCOUNT, DEFAULT_REGION

NAME = "emulator"
ROLE_ARN = f"arn:aws:iam::{ACCOUNT}:role/{NAME}"

# The SDKs send telemetry to a bucket of AWS itself, and ask STS at AWS's address for the account in the default bucket's name.
# Source: `telemetry_logging.py` and `Session.default_bucket` of https://github.com/aws/sagemaker-python-sdk
_SDK_SETTINGS = f"""\
SchemaVersion: '1.0'
SageMaker:
  PythonSDK:
    Modules:
      TelemetryOptOut: true
      Session:
        DefaultS3Bucket: sagemaker-{DEFAULT_REGION}-{ACCOUNT}
"""


def user_environment(url: str, token: str, state: Path) -> dict[str, str]:
    """The variables with which SDKs use an emulator, and nothing else.

    Args:
        url: where it listens.
        token: the secret of its access key.
        state: its state folder, which gets a configuration file for the SageMaker SDKs.
    """
    settings = state / "sagemaker-sdk.yaml"
    settings.write_text(_SDK_SETTINGS, encoding="utf-8")
    return {
        "AWS_ENDPOINT_URL": url,
        "AWS_ACCESS_KEY_ID": ACCESS_KEY_ID,
        "AWS_SECRET_ACCESS_KEY": token,
        "AWS_DEFAULT_REGION": DEFAULT_REGION,
        "SAGEMAKER_ADMIN_CONFIG_OVERRIDE": str(settings),
    }


def create_role(iam: Any) -> None:
    """Create a role that SageMaker may assume.

    Args:
        iam: an IAM client.
    """
    _create_role(iam, NAME, "sagemaker.amazonaws.com")


def create_instance_profile(iam: Any) -> None:
    """Create the instance profile that GPUproof uses if none is named.

    Args:
        iam: an IAM client.
    """
    from gpuproof.backends.ec2.planning.profile import DEFAULT_NAME, SERVICE  # loads pydantic

    _create_role(iam, DEFAULT_NAME, SERVICE)
    iam.create_instance_profile(InstanceProfileName=DEFAULT_NAME)
    iam.add_role_to_instance_profile(InstanceProfileName=DEFAULT_NAME, RoleName=DEFAULT_NAME)


def _create_role(iam: Any, name: str, service: str) -> None:
    statement = {"Effect": "Allow", "Principal": {"Service": service}, "Action": "sts:AssumeRole"}
    iam.create_role(
        RoleName=name,
        AssumeRolePolicyDocument=json.dumps({"Version": "2012-10-17", "Statement": [statement]}),
        Description="A role for jobs, created by the emulator.",
    )
