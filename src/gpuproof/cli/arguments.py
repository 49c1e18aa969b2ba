"""Arguments that several verbs share."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from gpuproof.errors import UsageError

if TYPE_CHECKING:
    from gpuproof.backends.base import Run

    # argparse gives no public name to what `add_subparsers` returns.
    Verbs = argparse._SubParsersAction[argparse.ArgumentParser]  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]

RUN_HELP = "a run's id, its beginning or end, or a job's name (default: the newest run)"


def verb(
    verbs: Verbs,
    name: str,
    summary: str,
    description: str | None,
) -> argparse.ArgumentParser:
    """A verb's parser in the house's form."""
    return verbs.add_parser(
        name,
        help=summary,
        description=description,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )


def add_run(parser: argparse.ArgumentParser) -> None:
    """RUN, the newest if it is left out, and where to look for it."""
    parser.add_argument("run_name", nargs="?", metavar="RUN", help=RUN_HELP)
    add_place(parser)


def add_place(parser: argparse.ArgumentParser) -> None:
    """--on PLACE and --region REGION."""
    parser.add_argument(
        "--on",
        choices=["local", "sagemaker"],
        help="look there alone (default: on this machine, then on SageMaker)",
    )
    parser.add_argument("--region", help="the AWS region of SageMaker's runs (default: AWS_REGION)")


def one_line_type(given: str | None) -> str | None:
    """--content-type as it was given. Raises UsageError where no header could say it."""
    if set("\r\n") & set(given or ""):
        raise UsageError("--content-type is one line, such as application/json.")
    return given


def found_run(arguments: argparse.Namespace, name: str | None) -> Run:
    """The run that these arguments mean."""
    from gpuproof.backends.registry import find_run  # `gpuproof VERB --help` needs no runs

    return find_run(name, arguments.on, arguments.region)


def add_format(parser: argparse.ArgumentParser) -> None:
    """--format text|json."""
    parser.add_argument(
        "--format", default="text", choices=["text", "json"], help="json is versioned and stable"
    )
