"""An account in which a user has exactly the permissions that `gpuproof iam policy` prints, and roles have theirs."""

from __future__ import annotations

import contextlib
import io
import json
import os
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpuproof.backends.remote.iam.policy import ROLE_NAMES
from gpuproof.cli.main import main
from support.cli_sandbox import CliSandbox
from support.emulated_account import EmulatedAccount, emulated_account

from .steps import Step, User

ACCOUNT, REGION = "123456789012", "us-east-1"
_HANDLER = "def model_fn(folder):\n    return 1\ndef predict_fn(data, model):\n    return data\n"
_SCRIPT = (
    'import os\nprint("it runs")\nopen(os.path.join(os.environ["SM_MODEL_DIR"], "model"), "w").write("1")\n'
)
_PRIVATE = """
entry_point: train.py
name: private
framework: pytorch
instance_type: ml.g5.xlarge
max_duration: 10m
output: s3://elsewhere/results/private
sagemaker:
  subnets: [{subnet}]
  security_groups: [{group}]
  volume_kms_key: {key}
  output_kms_key: {key}
"""
_PROCESSING = """
kind: processing
entry_point: train.py
name: processing
framework: pytorch
instance_type: ml.g5.xlarge
max_duration: 10m
inputs: {rows: s3://elsewhere/rows}
"""
_MACHINE = """
kind: machine
name: machine
instance_type: g5.xlarge
max_duration: 1h
"""


@dataclass(frozen=True)
class Done:
    """A command that has run.

    Args:
        code: its exit code.
        output: what it printed.
        used: the actions that its requests required of the user.
        denied: those that were refused.
    """

    code: int
    output: str
    used: frozenset[str]
    denied: frozenset[str]


