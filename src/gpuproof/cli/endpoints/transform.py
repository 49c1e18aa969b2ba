"""Run a model over files in S3 or on this machine, as a batch transform job of SageMaker.

MODEL is a folder or model.tar.gz here or in S3, a run, or the name of a model of SageMaker. What is created for the job is deleted
at its end. Each object becomes OUTPUT/NAME.out. Ctrl-C and SIGTERM stop the job; `gpuproof stop NAME` stops a detached one.

  gpuproof transform digits/ --input s3://data/rows/ --output s3://data/results --instance-type ml.g5.xlarge --split line
  gpuproof transform digits/ --input rows/ --output s3://data/results --instance-type ml.g5.xlarge --split line
"""

from __future__ import annotations

import argparse
import json
import sys
from functools import partial
from typing import TYPE_CHECKING

from gpuproof.app.endpoints.model_source import MODEL_HELP
from gpuproof.cli.arguments import add_command, add_flags, add_format_flag, given_flags, show_dry_run
from gpuproof.errors import ExitCode

if TYPE_CHECKING:
    from gpuproof.app.endpoints.transform import TransformRun
    from gpuproof.cli.arguments import Subparsers


def add_parser(commands: Subparsers) -> None:
    """Add `gpuproof transform` to the command line."""
    summary = "run a model over files in S3 or on this machine (batch transform)"
    parser = add_command(commands, "transform", summary, __doc__, run)
    parser.add_argument(
        "model", metavar="MODEL", help=f"{MODEL_HELP}; s3://…/model.tar.gz; or the name of a SageMaker model"
    )
    parser.add_argument("--detach", action="store_true", help="return when the job has started")
    parser.add_argument("--dry-run", action="store_true", help="show the AWS calls without making them")
    add_flags(parser, "transform")
    parser.add_argument("--on", help=argparse.SUPPRESS)
    add_format_flag(parser)


def run(arguments: argparse.Namespace) -> int:
    """Entry point of `gpuproof transform`."""
    from gpuproof.app.endpoints.transform import planned_transform, run_transform
    from gpuproof.app.session import aws_client
    from gpuproof.cli.endpoints.progress import DeploymentProgress
    from gpuproof.jobs.apply_overrides import override
    from gpuproof.jobs.models.transform import TransformJob

    changes = {"model": arguments.model, **given_flags(arguments, "transform")}
    job, progress = override(TransformJob, None, changes), DeploymentProgress()
    aws = aws_client(job.region, notify=progress.note, dry_run=arguments.dry_run)
    as_json = arguments.format == "json"
    with planned_transform(job, aws, progress, arguments.on) as plan:
        if arguments.dry_run:
            show_dry_run(plan, as_json=as_json)
            return ExitCode.OK
        # The document is on standard output; what happens is not part of it.
        on_line = partial(print, file=sys.stderr if as_json else sys.stdout, flush=True)
        done = run_transform(plan, aws, progress, wait=not arguments.detach, on_line=on_line)
    if as_json:
        print(json.dumps(done.to_json(), indent=2))
    else:
        _show(done)
    return ExitCode.OK if done.status in ("Completed", "InProgress") else ExitCode.FAILED


def _show(done: TransformRun) -> None:
    if done.end is None:
        print(done.name)
        what = " and ".join(done.stays)
        deletes = f", and deletes its {what}, also when it has ended" if what else ""
        print(f"{done.stop}: stops it{deletes}", file=sys.stderr)
        return
    if done.cost is not None:
        print(f"cost: {done.cost}", file=sys.stderr)
    if done.status == "Completed":
        print(f"results: {done.plan.job.output}")
    else:
        reason = done.end.reason or "SageMaker states no reason"
        print(f"gpuproof: the job {done.name} is {done.status}: {reason}", file=sys.stderr)
