"""What a first job needs: the roles and the instance profile of an emulated account, and the environment variables of its users."""

from __future__ import annotations

import contextlib
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


def create_roles(iam: Any) -> None:
    """Create what GPUproof looks for and an account does not have yet: the role of jobs, the role of schedules, and the
    instance profile of instances.

    Args:
        iam: an IAM client.
    """
    from gpuproof.backends.remote.iam.policy import ROLE_NAMES, Scope, role_policy, trust_policy

    existing = {role["RoleName"] for role in iam.list_roles(MaxItems=1000)["Roles"]}
    profile = ROLE_NAMES["ec2"]
    for name, backend in ((NAME, "sagemaker"), (ROLE_NAMES["scheduler"], "scheduler"), (profile, "ec2")):
        if name not in existing:
            scope = Scope(backend=backend, account=ACCOUNT)
            iam.create_role(
                RoleName=name,
                AssumeRolePolicyDocument=json.dumps(trust_policy(scope)),
                Description="A role for jobs, created by the emulator.",
            )
            policy = json.dumps(role_policy(scope))
            iam.put_role_policy(RoleName=name, PolicyName="gpuproof", PolicyDocument=policy)
    if not iam.list_instance_profiles_for_role(RoleName=profile)["InstanceProfiles"]:
        with contextlib.suppress(iam.exceptions.EntityAlreadyExistsException):
            iam.create_instance_profile(InstanceProfileName=profile)
        iam.add_role_to_instance_profile(InstanceProfileName=profile, RoleName=profile)