class Permissions:
    """A user in an account that enforces IAM.

    Args:
        account: empty.
        folder: for the user's files.
        user: who runs commands.
    """

    def __init__(self, account: EmulatedAccount, folder: Path, user: User) -> None:
        self.account = account
        self.user = user
        self._iam = account.client("iam", REGION)
        self._names = self._create_resources()
        self._box = self._create_files(folder)
        self._printed_for_role = {role: self._create_role(role, words) for role, words in user.roles.items()}
        user.prepare(account)
        self.printed = [printed_policy(words.format(**self._names)) for words in user.policies]
        self._iam.create_user(UserName=user.name)
        keys = self._iam.create_access_key(UserName=user.name)["AccessKey"]
        self._box.environment = {
            "PATH": f"{self._programs(folder)}{os.pathsep}{os.environ['PATH']}",
            **account.environment,
            "AWS_ACCESS_KEY_ID": keys["AccessKeyId"],
            "AWS_SECRET_ACCESS_KEY": keys["SecretAccessKey"],
            "AWS_REGION": REGION,
        }
        self.remove(None)

    @property
    def printed_for_roles(self) -> list[dict[str, Any]]:
        """The printed policies of its roles."""
        return list(self._printed_for_role.values())

    @property
    def actions(self) -> frozenset[str]:
        """The actions of the printed policies."""
        return actions_of(self.printed)

    def remove(self, action: str | None) -> None:
        """Give the user the printed policies, without one action."""
        for number, policy in enumerate(self.printed):
            document = json.dumps(_without(policy, action))
            self._iam.put_user_policy(
                UserName=self.user.name, PolicyName=f"own-{number}", PolicyDocument=document
            )

    def remove_from_role(self, name: str, action: str | None) -> None:
        """Give a role its printed policy, without one action."""
        document = json.dumps(_without(self._printed_for_role[name], action))
        self._iam.put_role_policy(RoleName=name, PolicyName="gpuproof", PolicyDocument=document)

    def run(self, step: Step) -> Done:
        """Run a command as the user."""
        decisions = self.account.emulator.context.authorizer.decisions
        before = len(decisions)
        done = self._box.gpuproof(*(word.format(**self._names) for word in step.words))
        own = [
            each for each in list(decisions)[before:] if each["identity"].endswith(f":user/{self.user.name}")
        ]
        denied = {each["action"] for each in own if each["decision"] != "allowed"}
        used = {each["action"] for each in own}
        return Done(done.returncode, f"{done.stdout}{done.stderr}", frozenset(used), frozenset(denied))

    def role_actions(self) -> frozenset[str]:
        """The actions that roles have used, and were allowed."""
        return frozenset(
            each["action"]
            for each in list(self.account.emulator.context.authorizer.decisions)
            if ":assumed-role/" in each["identity"] and each["decision"] == "allowed"
        )

    def _create_resources(self) -> dict[str, str]:
        s3 = self.account.client("s3", REGION)
        for bucket in ("elsewhere", "data"):
            s3.create_bucket(Bucket=bucket)
        s3.put_object(Bucket="elsewhere", Key="rows/a.json", Body=b"[[1, 2]]")
        topic = self.account.client("sns", REGION).create_topic(Name="done")["TopicArn"]
        key = self.account.client("kms", REGION).create_key()["KeyMetadata"]["Arn"]
        ec2 = self.account.client("ec2", REGION)
        subnet = ec2.describe_subnets()["Subnets"][0]
        groups = ec2.describe_security_groups(Filters=[{"Name": "vpc-id", "Values": [subnet["VpcId"]]}])
        return {
            "bucket": f"gpuproof-{ACCOUNT}-{REGION}",
            "topic": topic,
            "key": key,
            "subnet": subnet["SubnetId"],
            "group": groups["SecurityGroups"][0]["GroupId"],
        }

    def _create_files(self, folder: Path) -> CliSandbox:
        home, project = folder / "home", folder / "project"
        home.mkdir(parents=True)
        project.mkdir()
        box = CliSandbox(home, project)
        box.write("train.py", _SCRIPT)
        box.write("fails.py", "raise SystemExit('no data')\n")
        box.write("model/code/inference.py", _HANDLER)
        box.write("rows/a.json", "[[1, 2]]")
        box.write("private.yaml", _PRIVATE.format(**self._names))
        box.write("processing.yaml", _PROCESSING)
        box.write("machine.yaml", _MACHINE)
        return box

    @staticmethod
    def _programs(folder: Path) -> Path:
        """A folder with what `gpuproof shell` starts when the instance is connected: it fails at once."""
        programs = folder / "programs"
        programs.mkdir()
        for name in ("aws", "session-manager-plugin"):
            (programs / name).write_text("#!/bin/sh\nexit 1\n")
            (programs / name).chmod(0o755)
        return programs

    def _create_role(self, name: str, words: str) -> dict[str, Any]:
        backend = next(backend for backend, own in ROLE_NAMES.items() if own == name)
        trust = printed_policy(f"--on {backend} --trust --account {ACCOUNT}")
        policy = printed_policy(words.format(**self._names))
        self._iam.create_role(RoleName=name, AssumeRolePolicyDocument=json.dumps(trust))
        self._iam.put_role_policy(RoleName=name, PolicyName="gpuproof", PolicyDocument=json.dumps(policy))
        if backend == "ec2":
            self._iam.create_instance_profile(InstanceProfileName=name)
            self._iam.add_role_to_instance_profile(InstanceProfileName=name, RoleName=name)
        return policy


@contextlib.contextmanager
def permissions(folder: Path, user: User) -> Iterator[Permissions]:
    """A new account with a user."""
    state = folder / "state"
    state.mkdir(parents=True)
    with emulated_account(state, enforce_iam=True) as account:
        account.reset()  # moto is shared by all accounts of this process
        yield Permissions(account, folder, user)


def actions_of(policies: Sequence[Mapping[str, Any]]) -> frozenset[str]:
    """The actions of some policies."""
    return frozenset(
        action for policy in policies for statement in policy["Statement"] for action in statement["Action"]
    )


def printed_policy(words: str) -> dict[str, Any]:
    """What `gpuproof iam policy WORDS` prints."""
    output, errors = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(errors):
        code = main(["iam", "policy", *shlex.split(words)])
    assert code == 0, errors.getvalue()
    return json.loads(output.getvalue())


def _without(policy: Mapping[str, Any], action: str | None) -> dict[str, Any]:
    statements: Sequence[Mapping[str, Any]] = policy["Statement"]
    kept = (
        {**statement, "Action": [name for name in statement["Action"] if name != action]}
        for statement in statements
    )
    return {**policy, "Statement": [statement for statement in kept if statement["Action"]]}
