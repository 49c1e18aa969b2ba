"""Deploy a model to a SageMaker endpoint, and prove that it is on the GPU.

MODEL is a run, a model.tar.gz here or in S3, a folder, or a gpuproof.yaml that describes endpoints (`kind: endpoint`). GPUproof's server answers inside AWS's image; after the first requests
it says whether the model is on the GPU. If it is not, or if anything else fails, everything that was created is deleted.

Deploying to an endpoint that exists updates it without downtime; --rollback NAME returns to the configuration before.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from gpuproof.cli.arguments import add_command, add_format_flag, validate_content_type
from gpuproof.cli.endpoints.job_file import apply_job_file
from gpuproof.cli.serving.model_argument import MODEL_HELP
from gpuproof.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from gpuproof.backends.sagemaker.endpoints.options import EndpointOptions, Scaling
    from gpuproof.backends.sagemaker.endpoints.plan import EndpointPlan
    from gpuproof.backends.sagemaker.endpoints.submit import Deployed
    from gpuproof.cli.arguments import Subparsers
    from gpuproof.cli.endpoints.progress import ConsoleProgress
    from gpuproof.units import Duration


def add_parser(commands: Subparsers) -> None:
    """Add `gpuproof deploy` to the command line."""
    parser = add_command(
        commands, "deploy", "deploy a model to a SageMaker endpoint, and prove that it is on the GPU", __doc__
    )
    parser.add_argument(
        "model",
        metavar="MODEL",
        nargs="?",
        help=f"{MODEL_HELP}; s3://…/model.tar.gz; or a gpuproof.yaml",
    )
    parser.add_argument(
        "job", nargs="?", metavar="JOB", help="which job of the gpuproof.yaml (default: its only endpoint)"
    )
    parser.add_argument(
        "--code",
        type=Path,
        metavar="PATH",
        help="the handler: inference.py, or the folder that becomes code/",
    )
    parser.add_argument(
        "--rollback", metavar="NAME", help="return the endpoint NAME to its previous configuration"
    )
    parser.add_argument("--name", help="the endpoint (default: by the model's job or file)")
    parser.add_argument(
        "--update", action="store_true", help="update the endpoint even if GPUproof did not create it"
    )
    parser.add_argument("--dry-run", action="store_true", help="print the AWS calls and make none of them")
    _add_machine_flags(parser)
    _add_server_flags(parser)
    _add_endpoint_flags(parser)
    parser.add_argument("--region", help="AWS region (default: AWS_REGION)")
    parser.add_argument("--on", help=argparse.SUPPRESS)
    add_format_flag(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Entry point of `gpuproof deploy`."""
    from gpuproof.backends.interrupts import sigterm_interrupts  # not needed for --help

    if (arguments.model is None) == (arguments.rollback is None):
        raise UsageError(
            "Name the model to deploy, or the endpoint to roll back.",
            remedy="gpuproof deploy MODEL --instance-type ml.g5.xlarge, or gpuproof deploy --rollback NAME",
        )
    if arguments.model is not None:
        apply_job_file(arguments)
    validate_content_type(arguments.content_type)
    with sigterm_interrupts():
        return _roll_back(arguments) if arguments.rollback else _deploy(arguments)


def _deploy(arguments: argparse.Namespace) -> int:
    import tempfile

    from gpuproof.backends.aws import Aws
    from gpuproof.backends.sagemaker.endpoints.errors import DeploymentFailed
    from gpuproof.backends.sagemaker.endpoints.planner import EndpointPlanner
    from gpuproof.backends.sagemaker.endpoints.submit import Deployment
    from gpuproof.cli.endpoints.model_source import endpoint_name, find_model
    from gpuproof.cli.endpoints.progress import ConsoleProgress
    from gpuproof.settings import cache_dir

    aws = Aws(region=arguments.region)
    cache = cache_dir()
    # Not `temporary_folder`, whose SIGTERM handler exits: SIGTERM must undo the deployment.
    with tempfile.TemporaryDirectory(prefix="gpuproof-deploy-") as scratch:
        pack = arguments.serverless is not None and arguments.server == "gpuproof"
        found = find_model(arguments, aws, cache, Path(scratch), pack=pack)
        options = _options(arguments, endpoint_name(arguments.name, found.name))
        plan = EndpointPlanner(aws, cache).plan(options, found.source, found.framework, found.version)
        if arguments.dry_run:
            _print_plan(plan, arguments.format)
            return ExitCode.OK
        progress = ConsoleProgress()
        _introduce(plan, progress)
        try:
            Deployment(plan, aws, progress).run(
                lambda deployed: _print_deployed(plan, deployed, arguments.format, aws.region_flag)
            )
        except DeploymentFailed as failed:
            progress.failure(failed)
            raise
    return ExitCode.OK


