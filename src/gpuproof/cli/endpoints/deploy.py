"""Deploy a model to a SageMaker endpoint, and prove that it is on the GPU.

MODEL is a run, a model.tar.gz here or in S3, a folder, or a gpuproof.yaml that describes endpoints (`kind: endpoint`). GPUproof's server answers inside AWS's image; after the first requests
it says whether the model is on the GPU. If it is not, or if anything else fails, everything that was created is deleted.

Deploying to an endpoint that exists updates it without downtime; --rollback NAME returns to the configuration before.
"""

from __future__ import annotations

import argparse
import json
import sys
from typing import TYPE_CHECKING

from gpuproof.app.endpoints.model_source import MODEL_HELP
from gpuproof.cli.arguments import add_command, add_flags, add_format_flag, read_job, show_dry_run, usd
from gpuproof.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from gpuproof.cli.arguments import Subparsers


def add_parser(commands: Subparsers) -> None:
    """Add `gpuproof deploy` to the command line."""
    summary = "deploy a model to a SageMaker endpoint, and prove that it is on the GPU"
    parser = add_command(commands, "deploy", summary, __doc__, run)
    parser.add_argument(
        "model", metavar="MODEL", nargs="?", help=f"{MODEL_HELP}; s3://…/model.tar.gz; or a gpuproof.yaml"
    )
    parser.add_argument(
        "job", nargs="?", metavar="JOB", help="which job of the gpuproof.yaml (default: its only endpoint)"
    )
    parser.add_argument(
        "--rollback", metavar="NAME", help="return the endpoint NAME to its previous configuration"
    )
    parser.add_argument(
        "--update", action="store_true", help="update the endpoint even if GPUproof did not create it"
    )
    parser.add_argument("--dry-run", action="store_true", help="print the AWS calls and make none of them")
    parser.add_argument(
        "--max-cost",
        type=usd,
        metavar="USD",
        help="do not deploy what may cost more until its --ttl ends, by list prices",
    )
    add_flags(parser, "deploy")
    parser.add_argument("--on", help=argparse.SUPPRESS)
    add_format_flag(parser)


def run(arguments: argparse.Namespace) -> int:
    """Entry point of `gpuproof deploy`."""
    if (arguments.model is None) == (arguments.rollback is None):
        raise UsageError(
            "Name the model to deploy, or the endpoint to roll back.",
            remedy="gpuproof deploy MODEL --instance-type ml.g5.xlarge, or gpuproof deploy --rollback NAME",
        )
    if arguments.rollback and arguments.dry_run:
        raise UsageError(
            "--dry-run shows a deployment, and --rollback makes none.",
            remedy=f"aws sagemaker describe-endpoint --endpoint-name {arguments.rollback} shows what it serves.",
        )
    return _roll_back(arguments) if arguments.rollback else _deploy(arguments)


def _deploy(arguments: argparse.Namespace) -> int:
    from gpuproof.app.endpoints.deploy import DeployedEndpoint, deploy_job
    from gpuproof.app.session import aws_client
    from gpuproof.backends.sagemaker.endpoints.errors import DeploymentFailed
    from gpuproof.cli.endpoints.progress import DeploymentProgress
    from gpuproof.jobs.models.endpoint import EndpointJob

    def show(endpoint: DeployedEndpoint) -> None:
        print(json.dumps(endpoint.to_json(), indent=2) if arguments.format == "json" else endpoint)

    job = read_job(arguments, "deploy", EndpointJob, arguments.model, "model")
    progress = DeploymentProgress()
    try:
        plan = deploy_job(
            job,
            aws_client(job.region, notify=progress.note, dry_run=arguments.dry_run),
            progress,
            update=arguments.update,
            dry_run=arguments.dry_run,
            on=arguments.on,
            max_cost=arguments.max_cost,
            deployed=show,
        )
    except DeploymentFailed as failed:
        progress.failure(failed)
        raise
    if not isinstance(plan, DeployedEndpoint):
        show_dry_run(plan, as_json=arguments.format == "json")
    return ExitCode.OK


def _roll_back(arguments: argparse.Namespace) -> int:
    from gpuproof.app.endpoints.deploy import roll_back
    from gpuproof.app.session import aws_client
    from gpuproof.cli.endpoints.progress import DeploymentProgress

    name: str = arguments.rollback
    progress = DeploymentProgress()
    aws = aws_client(arguments.region, notify=progress.note)
    try:
        config = roll_back(name, aws, progress)
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
