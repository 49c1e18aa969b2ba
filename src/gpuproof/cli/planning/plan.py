"""Estimate, without a GPU, whether a script or a served model fits each AWS GPU, how long it takes and what it costs.

The script runs unmodified in a process of its own on this machine, with tensors that have a shape and no memory, for a few
steps; of TensorFlow and Keras 3, the graph of its training step is read. It changes nothing: what it would write or upload is listed. Arguments after -- are the script's own.
A handler with SageMaker's functions (model_fn, predict_fn) is loaded as `gpuproof serve` does, and answers a few requests.

  gpuproof plan train.py -- --batch-size 64
  gpuproof plan train.py --epochs 10 --deadline 8h
  gpuproof plan gpuproof.yaml --input training=./samples
  gpuproof plan inference.py --request request.json
  gpuproof plan --history
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from gpuproof.cli.arguments import add_command, add_format_flag
from gpuproof.cli.planning.served_model import add_model_options, find_served_model
from gpuproof.cli.tempdir import temporary_folder
from gpuproof.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from gpuproof.catalogue import Catalogue
    from gpuproof.catalogue.model import Gpu
    from gpuproof.cli.arguments import Subparsers
    from gpuproof.planning.job_request import JobScript
    from gpuproof.planning.script_plan import Conditions
    from gpuproof.planning.tracing import TraceRequest

_DEFAULT_GPU = "A10G"
"""What the script is told that it has, unless --gpu names another."""


def add_parser(commands: Subparsers) -> None:
    """Add `gpuproof plan` to the command line."""
    parser = add_command(
        commands,
        "plan",
        "estimate memory, time and cost of a script on each GPU, without one",
        __doc__,
    )
    parser.add_argument(
        "script",
        nargs="?",
        metavar="SCRIPT",
        type=Path,
        help="a script of PyTorch, TensorFlow or Keras 3, whose arguments follow --, a gpuproof.yaml, or a model: a handler "
        "(inference.py), or what `gpuproof serve` takes",
    )
    parser.add_argument("job", nargs="?", metavar="JOB", help="which job of a job file with several")
    parser.add_argument(
        "--input",
        action="append",
        default=[],
        metavar="CHANNEL=FOLDER",
        help="a folder with a few samples of an input channel (SM_CHANNEL_NAME), in place of that of a job file",
    )
    parser.add_argument(
        "--epochs", type=int, metavar="N", help="passes over the data (default: what the script says, or 1)"
    )
    parser.add_argument(
        "--steps-per-epoch", type=int, metavar="N", help="steps of a pass (default: the data loader's length)"
    )
    parser.add_argument("--deadline", metavar="8h", help="recommend only what takes less time than this")
    parser.add_argument(
        "--budget", type=float, metavar="USD", help="recommend only what costs less than this"
    )
    parser.add_argument(
        "--start-up",
        metavar="TIME",
        help="billed time before the script's first line (default: 2 min 40 s on SageMaker, 2 min on EC2)",
    )
    parser.add_argument("--spot", action="store_true", help="recommend spot capacity, too")
    parser.add_argument("--region", help="AWS region of the prices (default: the job's, or us-east-1)")
    parser.add_argument("--on", choices=["ec2", "sagemaker"], help="only this service (default: both)")
    parser.add_argument(
        "--gpus",
        type=int,
        metavar="N",
        help="GPUs of the instance, all of which the script uses (default: the job's, or 1)",
    )
    parser.add_argument(
        "--gpu", metavar="A10G", help=f"GPU that the script is told it has (default: {_DEFAULT_GPU})"
    )
    parser.add_argument(
        "--fit",
        metavar="GPU",
        help="trace what would make it fit on this GPU: mixed precision, activation checkpointing, a smaller batch, an 8-bit optimizer",
    )
    parser.add_argument(
        "--data",
        choices=["synthetic"],
        help="zeros in place of MNIST, Fashion-MNIST, KMNIST, CIFAR-10 and CIFAR-100 of torchvision or Keras, "
        "which are not downloaded then (default: what the script loads)",
    )
    parser.add_argument("--steps", type=int, default=3, metavar="N", help="steps to trace (default: 3)")
    parser.add_argument(
        "--timeout", default="5m", metavar="TIME", help="time that tracing may take (default: 5m)"
    )
    parser.add_argument(
        "--max-memory",
        default="4GiB",
        metavar="SIZE",
        help="memory of this machine for each trace (default: 4GiB)",
    )
    parser.add_argument(
        "--inference", action="store_true", help="steps are calls of the model, not of an optimizer"
    )
    parser.add_argument(
        "--python", metavar="PYTHON", help="interpreter that has its framework (default: as for `run`)"
    )
    parser.add_argument(
        "--history",
        action="store_true",
        help="show what earlier plans estimated and their runs measured, and trace nothing",
    )
    add_model_options(parser)
    add_format_flag(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Entry point of `gpuproof plan`."""
    import json
    from dataclasses import replace

    from gpuproof.catalogue import Catalogue
    from gpuproof.cli.planning.plan_table import format_plan
    from gpuproof.planning.api import plan_request
    from gpuproof.planning.document import to_json

    if arguments.history:
        from gpuproof.cli.planning.history import show_history

        show_history(as_json=arguments.format == "json")
        return ExitCode.OK
    if arguments.script is None:
        raise UsageError("SCRIPT is missing.", remedy="gpuproof plan train.py -- --batch-size 64")
    catalogue = Catalogue.load()
    with temporary_folder("gpuproof-plan-model-") as scratch:
        model = find_served_model(arguments, scratch)
        job = _job(arguments) if model is None else None
        conditions = _conditions(arguments, catalogue, job)
        request = replace(_request(arguments, catalogue, job, model is not None), model=model)
        plan = plan_request(request, conditions, catalogue, arguments.fit)
    if arguments.format == "json":
        print(json.dumps(to_json(plan, str(arguments.script)), indent=2))
    else:
        print(format_plan(plan, str(arguments.script)))
    return ExitCode.OK if plan.recommendation is not None else ExitCode.FAILED


