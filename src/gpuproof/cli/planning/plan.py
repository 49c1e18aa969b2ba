"""Estimate, without a GPU, whether a script or a served model fits each AWS GPU, how long it takes and what it costs.

The script uses PyTorch, TensorFlow or Keras 3. It runs unmodified in a process of its own on this machine: in PyTorch for a few steps, with
tensors that have a shape and no memory; of TensorFlow and Keras 3, the graph of its training step is read. It changes nothing: what it would
write or upload is listed. Arguments after -- are the script's own.
A handler with SageMaker's functions (model_fn, predict_fn) is loaded as `gpuproof serve` does, and answers a few requests.

  gpuproof plan train.py -- --batch-size 64
  gpuproof plan train.py --epochs 10 --deadline 8h
  gpuproof plan gpuproof.yaml --input training=./samples
  gpuproof plan inference.py --request request.json
  gpuproof plan train.py --html plan.html
  gpuproof plan --history
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING

from gpuproof.cli.arguments import add_command, add_format_flag
from gpuproof.cli.html_page import (
    add_html_flag,
    check_html_flag,
    is_text_replaced,
    page_footer,
    write_page,
)
from gpuproof.cli.tempdir import temporary_folder
from gpuproof.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from gpuproof.app.plan import PlanRequest
    from gpuproof.cli.arguments import Subparsers

_OPTIONS = (
    *("epochs", "steps_per_epoch", "deadline", "budget", "spot", "start_up", "region", "on", "gpus", "gpu"),
    *(
        "steps",
        "timeout",
        "max_memory",
        "inference",
        "fit",
        "python",
        "data",
        "code",
        "request",
        "content_type",
        "cache",
    ),
)
"""Those that `PlanRequest` takes as they are."""


def add_parser(commands: Subparsers) -> None:
    """Add `gpuproof plan` to the command line."""
    parser = add_command(
        commands,
        "plan",
        "estimate memory, time and cost of a script or a model on each GPU, without one",
        __doc__,
    )
    parser.add_argument(
        "script",
        nargs="?",
        metavar="SCRIPT",
        type=Path,
        help="a script of PyTorch, TensorFlow or Keras 3, whose arguments follow --, a gpuproof.yaml, or a model: a handler "
        "(inference.py), or what `gpuproof serve` takes (default: the gpuproof.yaml of the working directory)",
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
        "--gpu",
        default="A10G",
        metavar="GPU",
        help="GPU that the script is told it has (default: A10G)",
    )
    parser.add_argument(
        "--fit",
        metavar="GPU",
        help="trace what would make it fit on this GPU: mixed precision, activation checkpointing, a smaller batch, an 8-bit optimizer",
    )
    parser.add_argument(
        "--data",
        default="script",
        choices=["script", "synthetic"],
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
        "--no-cache",
        dest="cache",
        action="store_false",
        help="trace the script again even if nothing has changed since an earlier plan",
    )
    parser.add_argument(
        "--python", metavar="PYTHON", help="interpreter that has its framework (default: as for `run`)"
    )
    parser.add_argument(
        "--history",
        action="store_true",
        help="show what earlier plans estimated and their runs measured, and trace nothing",
    )
    parser.add_argument(
        "--code",
        type=Path,
        metavar="PATH",
        help="handler of a model: inference.py, or the folder that becomes code/",
    )
    parser.add_argument(
        "--request",
        type=Path,
        metavar="FILE",
        help="file with the body of a request that the model answers (default: zeros in a shape that it accepts)",
    )
    parser.add_argument(
        "--content-type",
        metavar="TYPE",
        help="content type of --request (default: by its suffix, as in image.jpg)",
    )
    add_html_flag(parser, "the plan with charts of time, cost and memory")
    add_format_flag(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Entry point of `gpuproof plan`."""
    if arguments.history:
        if arguments.html is not None:
            raise UsageError(
                "--html is for the plan of a script, not for --history.", "gpuproof plan SCRIPT --html FILE"
            )
        from gpuproof.cli.planning.history import show_history

        show_history(as_json=arguments.format == "json")
        return ExitCode.OK
    check_html_flag(arguments)
    from gpuproof.app.plan import make_script_plan

    request = _request(arguments, arguments.script or _job_file())
    with temporary_folder("gpuproof-plan-model-") as scratch:
        plan = make_script_plan(request, scratch)
    if arguments.format == "json":
        print(json.dumps(plan.to_json(), indent=2))
    elif not is_text_replaced(arguments):
        print(plan)
    if arguments.html is not None:
        from gpuproof.report.plan_report import plan_page

        write_page(arguments, plan_page(plan, page_footer()))
    return ExitCode.OK if plan.recommendation is not None else ExitCode.FAILED


def _job_file() -> Path:
    """The job file of the working directory."""
    from gpuproof.jobs.load import FILE_NAMES

    found = next((path for path in map(Path, FILE_NAMES) if path.is_file()), None)
    if found is None:
        raise UsageError(
            "SCRIPT is missing, and this folder has no gpuproof.yaml.",
            remedy="gpuproof plan train.py -- --batch-size 64",
        )
    return found


def _request(arguments: argparse.Namespace, script: Path) -> PlanRequest:
    from gpuproof.app.plan import PlanRequest
    from gpuproof.cli.planning.sample_folders import sample_folders

    words = arguments.script_arguments
    return PlanRequest(
        script,
        name=arguments.job,
        arguments=None if words is None else tuple(words),
        inputs=sample_folders(arguments.input),
        is_command=True,
        **{option: getattr(arguments, option) for option in _OPTIONS},
    )
