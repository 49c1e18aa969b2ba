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
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpuproof.cli.arguments import add_command, add_format_flag, validate_content_type
from gpuproof.cli.serving.model_argument import MODEL_HELP
from gpuproof.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from gpuproof.backends.aws import Aws
    from gpuproof.backends.sagemaker.transform.job import TransformEnd, TransformJob
    from gpuproof.backends.sagemaker.transform.plan import TransformOptions, TransformPlan
    from gpuproof.cli.arguments import Subparsers
    from gpuproof.cli.endpoints.model_source import FoundModel

SCHEMA_VERSION = 1
_RECORDS = {"many": "MultiRecord", "one": "SingleRecord"}


def add_parser(commands: Subparsers) -> None:
    """Add `gpuproof transform` to the command line."""
    parser = add_command(
        commands, "transform", "run a model over files in S3 or on this machine (batch transform)", __doc__
    )
    parser.add_argument(
        "model", metavar="MODEL", help=f"{MODEL_HELP}; s3://…/model.tar.gz; or the name of a SageMaker model"
    )
    parser.add_argument(
        "--code",
        type=Path,
        metavar="PATH",
        help="the handler: inference.py, or the folder that becomes code/",
    )
    parser.add_argument(
        "--input",
        required=True,
        metavar="DATA",
        help="prefix in S3 of the data; or a file or folder here, which is uploaded, and deleted at the end",
    )
    parser.add_argument("--output", required=True, metavar="S3", help="prefix in S3 of the results")
    parser.add_argument(
        "--instance-type", required=True, metavar="ml.g5.xlarge", help="instance type of the job"
    )
    parser.add_argument(
        "--instance-count", type=int, default=1, metavar="N", help="number of instances (default: 1)"
    )
    _add_model_flags(parser)
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
    parser.add_argument("--on", help=argparse.SUPPRESS)
    add_format_flag(parser)
    parser.set_defaults(run=run)