def _roll_back(arguments: argparse.Namespace) -> int:
    from gpuproof.backends.aws import Aws
    from gpuproof.backends.sagemaker.endpoints.previous import roll_back_endpoint
    from gpuproof.cli.endpoints.progress import ConsoleProgress

    name: str = arguments.rollback
    aws = Aws(region=arguments.region)
    try:
        config = roll_back_endpoint(aws, name, ConsoleProgress())
    except KeyboardInterrupt:
        print(
            f"gpuproof: interrupted. SageMaker continues with what was requested for {name}.\n"
            f"          aws sagemaker describe-endpoint --endpoint-name {name} --region {aws.region}",
            file=sys.stderr,
        )
        raise
    if arguments.format == "json":
        print(json.dumps({"version": 1, "endpoint": name, "config": config}, indent=2))
    else:
        print(f"{name} serves {config} again. The same command undoes this.")
    return ExitCode.OK


def _introduce(plan: EndpointPlan, progress: ConsoleProgress) -> None:
    verb = "update" if plan.replaces else "endpoint"
    progress.label(verb, f"{plan.name} in {plan.region}: {_size(plan)}")
    progress.label("image", f"{plan.image.uri} ({plan.image.because})")
    if plan.image.ami is not None:
        progress.label("driver", plan.image.ami)
    for warning in plan.warnings:
        progress.report("note", warning)


def _print_plan(plan: EndpointPlan, form: str) -> None:
    if form == "json":
        print(json.dumps(plan.to_json(), indent=2))
        return
    from gpuproof.backends.api_call import format_calls

    print(f"{plan.name} in {plan.region}: {_size(plan)}; {plan.image.because}")
    for warning in plan.warnings:
        print(f"note: {warning}")
    for title, request in format_calls(plan.calls):
        print(f"\n{title}\n{request}")


def _print_deployed(plan: EndpointPlan, deployed: Deployed, form: str, region_flag: str) -> None:
    verdict = deployed.verdict
    delete = f"gpuproof delete {deployed.name}{region_flag}"
    if form == "json":
        document = {
            "version": 1,
            "endpoint": deployed.name,
            "config": deployed.config,
            "region": plan.region,
            "image": plan.image.uri,
            "usd_per_hour": plan.usd_per_hour,
            "verdict": None if verdict is None else {"verdict": verdict.verdict, "reason": verdict.reason},
            "delete_at": deployed.delete_at,
            "notes": list(deployed.notes),
            "delete": delete,
        }
        print(json.dumps(document, indent=2))
        return
    print(f"{deployed.name} is in service ({_size(plan)}).")
    if verdict is not None:
        print(f"GPU: {verdict.verdict} ({verdict.reason}).")
    for note in deployed.notes:
        print(f"note: {note}")
    if deployed.delete_at is not None:
        from datetime import UTC, datetime

        moment = datetime.fromtimestamp(deployed.delete_at, UTC).strftime("%Y-%m-%d %H:%M UTC")
        print(f"A schedule deletes it at {moment}.")
    print(f"Delete it: {delete}")


def _size(plan: EndpointPlan) -> str:
    from gpuproof.util.humanize import format_usd

    if plan.options.serverless is not None:
        return f"serverless, {plan.options.serverless.memory_mb} MB, billed by request"
    size = f"{plan.options.instance_count} x {plan.options.instance_type}"
    cost = plan.usd_per_hour
    if cost is None:
        return f"{size}, price unknown"
    return f"{size}, {format_usd(cost)} an hour, {format_usd(cost * 24)} a day"


def _options(arguments: argparse.Namespace, name: str) -> EndpointOptions:
    from gpuproof.backends.sagemaker.endpoints.options import (
        AsyncInference,
        DataCapture,
        EndpointOptions,
        Serverless,
    )

    request: Path | None = arguments.request
    content_type = arguments.content_type
    if request is not None:
        if not request.is_file():
            raise UsageError(
                f"--request {request} does not exist.", remedy="Use a file with the body of a request."
            )
        if content_type is None:
            from gpuproof.serve.model.warmup import content_type_of

            content_type = content_type_of(request)
    asynchronous = None
    if arguments.asynchronous is not None:
        asynchronous = AsyncInference(arguments.asynchronous, arguments.async_success, arguments.async_error)
    return EndpointOptions(
        name=name,
        instance_type=arguments.instance_type,
        instance_count=arguments.instance_count,
        role=arguments.role,
        bucket=arguments.bucket,
        image=arguments.image,
        framework=arguments.framework,
        framework_version=arguments.framework_version,
        environment=dict(_pair(text, "--env") for text in arguments.env),
        require_gpu=arguments.require_gpu,
        server=arguments.server,
        isolated=arguments.network_isolation,
        startup_timeout=_duration(arguments.startup_timeout, "--startup-timeout"),
        ttl=_duration(arguments.ttl, "--ttl"),
        schedule_role=arguments.schedule_role,
        keep_without_schedule=arguments.keep_without_schedule,
        scaling=_scaling(arguments),
        serverless=Serverless.parse(arguments.serverless) if arguments.serverless else None,
        asynchronous=asynchronous,
        capture=DataCapture.parse(arguments.data_capture) if arguments.data_capture else None,
        request=request,
        content_type=content_type,
        tags=dict(_pair(text, "--tag") for text in arguments.tag),
        update=arguments.update,
    )


