"""Options of `gpuproof plan` for a served model: its handler and a request."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from gpuproof.errors import UsageError

if TYPE_CHECKING:
    from gpuproof.planning.tracing import ServedModel

_FOR_SCRIPTS = {
    "epochs": "--epochs",
    "steps_per_epoch": "--steps-per-epoch",
    "deadline": "--deadline",
    "budget": "--budget",
    "start_up": "--start-up",
    "fit": "--fit",
    "inference": "--inference",
    "input": "--input",
    "data": "--data",
    "job": "JOB",
    "script_arguments": "arguments after --",
}


def add_model_options(parser: argparse.ArgumentParser) -> None:
    """Add --code, --request and --content-type."""
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


def find_served_model(arguments: argparse.Namespace, scratch: Path) -> ServedModel | None:
    """The model that is planned; None for a script or a job.

    Raises:
        UsageError: there is no such model, or an option is only for scripts.
    """
    from gpuproof.backends.sagemaker.endpoints.invocation.payload import check_content_type
    from gpuproof.planning.served_model import is_served_model, served_model

    given = arguments.code or arguments.request or arguments.content_type
    if not given and not is_served_model(arguments.script):
        return None
    useless = [name for option, name in _FOR_SCRIPTS.items() if getattr(arguments, option)]
    if useless:
        raise UsageError(
            f"{', '.join(useless)}: only for scripts; {arguments.script} is planned as a model that answers requests.",
            remedy=f"gpuproof plan {arguments.script} --request FILE",
        )
    return served_model(
        arguments.script,
        scratch,
        code=arguments.code,
        request=arguments.request,
        content_type=check_content_type("--content-type", arguments.content_type),
    )
