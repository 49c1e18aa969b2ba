"""Print the minimal IAM permissions that GPUproof needs, as policy JSON. The only AWS call is for the account, which a trust
policy names: it is read from your credentials, or given with --account.

  gpuproof iam policy --user     for users who start jobs
  gpuproof iam policy --role     for the jobs' execution role
  gpuproof iam policy --trust    the trust policy of that role
  gpuproof iam policy --cleanup  for users of `gpuproof cleanup` and `gpuproof cost`
  gpuproof iam policy --setup    for the person who runs `gpuproof setup`
  gpuproof iam policy --on ec2   the same for runs on EC2, where instances have the role
  gpuproof iam policy --on scheduler    the role of `gpuproof deploy --ttl`
  gpuproof iam policy --on audit    for users of `gpuproof audit`: it only reads
"""

from __future__ import annotations

import argparse
import json
import re
import shlex
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from gpuproof.cli.arguments import add_command, add_json_only_flags
from gpuproof.errors import ExitCode, GPUproofError, UsageError
from gpuproof.util.humanize import pluralize

if TYPE_CHECKING:
    from gpuproof.backends.remote.iam.policy import Scope
    from gpuproof.cli.arguments import Subparsers

_USER_NOTE = "for users who start and view jobs: exactly the calls that GPUproof makes.\n{attach}"
_CLEANUP_NOTE = "for users of `gpuproof cleanup` and `gpuproof cost`; without the statement CleanupDelete, it only reads.\n{attach}"
_AUDIT_NOTE = (
    "for users of `gpuproof audit`: exactly the calls that it makes, which only read; without the statement AuditCode, `gpuproof audit JOB` "
    "reads no code in S3.\n{attach}"
)
_SETUP_NOTE = "for the person who runs `gpuproof setup`: it creates and removes roles, as an administrator may.\n{attach}"
_ATTACH = (
    'aws iam attach-user-policy --user-name YOU --policy-arn "$(aws iam create-policy --policy-name {name} '
    '--policy-document file://{file} --query Policy.Arn --output text)"'
)
_PUT_ROLE = (
    "aws iam put-role-policy --role-name {role} --policy-name gpuproof --policy-document file://role.json"
)
_AUDIT = "audit"
_TOPIC = re.compile(r"arn:aws[a-z-]*:sns:[a-z0-9-]+:\d{12}:\S+")
_UNKNOWN_ACCOUNT = "<account>"
_CREATE_ROLE = "aws iam create-role --role-name {role} --assume-role-policy-document file://trust.json"
_NOTES = {
    "sagemaker": {
        "user": _USER_NOTE,
        "role": f"for the jobs' execution role {{role}}: their files in the bucket, logs, images and metrics.\n{_PUT_ROLE}",
        "trust": f"trust policy of the role {{role}}: only SageMaker may assume it, for jobs of the account.\n{_CREATE_ROLE}",
    },
    "ec2": {
        "user": _USER_NOTE,
        "role": f"for the instances' role {{role}}: their files in the bucket, logs, and sessions of `gpuproof shell`.\n{_PUT_ROLE}",
        "trust": f"trust policy of the role {{role}}: only EC2 may assume it.\n{_CREATE_ROLE}; "
        "aws iam create-instance-profile --instance-profile-name {role}; "
        "aws iam add-role-to-instance-profile --instance-profile-name {role} --role-name {role}",
    },
    "scheduler": {
        "role": f"for the role {{role}} of schedules: they delete endpoints (`deploy --ttl`) and terminate instances of runs.\n{_PUT_ROLE}",
        "trust": f"trust policy of the role {{role}}: only EventBridge Scheduler may assume it, for schedules of the account.\n{_CREATE_ROLE}",
    },
}


