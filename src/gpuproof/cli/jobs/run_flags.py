"""The flags of `gpuproof run` that describe a job, and the job that results from them and its file."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gpuproof.backends.base import Backend
    from gpuproof.jobs.script_job import AnyJob


AUTO = "auto"
"""What `--instance-type` takes besides a type."""


def add_job_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags that override the job file."""
    what = parser.add_argument_group("the job (flags override the file)")
    what.add_argument("--name", help="the job's name")
    what.add_argument(
        "--input",
        action="append",
        default=[],
        metavar="CHANNEL=SOURCE",
        help="a channel and its folder, file or s3:// address",
    )
    what.add_argument(
        "-p",
        "--hyperparameter",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a hyperparameter; the script gets --NAME VALUE",
    )
    what.add_argument(
        "--env",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="an environment variable of the script",
    )
    what.add_argument(
        "--include",
        action="append",
        default=[],
        metavar="PATTERN",
        help="send files of the source folder that are ignored or look like secrets, such as .env or 'data/*.csv'",
    )
    what.add_argument(
        "--respect-gitignore",
        action=argparse.BooleanOptionalAction,
        help="leave out what .gitignore lists (default)",
    )
    what.add_argument(
        "--instance-type",
        metavar="TYPE",
        help="such as ml.g5.xlarge: its GPUs are expected to work; auto: what `gpuproof plan` recommends for the script",
    )
    what.add_argument("--instance-count", type=int, metavar="N", help="number of hosts")
    what.add_argument(
        "--distribution",
        metavar="LAUNCHER",
        help="how each host starts the script: none, torchrun, mirrored, multi_worker_mirrored, parameter_server, mpi or auto",
    )
    what.add_argument(
        "--processes-per-host", type=int, metavar="N", help="with torchrun or mpi (default: one per GPU)"
    )
    what.add_argument("--framework", metavar="NAME", help="the script's framework, such as pytorch")
    what.add_argument("--framework-version", metavar="VERSION", help="such as 2.8")
    what.add_argument("--gpu", metavar="REQUEST", help="GPUs that are expected to work, such as A10G:1 or 2")
    what.add_argument("--max-duration", metavar="TIME", help="stop the script after this time, such as 90m")
    what.add_argument(
        "--stall-timeout",
        metavar="TIME",
        help="stop the job after this time without progress on any GPU or in any log, such as 20m",
    )
    what.add_argument(
        "--require-gpu",
        action=argparse.BooleanOptionalAction,
        help="do not start without a GPU; exit with code 4 if a requested GPU does no work",
    )


def add_aws_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags for every backend on AWS."""
    aws = parser.add_argument_group("on AWS (flags override the file)")
    aws.add_argument("--region", metavar="REGION", help="such as us-east-1")
    aws.add_argument(
        "--image", metavar="URI", help="container image (default: AWS's image for the framework)"
    )
    aws.add_argument("--role", metavar="ROLE", help="name or ARN of the role that the job runs as")
    aws.add_argument("--bucket", metavar="NAME", help="S3 bucket for code and results")
    aws.add_argument(
        "--spot",
        action=argparse.BooleanOptionalAction,
        help="use spot capacity, which is cheaper but may be reclaimed",
    )
    aws.add_argument("--max-wait", metavar="TIME", help="with --spot: limit for waiting and running together")
    aws.add_argument(
        "--fallback",
        action="append",
        default=[],
        metavar="TYPE",
        help="instance type to try if the first one is unavailable; repeatable",
    )
    aws.add_argument(
        "--keep-alive",
        metavar="TIME",
        help="how long hosts are kept, and billed, for the next job (warm pool)",
    )
    aws.add_argument("--tag", action="append", default=[], metavar="KEY=VALUE", help="an AWS tag; repeatable")
    machine = parser.add_argument_group("only for a job with kind: machine")
    machine.add_argument(
        "--jupyter",
        action=argparse.BooleanOptionalAction,
        help="start JupyterLab on the machine, and open it here",
    )
    machine.add_argument(
        "--idle-timeout",
        metavar="TIME",
        help="end the machine after this time without a busy kernel, GPU work or a shell, such as 30m (default: 1h)",
    )


def add_backend_flags(parser: argparse.ArgumentParser, backend: type[Backend[Any]]) -> None:
    """Add the flags that only one backend takes."""
    if not backend.flags:
        return
    group = parser.add_argument_group(f"only with --on {backend.name}")
    for flag in backend.flags:
        group.add_argument(
            flag.name,
            default=flag.default,
            metavar=flag.metavar,
            choices=flag.choices or None,
            help=flag.help,
        )


def read_job(arguments: argparse.Namespace) -> AnyJob:
    """The job that TARGET names, with the flags applied.

    Raises:
        UsageError: there is no such job, or a flag is invalid.
        InvalidJob: its description is invalid.
    """
    from gpuproof.cli.jobs.target import find_target
    from gpuproof.jobs import Overrides
    from gpuproof.jobs.script_job import script_job

    path, name = find_target(arguments.target, arguments.job, Path.cwd())
    changes = Overrides(
        name=arguments.name,
        include=arguments.include,
        respect_gitignore=arguments.respect_gitignore,
        inputs=arguments.input,
        hyperparameters=arguments.hyperparameter,
        environment=arguments.env,
        instance_type=arguments.instance_type,
        instance_count=arguments.instance_count,
        distribution=arguments.distribution,
        processes_per_host=arguments.processes_per_host,
        gpu=arguments.gpu,
        max_duration=arguments.max_duration,
        stall_timeout=arguments.stall_timeout,
        require_gpu=arguments.require_gpu,
        jupyter=arguments.jupyter,
        idle_timeout=arguments.idle_timeout,
        arguments=arguments.script_arguments,
        framework=arguments.framework,
        framework_version=arguments.framework_version,
        image=arguments.image,
        region=arguments.region,
        spot=arguments.spot,
        fallbacks=arguments.fallback,
        tags=arguments.tag,
        role=arguments.role,
        bucket=arguments.bucket,
        max_wait=arguments.max_wait,
        keep_alive=arguments.keep_alive,
    )
    if name is None and (job := script_job(path, changes)) is not None:
        return job
    from gpuproof.jobs import load_job, override_job  # imports pydantic, which a script alone does without

    return override_job(load_job(path, name), changes, Path.cwd())
