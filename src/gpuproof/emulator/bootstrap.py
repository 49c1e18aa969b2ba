"""The IAM role that a new emulator has, so that a first job needs no further setup."""

from __future__ import annotations

import json
from typing import Any

from gpuproof.emulator.protocol import ACCOUNT

NAME = "emulator"
ROLE_ARN = f"arn:aws:iam::{ACCOUNT}:role/{NAME}"

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