def _scaling(arguments: argparse.Namespace) -> Scaling | None:
    from gpuproof.backends.sagemaker.endpoints.options import Scaling

    given = (arguments.min_instances, arguments.max_instances, arguments.target_concurrency)
    if all(value is None for value in given):
        return None
    if arguments.max_instances is None:
        raise UsageError(
            "Automatic scaling needs --max-instances.", remedy="--max-instances 4 --target-concurrency 4"
        )
    return Scaling(arguments.min_instances or 1, arguments.max_instances, arguments.target_concurrency or 4.0)


def _duration(text: str | None, flag: str) -> Duration | None:
    from gpuproof.units import Duration, UnitError

    if text is None:
        return None
    try:
        return Duration.parse(text)
    except UnitError as error:
        raise UsageError(f"{flag}: {error}", remedy=f"{flag} 2h") from error


def _pair(text: str, flag: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise UsageError(f"{flag} {text.partition('=')[0]} has no value.", remedy=f"{flag} NAME=VALUE")
    return name, value


def _add_machine_flags(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("instances")
    group.add_argument("--instance-type", metavar="TYPE", help="such as ml.g5.xlarge")
    group.add_argument("--instance-count", type=int, metavar="N", help="instances at the start (default: 1)")
    group.add_argument(
        "--min-instances", type=int, metavar="N", help="least number of instances (default: 1)"
    )
    group.add_argument(
        "--max-instances", type=int, metavar="N", help="scale automatically, up to this number"
    )
    group.add_argument(
        "--target-concurrency",
        type=float,
        metavar="N",
        help="requests that each instance works on at the same time (default: 4)",
    )
    group.add_argument(
        "--serverless",
        metavar="SIZE",
        help="no instances and no GPU: memory=4096,concurrency=5 (MB, requests)",
    )
    group.add_argument(
        "--role", help="role of the container, by name or ARN (default: as for `gpuproof run`)"
    )
    group.add_argument("--bucket", help="bucket of the model's files (default: as for `gpuproof run`)")
    group.add_argument("--network-isolation", action="store_true", help="no network for the container")


def _add_server_flags(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("container")
    group.add_argument(
        "--server",
        choices=["gpuproof", "image"],
        help="GPUproof's server in the image, or the image's own (default: gpuproof)",
    )
    group.add_argument("--image", metavar="URI", help="container image (default: AWS's for the framework)")
    group.add_argument("--framework", choices=["pytorch", "tensorflow"], help="default: by the model")
    group.add_argument(
        "--framework-version", metavar="VERSION", help="such as 2.6 (default: the newest image)"
    )
    group.add_argument(
        "--env", action="append", default=[], metavar="NAME=VALUE", help="variable of the container"
    )
    group.add_argument(
        "--require-gpu",
        action=argparse.BooleanOptionalAction,
        default=None,
        help="fail unless the model is on the GPU (default: if the instance type has one)",
    )
    group.add_argument(
        "--request", type=Path, metavar="FILE", help="body of a request that the model must answer"
    )
    group.add_argument(
        "--content-type", metavar="TYPE", help="content type of --request (default: by its suffix)"
    )
    group.add_argument(
        "--startup-timeout", metavar="TIME", help="how long the container may start, 1m to 1h (default: 8m)"
    )


def _add_endpoint_flags(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("endpoint")
    group.add_argument(
        "--ttl", metavar="TIME", help="a schedule in AWS deletes the endpoint after this time, such as 2h"
    )
    group.add_argument(
        "--schedule-role",
        metavar="ROLE",
        help="role that EventBridge Scheduler assumes (default: GPUPROOF_SCHEDULE_ROLE_ARN, else gpuproof-scheduler)",
    )
    group.add_argument(
        "--keep-without-schedule", action="store_true", help="deploy even if the schedule cannot be created"
    )
    group.add_argument(
        "--async", dest="asynchronous", metavar="S3", help="asynchronous inference, with results in S3"
    )
    group.add_argument("--async-success", metavar="ARN", help="SNS topic for results")
    group.add_argument("--async-error", metavar="ARN", help="SNS topic for failed requests")
    group.add_argument(
        "--data-capture", metavar="S3[,PERCENT]", help="record requests and responses, or a share of them"
    )
    group.add_argument(
        "--tag", action="append", default=[], metavar="KEY=VALUE", help="tag of everything created"
    )
