"""The role that a new emulator begins with, so that the first job needs nothing but the emulator."""

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


def make_first_role(iam: Any) -> None:
    """Make a role that SageMaker may assume.

    Args:
        iam: an IAM client.
    """
    iam.create_role(
        RoleName=NAME,
        AssumeRolePolicyDocument=json.dumps(_TRUST),
        Description="A role for jobs, there from the start.",
    )