def _add_model_flags(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("a model that is created for the job")
    group.add_argument("--image", metavar="URI", help="container image (default: AWS's for the framework)")
    group.add_argument(
        "--server",
        choices=["gpuproof", "image"],
        help="GPUproof's server in the image, or the image's own "
        "(default: the image's own for a model in S3 with --image, which then stays where it is; else gpuproof)",
    )
    group.add_argument("--framework", choices=["pytorch", "tensorflow"], help="default: by the model")
    group.add_argument(
        "--framework-version", metavar="VERSION", help="such as 2.6 (default: the newest image)"
    )
    group.add_argument("--role", help="role of the container, by name or ARN (default: GPUPROOF_ROLE_ARN)")
    group.add_argument(
        "--bucket", help="bucket of files that are uploaded: model, data (default: as for `gpuproof run`)"
    )


def run(arguments: argparse.Namespace) -> int:
    """Entry point of `gpuproof transform`."""
    import tempfile

    from gpuproof import settings
    from gpuproof.backends.aws import Aws
    from gpuproof.backends.interrupts import sigterm_interrupts
    from gpuproof.backends.remote.run_id import new_run_id
    from gpuproof.backends.sagemaker.transform.job import TransformJob
    from gpuproof.backends.sagemaker.transform.plan import plan_transform
    from gpuproof.catalogue import Catalogue
    from gpuproof.terminal.console import Console
    from gpuproof.util.humanize import format_bytes

    console = Console()
    notify = console.print
    options = _options(arguments)
    aws = Aws(session=settings.boto3_session, region=arguments.region, notify=notify)
    # Not `temporary_folder`, whose SIGTERM handler exits: SIGTERM must stop the job.
    with sigterm_interrupts(), tempfile.TemporaryDirectory(prefix="gpuproof-transform-") as scratch:
        found = _find_model(arguments, aws, Path(scratch))
        stem = options.model if found is None else found.name
        plan = plan_transform(
            aws,
            Catalogue.load(),
            options,
            arguments.name or new_run_id(stem),
            None if found is None else found.source,
            None if found is None else found.framework,
        )
        for warning in plan.warnings:
            notify(f"gpuproof: {warning}")
        if arguments.dry_run:
            return _show_plan(arguments, plan)

        def transfer(what: str, done: int, total: int) -> None:
            console.progress(f"{format_bytes(done)} of {format_bytes(total)} · {what}")

        with TransformJob(aws, plan, notify=notify, transfer=transfer) as job:
            job.create()
            console.end_progress()
            if not arguments.detach:
                return _follow(arguments, plan, job)
        return _report_detached(arguments, plan)


def _find_model(arguments: argparse.Namespace, aws: Aws, scratch: Path) -> FoundModel | None:
    """The model from which one is created for the job; None if MODEL is the name of a model of SageMaker.

    Raises:
        GPUproofError: there is no such model.
    """
    from gpuproof.backends.aws import AwsRefused
    from gpuproof.backends.sagemaker.endpoints.plan import ModelSource
    from gpuproof.cli.endpoints.model_source import FoundModel, find_model
    from gpuproof.settings import cache_dir

    text: str = arguments.model
    if text.startswith("s3://") and arguments.server == "image" and arguments.code is None:
        bucket, _, key = text.removeprefix("s3://").partition("/")
        if aws.object(bucket, key) is None:
            raise UsageError(f"There is no object {text}.", remedy=f"aws s3 ls s3://{bucket}/")
        name = Path(key).name.removesuffix(".gz").removesuffix(".tar").removesuffix(".tgz")
        return FoundModel(ModelSource(None, text, text), None, None, name or "model")
    if not text.startswith("s3://") and not Path(text).expanduser().exists():
        try:
            exists = aws.describe_model(text) is not None
        except AwsRefused as refused:
            if not refused.is_permission:
                raise
            exists = False
        if exists:
            _reject_model_flags(arguments)
            return None
    try:
        return find_model(arguments, aws, cache_dir(), scratch, pack=True)
    except UsageError as error:
        near = [] if text.startswith("s3://") else _nearest_models(aws, text)
        if not near:
            raise
        raise error.replaced(error.message, f"Did you mean the SageMaker model {near[0]}?") from error


def _reject_model_flags(arguments: argparse.Namespace) -> None:
    given = {
        "--image": arguments.image,
        "--code": arguments.code,
        "--framework": arguments.framework,
        "--framework-version": arguments.framework_version,
        "--role": arguments.role,
        "--bucket": arguments.bucket if arguments.input.startswith("s3://") else None,
    }
    for flag, value in given.items():
        if value is not None:
            raise UsageError(
                f"{flag} is for a model that is created for the job; {arguments.model} is a model of SageMaker."
            )


def _nearest_models(aws: Aws, name: str) -> list[str]:
    from gpuproof.backends.aws import AwsRefused
    from gpuproof.util.spelling import nearest_words

    try:
        found = aws.call("sagemaker", "list_models", MaxResults=100, SortBy="CreationTime")["Models"]
    except AwsRefused:
        return []
    return nearest_words(name, [item["ModelName"] for item in found], 1)


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
        "version": SCHEMA_VERSION,
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
            "version": SCHEMA_VERSION,
            "name": plan.name,
            "region": plan.region,
            "output": plan.options.output,
            "status": "InProgress",
        }
        print(json.dumps(document, indent=2))
        return ExitCode.OK
    print(plan.name)
    region = f" --region {arguments.region}" if arguments.region else ""
    also = [
        what
        for what, stays in (("model", plan.creates_model), ("uploaded files", plan.uploads_files))
        if stays
    ]
    deletes = f", and deletes its {' and '.join(also)}, also when it has ended" if also else ""
    print(f"gpuproof stop {plan.name}{region}: stops it{deletes}", file=sys.stderr)
    return ExitCode.OK


def _show_plan(arguments: argparse.Namespace, plan: TransformPlan) -> int:
    from gpuproof.backends.api_call import format_calls

    if arguments.format == "json":
        calls = [call.to_json() for call in plan.calls]
        document = {
            "version": SCHEMA_VERSION,
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

    if arguments.server is None:
        stays = arguments.model.startswith("s3://") and arguments.image and arguments.code is None
        arguments.server = "image" if stays else "gpuproof"
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
        image=arguments.image or None,
        framework=arguments.framework,
        framework_version=arguments.framework_version,
        server=arguments.server,
        role=arguments.role,
        bucket=arguments.bucket,
        content_type=validate_content_type(arguments.content_type) or "",
        accept=validate_content_type(arguments.accept) or "",
        split=arguments.split == "line",
        records=_RECORDS.get(arguments.records, ""),
        concurrency=arguments.concurrency,
        max_payload=arguments.max_payload,
        environment=environment,
    )