def _job(arguments: argparse.Namespace) -> JobScript | None:
    """The script of a job file or of a folder with one; None for a script."""
    path: Path = arguments.script
    if path.suffix not in (".yaml", ".yml") and not path.is_dir():
        if arguments.job is not None:
            raise UsageError("JOB is only for job files.", remedy="gpuproof plan gpuproof.yaml")
        return None
    from gpuproof.cli.planning.sample_folders import sample_folders
    from gpuproof.jobs.load import load_as
    from gpuproof.jobs.models.script_jobs import TrainingJob
    from gpuproof.planning.job_request import script_of_job

    inputs = sample_folders(arguments.input)
    words = arguments.script_arguments
    job = load_as(path, arguments.job, TrainingJob)
    return script_of_job(job, inputs, None if words is None else tuple(words))


def _request(
    arguments: argparse.Namespace, catalogue: Catalogue, job: JobScript | None, is_model: bool
) -> TraceRequest:
    from gpuproof.backends.interpreter import find_interpreter
    from gpuproof.cli.planning.sample_folders import sample_folders
    from gpuproof.planning.contract import Contract
    from gpuproof.planning.tracing import TraceRequest

    script: Path = arguments.script if job is None else job.script
    if not is_model and not script.is_file():
        raise UsageError(f"There is no script {script}.", remedy="gpuproof plan train.py -- --batch-size 64")
    for flag, value in (("--steps", arguments.steps), ("--gpus", arguments.gpus)):
        if value is not None and value < 1:
            raise UsageError(f"{flag} must be at least 1.")
    return TraceRequest(
        script,
        tuple(arguments.script_arguments or ()) if job is None else job.arguments,
        find_interpreter(arguments.python),
        steps=arguments.steps,
        data=arguments.data or "script",
        mode="inference" if arguments.inference else "training",
        timeout=_seconds(arguments.timeout, "--timeout"),
        max_memory=_bytes(arguments.max_memory),
        gpu=_gpu(arguments.gpu or _DEFAULT_GPU, catalogue),
        gpus=_gpus(arguments, job),
        folder=None if job is None else job.folder,
        contract=Contract(sample_folders(arguments.input)) if job is None else job.contract,
    )


def _gpus(arguments: argparse.Namespace, job: JobScript | None) -> int:
    return arguments.gpus or (job.gpus if job is not None else None) or 1


def _gpu(name: str, catalogue: Catalogue) -> Gpu:
    found = catalogue.gpu(name)
    if found is None or found.compute_capability is None:
        names = ", ".join(
            sorted(one.name for one in catalogue.tables.gpus.values() if one.compute_capability)
        )
        raise UsageError(f"The catalogue has no GPU {name} with CUDA.", remedy=f"--gpu with one of: {names}")
    return found


def _conditions(arguments: argparse.Namespace, catalogue: Catalogue, job: JobScript | None) -> Conditions:
    from gpuproof.planning.script_plan import Conditions

    region: str = arguments.region or (job.region if job is not None else None) or "us-east-1"
    if region not in catalogue.tables.priced_regions:
        near = catalogue.misspelt_region(region)
        raise UsageError(
            f"The catalogue has no prices of {region}.",
            remedy=f"Did you mean {near}?" if near else "--region us-east-1",
        )
    for flag, value in (("--epochs", arguments.epochs), ("--steps-per-epoch", arguments.steps_per_epoch)):
        if value is not None and value < 1:
            raise UsageError(f"{flag} must be at least 1.")
    if arguments.budget is not None and arguments.budget <= 0:
        raise UsageError("--budget must be more than 0.")
    return Conditions(
        region=region,
        service=arguments.on,
        gpus=_gpus(arguments, job),
        epochs=arguments.epochs,
        steps_per_epoch=arguments.steps_per_epoch,
        deadline=None if arguments.deadline is None else _seconds(arguments.deadline, "--deadline"),
        budget=arguments.budget,
        spot=arguments.spot or (job is not None and job.spot),
        start_up=None if arguments.start_up is None else _seconds(arguments.start_up, "--start-up"),
    )


def _bytes(text: str) -> int:
    from gpuproof.units import Memory, UnitError

    try:
        return Memory.parse(text).bytes
    except UnitError as error:
        raise UsageError(f"--max-memory: {error}.", remedy="--max-memory 8GiB") from error


def _seconds(text: str, flag: str) -> float:
    from gpuproof.units import Duration, UnitError

    try:
        seconds = float(Duration.parse(text).seconds)
    except UnitError as error:
        raise UsageError(f"{flag}: {error}.", remedy=f"{flag} 2h") from error
    if seconds <= 0:
        raise UsageError(f"{flag} must be at least one second.")
    return seconds