def add_parser(commands: Subparsers) -> None:
    """Add `gpuproof iam` to the command line."""
    parser = add_command(commands, "iam", "print the minimal IAM permissions that GPUproof needs", __doc__)
    parser.add_argument("what", choices=["policy"], metavar="policy", help="what to print")
    parser.add_argument(
        "--on",
        choices=[*_NOTES, _AUDIT],
        default="sagemaker",
        help="where jobs run; audit: the policy for `gpuproof audit` (default: sagemaker)",
    )
    which = parser.add_mutually_exclusive_group()
    which.add_argument(
        "--user", dest="which", action="store_const", const="user", help="only the user's policy"
    )
    which.add_argument(
        "--trust", dest="which", action="store_const", const="trust", help="only the role's trust policy"
    )
    which.add_argument(
        "--cleanup",
        dest="which",
        action="store_const",
        const="cleanup",
        help="the policy for `gpuproof cleanup` and `gpuproof cost`",
    )
    which.add_argument(
        "--setup",
        dest="which",
        action="store_const",
        const="setup",
        help="the policy for `gpuproof setup`, which creates roles",
    )
    parser.add_argument(
        "--bucket", help="your own bucket (default: GPUPROOF_BUCKET, else the bucket that GPUproof creates)"
    )
    parser.add_argument(
        "--role",
        nargs="?",
        const="",
        help="the execution role, by name or ARN (default: GPUPROOF_ROLE_ARN, else gpuproof-sagemaker; on EC2 "
        "GPUPROOF_INSTANCE_PROFILE, else gpuproof-ec2); without a value: only the role's policy",
    )
    parser.add_argument("--job-role", dest="role", help=argparse.SUPPRESS)
    parser.add_argument(
        "--account", help="AWS account, 12 digits (default: any; in trust policies, that of your credentials)"
    )
    parser.add_argument("--region", help="AWS region of the jobs (default: any)")
    parser.add_argument(
        "--regions",
        default="",
        metavar="LIST",
        help="further regions of the instances, with --on ec2 and --region",
    )
    parser.add_argument("--kms-key", metavar="ARN", help="KMS key that encrypts what jobs read and write")
    parser.add_argument(
        "--input",
        action="append",
        default=[],
        metavar="S3",
        help="an s3:// address that jobs read; may be repeated",
    )
    parser.add_argument(
        "--output",
        action="append",
        default=[],
        metavar="S3",
        help="an s3:// address that jobs write to; may be repeated",
    )
    parser.add_argument(
        "--topic",
        action="append",
        default=[],
        metavar="ARN",
        help="an SNS topic to which jobs (run --notify-topic) and asynchronous endpoints (deploy --async-success) publish; may be repeated",
    )
    parser.add_argument("--vpc", action="store_true", help="jobs run in subnets of your VPC")
    parser.add_argument(
        "--part",
        type=_part,
        metavar="N",
        help="with --user or --cleanup: only this part, if the policy is larger than IAM allows for one",
    )
    add_json_only_flags(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Entry point of `gpuproof iam`: prints JSON to standard output and its purpose to standard error."""
    from gpuproof.backends.remote.iam import policy

    if arguments.on == _AUDIT:
        return _print_audit_policy(arguments)
    if arguments.part is not None and arguments.which not in ("user", "cleanup", "setup"):
        raise UsageError(
            "--part needs --user or --cleanup: no other policy has parts.", remedy="--user --part 1"
        )
    if arguments.which == "cleanup":
        from gpuproof.account.cleanup.iam_policy import cleanup_policy

        _print_user_policy("cleanup", _CLEANUP_NOTE, cleanup_policy(), arguments)
        return ExitCode.OK
    if arguments.which == "setup":
        from gpuproof.account.setup.permissions import setup_policy

        _print_user_policy("setup", _SETUP_NOTE, setup_policy(), arguments)
        return ExitCode.OK
    if arguments.role == "":
        if arguments.which:
            raise UsageError(f"--role without a value contradicts --{arguments.which}.", remedy="--role ROLE")
        arguments.which = "role"
    scope = _scope(arguments)
    if arguments.which in (None, "trust") and arguments.on != "ec2" and scope.account == "*":
        scope = _with_own_account(scope, arguments)
    makers = {
        "user": policy.user_policy,
        "role": policy.role_policy,
        "trust": policy.trust_policy,
    }
    if arguments.which not in (None, *_NOTES[arguments.on]):
        raise UsageError(
            f"--on {arguments.on} has no policy for the {arguments.which}.", remedy="--role or --trust"
        )
    chosen = (
        [arguments.which] if arguments.which else [name for name in makers if name in _NOTES[arguments.on]]
    )
    if arguments.which == "user":
        _print_user_policy("user", _USER_NOTE, policy.user_policy(scope), arguments)
        return ExitCode.OK
    anywhere = _scope(arguments)  # without --account, only the trust policy names one
    documents = {name: makers[name](scope if name == "trust" else anywhere) for name in chosen}
    for name in chosen:
        attach = _attach_commands(name, documents[name], arguments)
        note = _NOTES[scope.backend][name].format(role=scope.role_name.rpartition("/")[2], attach=attach)
        print(f"{name}: {note}", file=sys.stderr)
    document = documents[arguments.which] if arguments.which else {"version": 1, **documents}
    print(json.dumps(document, indent=2))
    return ExitCode.OK


def _print_audit_policy(arguments: argparse.Namespace) -> int:
    """Print the policy of `gpuproof audit`, which has no other."""
    from gpuproof.account.audit.iam_policy import audit_policy

    if arguments.which not in (None, "user") or arguments.role == "":
        raise UsageError("--on audit has only the policy of users.", remedy="gpuproof iam policy --on audit")
    _print_user_policy("audit", _AUDIT_NOTE, audit_policy(), arguments)
    return ExitCode.OK


def _print_user_policy(
    which: str, note: str, document: dict[str, Any], arguments: argparse.Namespace
) -> None:
    """Print a policy that is attached to users, or one of its parts."""
    from gpuproof.backends.remote.iam.policy_size import split

    number = arguments.part
    if number is None:
        print(f"{which}: {note.format(attach=_attach_commands(which, document, arguments))}", file=sys.stderr)
        print(json.dumps(document, indent=2))
        return
    parts = split(document)
    if number > len(parts):
        raise UsageError(
            f"--part {number}: the policy has {pluralize(len(parts), 'part')}.", remedy="--part 1"
        )
    print(json.dumps(parts[number - 1], indent=2))


def _attach_commands(which: str, document: dict[str, Any], arguments: argparse.Namespace) -> str:
    """The commands that create managed policies, and attach them to a user: an inline policy of a user would be too large."""
    from gpuproof.backends.remote.iam.policy_size import LARGEST_MANAGED, size_of, split

    name = f"gpuproof-{which if which in ('audit', 'cleanup', 'setup') else arguments.on}"
    count = len(split(document))
    if count == 1:
        return _ATTACH.format(name=name, file=f"{which}.json")
    lines = [
        f"It has {size_of(document):,} characters, and IAM allows {LARGEST_MANAGED:,} in a policy: attach it in {count} parts."
    ]
    for number in range(1, count + 1):
        file = f"{which}-{number}.json"
        lines.append(f"{_same_command(arguments)} --{which} --part {number} > {file}")
        lines.append(_ATTACH.format(name=f"{name}-{number}", file=file))
    return "\n".join(lines)


def _same_command(arguments: argparse.Namespace) -> str:
    """This command without the choice of the policy."""
    words = ["gpuproof", "iam", "policy"]
    if arguments.on != "sagemaker":
        words += ["--on", arguments.on]
    for flag in ("bucket", "role", "account", "region", "regions", "kms_key"):
        if value := getattr(arguments, flag):
            words += [f"--{flag.replace('_', '-')}", value]
    for flag in ("input", "output", "topic"):
        for value in getattr(arguments, flag):
            words += [f"--{flag}", value]
    return shlex.join([*words, *(["--vpc"] if arguments.vpc else [])])


def _part(text: str) -> int:
    if not (text.isascii() and text.isdecimal()) or int(text) < 1:
        raise argparse.ArgumentTypeError(f"'{text}' is not a number of a part: they begin with 1")
    return int(text)


def _scope(arguments: argparse.Namespace) -> Scope:
    from gpuproof import settings
    from gpuproof.backends.remote.iam.policy import Scope

    for topic in arguments.topic:
        if not _TOPIC.fullmatch(topic):
            raise UsageError(f"'{topic}' is not the ARN of an SNS topic.", remedy="aws sns list-topics")
    for address in (*arguments.input, *arguments.output):
        if not address.startswith("s3://"):
            raise UsageError(f"'{address}' is not an S3 address.", remedy="Write s3://BUCKET/PREFIX.")
    if arguments.regions and (arguments.on != "ec2" or not arguments.region):
        raise UsageError(
            "--regions names further regions of instances on EC2: it needs --on ec2 and --region.",
            remedy="gpuproof iam policy --on ec2 --region us-east-1 --regions us-west-2,eu-west-1",
        )
    account = arguments.account
    if account is not None and not (len(account) == 12 and account.isdigit()):
        raise UsageError(
            f"'{account}' is not an AWS account: it must have 12 digits.",
            remedy="aws sts get-caller-identity",
        )
    key = arguments.kms_key
    if key is not None and ":key/" not in key:
        raise UsageError(
            f"'{key}' is not the ARN of a KMS key.", remedy="aws kms describe-key --key-id alias/NAME"
        )
    bucket = arguments.bucket or settings.bucket_name()
    known = {"ec2": settings.instance_profile_name, "sagemaker": settings.role_arn}
    role = known[arguments.on]() if arguments.on in known else None
    return Scope(
        backend=arguments.on,
        account=account or "*",
        region=arguments.region or "*",
        other_regions=tuple(part.strip() for part in arguments.regions.split(",") if part.strip()),
        bucket=bucket.removeprefix("s3://").rstrip("/") if bucket else None,
        role=arguments.role or role or "",
        kms_key=key,
        inputs=tuple(arguments.input),
        outputs=tuple(arguments.output),
        vpc=arguments.vpc,
        topics=tuple(arguments.topic),
    )


def _with_own_account(scope: Scope, arguments: argparse.Namespace) -> Scope:
    """The scope with the account of the credentials, which a trust policy names.

    Raises:
        UsageError: it is not known, and only the trust policy is to be printed.
    """
    account, why = _own_account()
    if account is None and arguments.which == "trust":
        raise UsageError(
            f"The trust policy names the account whose jobs may use the role, and it is not known: {why}",
            remedy=f"{_same_command(arguments)} --trust --account 123456789012 (12 digits of your own; the account's "
            "page in the AWS console shows them)",
        )
    if account is None:
        print(
            f"trust: replace {_UNKNOWN_ACCOUNT} by the account, or add --account: {why}",
            file=sys.stderr,
        )
    return replace(scope, account=account or _UNKNOWN_ACCOUNT)


def _own_account() -> tuple[str | None, str]:
    """The account of the credentials; None and the reason if it is not known."""
    try:
        from gpuproof.app.session import aws_client  # boto3 loads slowly
        from gpuproof.backends.aws.unknown_account import ASSUMED_REGION

        aws = aws_client(None)
        if not aws.has_credentials():
            return None, "there are no AWS credentials."
        # Any region of the partition knows the caller.
        return aws_client(aws.configured_region or ASSUMED_REGION).caller().account, ""
    except ImportError as error:
        return None, f"boto3 is not installed ({error})."
    except GPUproofError as error:
        return None, error.message
