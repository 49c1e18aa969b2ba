"""What a first job needs: the IAM role of a new emulator, and the environment variables of its users."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from gpuproof.emulator.auth.token import ACCESS_KEY_ID
from gpuproof.emulator.protocol import ACCOUNT, DEFAULT_REGION

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
_TRUST = {
    "Version": "2012-10-17",
    "Statement": [
        {
            "Effect": "Allow",
            "Principal": {"Service": "sagemaker.amazonaws.com"},
            "Action": "sts:AssumeRole",
        }
    ],
}


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
    iam.create_role(
        RoleName=NAME,
        AssumeRolePolicyDocument=json.dumps(_TRUST),
        Description="A role for jobs, created by the emulator.",
    )
