"""Run a model over all objects below a prefix in S3, as a batch transform job of SageMaker.

MODEL is the name of a model of SageMaker, or s3://…/model.tar.gz with --image; a model that is created for the job is deleted at
its end. Each object becomes OUTPUT/NAME.out. Ctrl-C and SIGTERM stop the job.

  gpuproof transform my-model --input s3://data/rows/ --output s3://data/results --instance-type ml.g5.xlarge --split line
"""

from __future__ import annotations

import argparse
import json
import sys
from functools import partial
from typing import TYPE_CHECKING, Any

from gpuproof.cli.arguments import add_command, add_format_flag, validate_content_type
from gpuproof.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from gpuproof.backends.sagemaker.transform.job import TransformEnd, TransformJob
    from gpuproof.backends.sagemaker.transform.plan import TransformOptions, TransformPlan
    from gpuproof.cli.arguments import Subparsers

SCHEMA_VERSION = 1
_RECORDS = {"many": "MultiRecord", "one": "SingleRecord"}


def add_parser(commands: Subparsers) -> None:
    """Add `gpuproof transform` to the command line."""
    parser = add_command(
        commands, "transform", "run a model over all objects below a prefix in S3 (batch transform)", __doc__
    )
    parser.add_argument("model", metavar="MODEL", help="a model's name, or s3://…/model.tar.gz with --image")
    parser.add_argument("--input", required=True, metavar="S3", help="prefix in S3 of the data")
    parser.add_argument("--output", required=True, metavar="S3", help="prefix in S3 of the results")
    parser.add_argument(
        "--instance-type", required=True, metavar="ml.g5.xlarge", help="instance type of the job"
    )
    parser.add_argument(
        "--instance-count", type=int, default=1, metavar="N", help="number of instances (default: 1)"
    )
    parser.add_argument("--image", default="", metavar="URI", help="image that serves a model in S3")
    parser.add_argument("--role", help="role of a model in S3, by name or ARN (default: GPUPROOF_ROLE_ARN)")
    parser.add_argument(
        "--content-type",
        default="",
        metavar="T",
        help="type of the data (default: by the first object's suffix)",
    )
    parser.add_argument(
        "--accept", default="", metavar="T", help="type of the results (default: the model's)"
    )
    parser.add_argument(
        "--split",
        choices=["none", "line"],
        default="none",
        help="line: each line of an object is a record; none: the whole object is one request (default)",
    )
    parser.add_argument(
        "--records",
        choices=list(_RECORDS),
        help="with --split line: records of a request, as many as fit or one (default: the container's choice)",
    )
    parser.add_argument(
        "--concurrency",
        type=int,
        metavar="N",
        help="requests at the same time (default: the container's choice)",
    )
    parser.add_argument(
        "--max-payload",
        type=int,
        metavar="MB",
        help="largest request in MB (default: the container's choice)",
    )
    parser.add_argument(
        "--env",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a variable of the container; may be repeated",
    )
    parser.add_argument("--name", help="name of the job (default: from the model's name and the time)")
    parser.add_argument("--detach", action="store_true", help="return when the job has started")
    parser.add_argument("--dry-run", action="store_true", help="show the AWS calls without making them")
    parser.add_argument("--region", help="AWS region (default: AWS_REGION)")
    add_format_flag(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Entry point of `gpuproof transform`."""
    from gpuproof import settings
    from gpuproof.backends.aws import Aws
    from gpuproof.backends.interrupts import sigterm_interrupts
    from gpuproof.backends.remote.run_id import new_run_id
    from gpuproof.backends.sagemaker.transform.job import TransformJob
    from gpuproof.backends.sagemaker.transform.plan import plan_transform
    from gpuproof.catalogue import Catalogue

    notify = partial(print, file=sys.stderr)
    aws = Aws(session=settings.boto3_session, region=arguments.region, notify=notify)
    options = _options(arguments)
    stem = options.model.removesuffix("/").rpartition("/")[2].partition(".")[0] or "transform"
    plan = plan_transform(aws, Catalogue.load(), options, arguments.name or new_run_id(stem))
    for warning in plan.warnings:
        notify(f"gpuproof: {warning}")
    if arguments.dry_run:
        return _show_plan(arguments, plan)
    job = TransformJob(aws, plan, notify=notify)
    with sigterm_interrupts():
        job.create()
        if arguments.detach:
            return _report_detached(arguments, plan)
        return _follow(arguments, plan, job)


def _follow(arguments: argparse.Namespace, plan: TransformPlan, job: TransformJob) -> int:
    from gpuproof.util.humanize import format_usd

    if plan.price is not None:
        hourly = format_usd(plan.price.usd_per_hour * plan.options.instance_count)
        print(f"{plan.name}: {hourly} per hour while it runs; Ctrl-C stops it", file=sys.stderr)
    # The document is on standard output; what happens is not part of it.
    stream = sys.stderr if arguments.format == "json" else sys.stdout
    end = job.follow(
        partial(print, file=stream, flush=True),
        lambda status: print(f"{plan.name}: {status}", file=sys.stderr),
    )
    if arguments.format == "json":
        print(json.dumps(_document(plan, end), indent=2))
    else:
        _print_end(plan, end)
    return ExitCode.OK if end.status == "Completed" else ExitCode.FAILED


def _print_end(plan: TransformPlan, end: TransformEnd) -> None:
    from gpuproof.util.humanize import format_clock, format_usd

    if end.seconds is not None:
        cost = "price unknown" if end.cost is None else format_usd(end.cost)
        count = f"{plan.options.instance_count} x " if plan.options.instance_count > 1 else ""
        print(
            f"cost: {cost}: {format_clock(end.seconds)} of {count}{plan.options.instance_type}",
            file=sys.stderr,
        )
    if end.status == "Completed":
        print(f"results: {plan.options.output}")
    else:
        reason = end.reason or "SageMaker states no reason"
        print(f"gpuproof: the job {plan.name} is {end.status}: {reason}", file=sys.stderr)


def _document(plan: TransformPlan, end: TransformEnd) -> dict[str, Any]:
    return {
        "schema_version": SCHEMA_VERSION,
        "name": plan.name,
        "region": plan.region,
        "output": plan.options.output,
        "status": end.status,
        "reason": end.reason or None,
        "billed_seconds": end.seconds,
        "cost_usd": end.cost,
    }


def _report_detached(arguments: argparse.Namespace, plan: TransformPlan) -> int:
    if arguments.format == "json":
        document = {
            "schema_version": SCHEMA_VERSION,
            "name": plan.name,
            "region": plan.region,
            "output": plan.options.output,
            "status": "InProgress",
        }
        print(json.dumps(document, indent=2))
        return ExitCode.OK
    print(plan.name)
    region = f" --region {arguments.region}" if arguments.region else ""
    print(
        f"stop it: aws sagemaker stop-transform-job --transform-job-name {plan.name}{region}", file=sys.stderr
    )
    if plan.creates_model:
        print(
            f"its model stays: aws sagemaker delete-model --model-name {plan.name}{region}", file=sys.stderr
        )
    return ExitCode.OK


def _show_plan(arguments: argparse.Namespace, plan: TransformPlan) -> int:
    from gpuproof.backends.api_call import format_calls

    if arguments.format == "json":
        calls = [call.to_json() for call in plan.calls]
        document = {
            "schema_version": SCHEMA_VERSION,
            "name": plan.name,
            "region": plan.region,
            "calls": calls,
        }
        print(json.dumps(document, indent=2))
        return ExitCode.OK
    for title, request in format_calls(plan.calls):
        print(f"{title}\n{request}")
    return ExitCode.OK


def _options(arguments: argparse.Namespace) -> TransformOptions:
    from gpuproof.backends.sagemaker.transform.plan import TransformOptions

    environment: dict[str, str] = {}
    for word in arguments.env:
        name, found, value = word.partition("=")
        if not found or not name:
            raise UsageError(f"--env {word} is not NAME=VALUE.")
        environment[name] = value
    if arguments.records and arguments.split == "none":
        raise UsageError("--records is only for --split line.")
    return TransformOptions(
        model=arguments.model,
        input=arguments.input,
        output=arguments.output.rstrip("/"),
        instance_type=arguments.instance_type,
        instance_count=arguments.instance_count,
        image=arguments.image,
        role=arguments.role,
        content_type=validate_content_type(arguments.content_type) or "",
        accept=validate_content_type(arguments.accept) or "",
        split=arguments.split == "line",
        records=_RECORDS.get(arguments.records, ""),
        concurrency=arguments.concurrency,
        max_payload=arguments.max_payload,
        environment=environment,
    )
