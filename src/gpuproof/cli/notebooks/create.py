"""Create a SageMaker notebook instance and wait until it is in service.

gpuproof notebook create experiments --instance-type ml.g5.xlarge --fallback ml.g6.xlarge
gpuproof notebook create gpuproof.yaml experiments      # a job with `kind: notebook`

Users have no root access, the volume is encrypted, and the metadata service requires IMDSv2. If something fails, or at
Ctrl-C, what was created is deleted. SageMaker does not delete an instance that is Pending: it is waited for.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpuproof.cli.arguments import add_command, add_format_flag
from gpuproof.cli.notebooks.common import Session, add_region, add_timeout
from gpuproof.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from gpuproof.backends.sagemaker.notebooks.create import CreatedNotebook
    from gpuproof.backends.sagemaker.notebooks.plan import NotebookPlan
    from gpuproof.cli.arguments import Subparsers
    from gpuproof.jobs.models.notebook import NotebookJob

_NEVER = ("never", "none", "0")


def add_parser(actions: Subparsers) -> None:
    """Add `gpuproof notebook create` to the command line."""
    parser = add_command(actions, "create", "create a notebook instance", __doc__)
    parser.add_argument("target", metavar="NAME", help="its name, or a gpuproof.yaml")
    parser.add_argument(
        "job", nargs="?", metavar="JOB", help="which job of the gpuproof.yaml (default: its only one)"
    )
    parser.add_argument("--instance-type", metavar="TYPE", help="such as ml.g5.xlarge")
    parser.add_argument(
        "--fallback",
        action="append",
        default=[],
        metavar="TYPE",
        help="instance type to try if the first one has no capacity or no quota; repeatable",
    )
    parser.add_argument(
        "--idle-timeout",
        metavar="TIME",
        help="stop after this time in which no kernel and no GPU worked; never: do not stop (default: 1h)",
    )
    parser.add_argument("--volume-size", type=int, metavar="GB", help="size of the volume (default: 50)")
    parser.add_argument(
        "--root-access",
        action=argparse.BooleanOptionalAction,
        help="let users of the notebook instance become root (default: no)",
    )
    parser.add_argument(
        "--internet-access",
        action=argparse.BooleanOptionalAction,
        help="internet access of the instance's own; without it, --subnet is required (default: yes)",
    )
    parser.add_argument("--subnet", metavar="ID", help="subnet of your VPC")
    parser.add_argument(
        "--security-group", action="append", default=[], metavar="ID", help="security group; repeatable"
    )
    parser.add_argument("--kms-key", metavar="KEY", help="KMS key that encrypts the volume")
    parser.add_argument(
        "--platform", metavar="NAME", help="such as notebook-al2023-v1 (default: SageMaker's own)"
    )
    parser.add_argument("--role", metavar="ROLE", help="name or ARN of the role of the notebook instance")
    parser.add_argument("--bucket", metavar="NAME", help="S3 bucket from which it reads GPUproof's agent")
    parser.add_argument(
        "--tag", action="append", default=[], metavar="KEY=VALUE", help="an AWS tag; repeatable"
    )
    parser.add_argument("--dry-run", action="store_true", help="print the AWS calls; make none")
    parser.add_argument("--no-wait", action="store_true", help="return while it is still Pending")
    add_timeout(parser)
    add_region(parser)
    add_format_flag(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Entry point of `gpuproof notebook create`."""
    from gpuproof.backends.sagemaker.notebooks.create import create_notebook
    from gpuproof.backends.sagemaker.notebooks.planner import plan_notebook
    from gpuproof.settings import cache_dir

    job = _job(arguments)
    arguments.region = arguments.region or job.region
    session = Session(arguments)
    plan = plan_notebook(session.aws, job, cache_dir())
    if arguments.dry_run:
        _show_dry_run(plan, session, as_json=arguments.format == "json")
        return ExitCode.OK
    if arguments.format == "text":
        for label, text in plan.describe():
            session.console.label(label, text)
    with session.interruptible(job.name):
        created = create_notebook(
            session.aws, plan, session.progress, session.waiter, wait=not arguments.no_wait
        )
    _show(created, plan, session, as_json=arguments.format == "json")
    return ExitCode.OK


def _job(arguments: argparse.Namespace) -> NotebookJob:
    from gpuproof.jobs import load
    from gpuproof.jobs.models.notebook import NotebookJob

    changes = _changes(arguments)
    target = Path(arguments.target)
    if target.suffix in (".yaml", ".yml") or target.is_dir() or arguments.job:
        described = load.load_as(target, arguments.job, NotebookJob)
        given = {key: getattr(described, key) for key in described.model_fields_set}
        return NotebookJob(**{**given, **changes})
    if "instance_type" not in changes:
        raise UsageError(
            f"The instance type of {arguments.target} is missing.",
            remedy=f"gpuproof notebook create {arguments.target} --instance-type ml.g5.xlarge; "
            "`gpuproof gpus --on sagemaker` lists types with their prices.",
        )
    return NotebookJob(name=arguments.target, **changes)


def _changes(arguments: argparse.Namespace) -> dict[str, Any]:
    """The keys of the job that flags set."""
    timeout = arguments.idle_timeout
    values: dict[str, Any] = {
        "instance_type": arguments.instance_type,
        "fallbacks": tuple(arguments.fallback),
        "volume_size": arguments.volume_size,
        "root_access": arguments.root_access,
        "internet_access": arguments.internet_access,
        "subnet": arguments.subnet,
        "security_groups": tuple(arguments.security_group),
        "kms_key": arguments.kms_key,
        "platform": arguments.platform,
        "role": arguments.role,
        "bucket": arguments.bucket,
        "region": arguments.region,
        "tags": dict(map(_tag, arguments.tag)),
    }
    changes = {key: value for key, value in values.items() if value not in (None, (), {})}
    if timeout is not None:
        changes["idle_timeout"] = None if timeout in _NEVER else timeout
    return changes


def _tag(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals:
        raise UsageError(f"--tag takes KEY=VALUE, not {text}.")
    return key, value


def _show_dry_run(plan: NotebookPlan, session: Session, *, as_json: bool) -> None:
    from gpuproof.backends.api_call import format_calls

    if as_json:
        print(json.dumps(plan.to_json(), indent=2, default=str))
        return
    console = session.console
    console.label("dry run", f"of the notebook instance {plan.job.name}: nothing was created")
    for label, text in plan.describe():
        console.label(label, text)
    for title, request in format_calls(plan.calls):
        console.print()
        console.label("call", title)
        console.print(request)


def _show(created: CreatedNotebook, plan: NotebookPlan, session: Session, *, as_json: bool) -> None:
    if as_json:
        price = created.candidate.price
        document = {
            "version": 1,
            "notebook": created.name,
            "status": created.status,
            "instance_type": created.candidate.name,
            "usd_per_hour": None if price is None else price.usd_per_hour,
            "lifecycle_config": plan.script.config_name,
            "tried": [one.to_json() for one in created.tried],
        }
        print(json.dumps(document, indent=2))
        return
    flag = session.aws.region_flag
    session.console.label(created.status, f"on {created.candidate.name}")
    session.console.label("open", f"gpuproof notebook open {created.name}{flag}")
    session.console.label("delete", f"gpuproof notebook delete {created.name}{flag}")
