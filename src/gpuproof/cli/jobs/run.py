"""Run a job and give a verdict on its GPU use.

TARGET is a script, a gpuproof.yaml or a folder that holds one; without it, the gpuproof.yaml of the working directory is
meant. What follows `--` goes to the script.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from gpuproof.errors import UsageError

if TYPE_CHECKING:
    from gpuproof.cli.arguments import Subparsers
    from gpuproof.jobs.spec import Job
    from gpuproof.terminal.console import Console

_PLACES = ("local", "sagemaker")


def add_parser(commands: Subparsers) -> None:
    """Add `gpuproof run` to the command line."""
    parser = commands.add_parser(
        "run",
        help="run a job and give a verdict on its GPU use",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        usage="gpuproof run [TARGET [NAME]] [flags] [-- SCRIPT ARGUMENTS]",
        epilog="examples:\n  gpuproof run train.py -- --epochs 5\n  gpuproof run\n  gpuproof run jobs/gpuproof.yaml train -p epochs=5\n"
        "  gpuproof run --on sagemaker --gpu A10G:1 --dry-run",
        allow_abbrev=False,
    )
    parser.add_argument("target", nargs="?", metavar="TARGET", help="a script, a gpuproof.yaml or its folder")
    parser.add_argument(
        "job", nargs="?", metavar="NAME", help="which job of the file, where it holds several"
    )
    _add_job(parser)
    _add_aws(parser)
    how = parser.add_argument_group("how it runs")
    how.add_argument(
        "--on", default="local", choices=_PLACES, help="the place: local is this machine (default: local)"
    )
    how.add_argument("--fresh", action="store_true", help="begin without an earlier attempt's checkpoints")
    how.add_argument("--no-check", action="store_true", help="start it whatever `gpuproof check` says")
    how.add_argument("--detach", action="store_true", help="return as soon as it is on its way")
    how.add_argument("--dry-run", action="store_true", help="show what would be done, and do nothing")
    how.add_argument(
        "--format", default="text", choices=["text", "json"], help="json: results on standard output"
    )
    here = parser.add_argument_group("on this machine")
    here.add_argument("--python", metavar="PYTHON", help="the script's interpreter or virtual environment")
    here.add_argument(
        "--isolation",
        default="auto",
        choices=["auto", "namespace", "proot", "environment"],
        help="how /opt/ml is made private (default: the best that this host allows)",
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Entry point of `gpuproof run`."""
    from gpuproof.terminal.console import Console

    _refuse_what_is_for_here(arguments)
    job = _read_job(arguments)
    console = Console(output=sys.stderr.buffer if arguments.format == "json" else None)
    # Each place brings its own imports: this machine's runs start without boto3.
    if arguments.on == "sagemaker":
        from gpuproof.cli.jobs.run_sagemaker import run_on_sagemaker

        _check(job, arguments, console)
        return run_on_sagemaker(job, arguments, console)
    from gpuproof.cli.jobs.run_local import plan_here, run_here

    chosen = plan_here(job, arguments)
    _check(chosen.job, arguments, console)
    return run_here(chosen, arguments, console)


def _add_job(parser: argparse.ArgumentParser) -> None:
    what = parser.add_argument_group("the job (each takes the place of what the file says)")
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
        "--env", action="append", default=[], metavar="NAME=VALUE", help="a variable for the script"
    )
    what.add_argument(
        "--instance-type", metavar="TYPE", help="such as ml.g5.xlarge: its GPUs are expected to work"
    )
    what.add_argument("--instance-count", type=int, metavar="N", help="how many hosts; this machine runs one")
    what.add_argument("--framework", metavar="NAME", help="what the script is written with, such as pytorch")
    what.add_argument("--framework-version", metavar="VERSION", help="such as 2.8")
    what.add_argument("--gpu", metavar="REQUEST", help="GPUs that are expected to work, such as A10G:1 or 2")
    what.add_argument("--max-duration", metavar="TIME", help="stop the script after that time, such as 90m")
    what.add_argument(
        "--require-gpu",
        action=argparse.BooleanOptionalAction,
        help="without a GPU do not start; leave with code 4 if a GPU that was asked for does no work",
    )


def _add_aws(parser: argparse.ArgumentParser) -> None:
    aws = parser.add_argument_group("on AWS (each takes the place of what the file says)")
    aws.add_argument("--region", metavar="REGION", help="such as us-east-1")
    aws.add_argument("--image", metavar="URI", help="container image, instead of AWS's own for the framework")
    aws.add_argument("--role", metavar="ROLE", help="name or ARN of the role that the job runs as")
    aws.add_argument("--bucket", metavar="NAME", help="S3 bucket for code and results")
    aws.add_argument(
        "--spot", action=argparse.BooleanOptionalAction, help="spot capacity: cheaper, and may be taken away"
    )
    aws.add_argument("--max-wait", metavar="TIME", help="with --spot: for waiting and running together")
    aws.add_argument(
        "--fallback",
        action="append",
        default=[],
        metavar="TYPE",
        help="instance type to try where the first cannot be had; may be given several times",
    )
    aws.add_argument(
        "--keep-alive", metavar="TIME", help="how long the hosts stay, and cost, for the next job (warm pool)"
    )
    aws.add_argument("--tag", action="append", default=[], metavar="KEY=VALUE", help="an AWS tag")


def _refuse_what_is_for_here(arguments: argparse.Namespace) -> None:
    if arguments.on == "local":
        return
    for flag, given in (("--python", arguments.python), ("--isolation", arguments.isolation != "auto")):
        if given:
            raise UsageError(
                f"{flag} is for runs on this machine: on {arguments.on} the container image decides.",
                remedy="Leave it out, or choose an image: --image, --framework-version.",
            )


def _check(job: Job, arguments: argparse.Namespace, console: Console) -> None:
    if not arguments.no_check:
        from gpuproof.cli.jobs.preflight import check_before_running
        from gpuproof.settings import aws_region

        check_before_running(job, console, job.resources.region or aws_region())


def _read_job(arguments: argparse.Namespace) -> Job:
    from gpuproof.jobs import Overrides, load_job, override_job

    path, name = find_target(arguments.target, arguments.job, Path.cwd())
    changes = Overrides(
        name=arguments.name,
        inputs=arguments.input,
        hyperparameters=arguments.hyperparameter,
        environment=arguments.env,
        instance_type=arguments.instance_type,
        instance_count=arguments.instance_count,
        gpu=arguments.gpu,
        max_duration=arguments.max_duration,
        require_gpu=arguments.require_gpu,
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
    return override_job(load_job(path, name), changes, Path.cwd())


def find_target(target: str | None, name: str | None, folder: Path) -> tuple[Path, str | None]:
    """The file that is meant, and the name of the job in it.

    Raises:
        UsageError: there is no such file.
    """
    standard = _description_in(folder)
    if target is None:
        if standard is None:
            raise UsageError(
                f"There is no gpuproof.yaml in {folder} and no script was named.",
                remedy="gpuproof run train.py -- --epochs 5",
            )
        return standard, name
    path = folder / Path(target).expanduser()
    # A job may well be called like the folder of its code.
    named = standard if name is None and "/" not in target and not path.suffix else None
    if path.is_dir() and (named is None or _description_in(path) is not None):
        return find_target(None, name, path)
    if named is not None and not path.is_file():
        return named, target
    return path, name


def _description_in(folder: Path) -> Path | None:
    return next(
        (folder / file for file in ("gpuproof.yaml", "gpuproof.yml") if (folder / file).is_file()), None
    )
