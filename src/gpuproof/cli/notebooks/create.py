"""Create a SageMaker notebook instance and wait until it is in service.

  gpuproof notebook create experiments --instance-type ml.g5.xlarge --fallback ml.g6.xlarge
  gpuproof notebook create gpuproof.yaml experiments      # a job with `kind: notebook`

Users have no root access, the volume is encrypted, and the metadata service requires IMDSv2. If something fails, or at
Ctrl-C, what was created is deleted. SageMaker does not delete an instance that is Pending: it is waited for.
"""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING

from gpuproof.cli.arguments import add_command, add_flags, add_format_flag, read_job
from gpuproof.cli.notebooks.common import Session, add_timeout
from gpuproof.errors import ExitCode

if TYPE_CHECKING:
    from gpuproof.backends.sagemaker.notebooks.create import CreatedNotebook
    from gpuproof.backends.sagemaker.notebooks.plan import NotebookPlan
    from gpuproof.cli.arguments import Subparsers


def add_parser(actions: Subparsers) -> None:
    """Add `gpuproof notebook create` to the command line."""
    parser = add_command(actions, "create", "create a notebook instance", __doc__)
    parser.add_argument("target", metavar="NAME", help="its name, or a gpuproof.yaml")
    parser.add_argument(
        "job", nargs="?", metavar="JOB", help="which job of the gpuproof.yaml (default: its only one)"
    )
    parser.add_argument("--dry-run", action="store_true", help="print the AWS calls; make none")
    parser.add_argument("--no-wait", action="store_true", help="return while it is still Pending")
    add_timeout(parser)
    add_flags(parser, "notebook create")
    add_format_flag(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Entry point of `gpuproof notebook create`."""
    from gpuproof.backends.sagemaker.notebooks.create import create_notebook
    from gpuproof.backends.sagemaker.notebooks.planner import plan_notebook
    from gpuproof.jobs.models.notebook import NotebookJob
    from gpuproof.settings import cache_dir

    job = read_job(arguments, "notebook create", NotebookJob, arguments.target, "name", folders=True)
    arguments.region = job.region
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


def _show_dry_run(plan: NotebookPlan, session: Session, *, as_json: bool) -> None:
    from gpuproof.backends.api_call import format_calls
    from gpuproof.backends.aws.unknown_account import with_placeholders

    if as_json:
        print(json.dumps(with_placeholders(plan.to_json()), indent=2, default=str))
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
            "tried": [attempt.to_json() for attempt in created.tried],
        }
        print(json.dumps(document, indent=2))
        return
    flag = session.aws.region_flag
    session.console.label(created.status, f"on {created.candidate.name}")
    session.console.label("open", f"gpuproof notebook open {created.name}{flag}")
    session.console.label("delete", f"gpuproof notebook delete {created.name}{flag}")
