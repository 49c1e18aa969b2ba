"""Arguments that several commands share."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING

from gpuproof.errors import UsageError

if TYPE_CHECKING:
    from gpuproof.backends.base import Run
    from gpuproof.catalogue import Catalogue

    # argparse has no public name for the type that `add_subparsers` returns.
    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]

RUN_HELP = "a run's id, its beginning or end, or a job's name (default: the newest run)"


def add_command(
    commands: Subparsers,
    name: str,
    summary: str,
    description: str | None,
) -> argparse.ArgumentParser:
    """Adds a command's parser, which keeps line breaks of the description and takes no abbreviated flags."""
    return commands.add_parser(
        name,
        help=summary,
        description=description,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )


def add_run_argument(parser: argparse.ArgumentParser) -> None:
    """Adds RUN (default: the newest run) and the flags that say where to look for it."""
    parser.add_argument("run_name", nargs="?", metavar="RUN", help=RUN_HELP)
    add_backend_flags(parser)


def add_backend_flags(parser: argparse.ArgumentParser) -> None:
    """Adds --on BACKEND and --region REGION."""
    from gpuproof.backends import registry  # commands that need no runs start faster without it

    parser.add_argument(
        "--on",
        choices=list(registry.BACKENDS),
        help="search only this backend (default: local runs first, then the other backends)",
    )
    parser.add_argument("--region", help="AWS region to search (default: AWS_REGION)")


def validate_content_type(given: str | None) -> str | None:
    """Returns --content-type unchanged. Raises UsageError if it has line breaks, which no HTTP header can hold."""
    if set("\r\n") & set(given or ""):
        raise UsageError("--content-type must be one line, such as application/json.")
    return given


def resolve_run(arguments: argparse.Namespace, name: str | None) -> Run:
    """Finds the run that RUN, --on and --region name."""
    from gpuproof.backends import registry  # commands that need no runs start faster without it

    return registry.find_run(name, arguments.on, arguments.region)


def reject_unknown_type(name: str | None, catalogue: Catalogue) -> None:
    """Raises UsageError, with the nearest names, for an instance type that the catalogue does not have."""
    if name is None or catalogue.instance(name) is not None:
        return
    from gpuproof.util.spelling import nearest_words

    ec2_type = name.removeprefix("ml.")
    if name != ec2_type and catalogue.instance(ec2_type):
        raise UsageError(
            f"SageMaker has no {name}: none of its APIs accepts it, but EC2 has {ec2_type}.",
            remedy="gpuproof gpus --on sagemaker",
        )
    prefix = name[: len(name) - len(ec2_type)]
    near = [prefix + one for one in nearest_words(ec2_type, catalogue.tables.gpu_instances, 3)]
    raise UsageError(
        f"Unknown instance type {name}.",
        remedy=f"Did you mean {' or '.join(near)}?"
        if near
        else "`gpuproof gpus` lists the types with GPUs; `gpuproof catalogue refresh` adds new ones.",
    )


def reject_unknown_region(name: str | None, catalogue: Catalogue) -> None:
    """Raises UsageError, with the nearest name, for a region that the catalogue does not have."""
    if name is None or name in catalogue.known_regions():
        return
    near = catalogue.misspelt_region(name)
    raise UsageError(
        f"Unknown region '{name}'.",
        remedy=f"Did you mean {near}?"
        if near
        else f"To add a new region: gpuproof catalogue refresh --region {name}",
    )


def list_runs(arguments: argparse.Namespace, *, has_ended: bool) -> list[Run]:
    """The runs that have ended, or that have not: remote ones only if the user names the backend or a region."""
    from gpuproof.backends.registry import default_backend, load_backend, searched_backends

    if arguments.on is None and arguments.region is not None:
        backends = searched_backends(region=arguments.region)
    else:
        backends = [load_backend(arguments.on or default_backend())]
    stores = [backend.open(region=arguments.region).runs() for backend in backends]
    found = [
        runs.run(record)
        for runs in stores
        for record in list(runs.records())
        if record.has_ended is has_ended
    ]
    for note in (note for runs in stores for note in runs.notes):
        print(f"gpuproof: {note}", file=sys.stderr)
    return found


def add_format_flag(
    parser: argparse.ArgumentParser,
    *others: str,
    aliases: Mapping[str, str] | None = None,
    default: str = "text",
) -> None:
    """Adds --format text|json and its synonym --json.

    Args:
        others: further formats.
        aliases: other names of formats, which `--help` does not show.
    """
    names = ["text", "json", *others]
    parser.add_argument(
        "--format",
        default=default,
        choices=names,
        type=lambda text: (aliases or {}).get(text, text),
        help=f"json is versioned and stable (default: {default})",
    )
    add_json_flag(parser)


def add_json_only_flags(parser: argparse.ArgumentParser) -> None:
    """Adds --format json and --json to a command whose output is always JSON."""
    parser.add_argument("--format", default="json", choices=["json"], help="the output is always json")
    add_json_flag(parser)


def add_json_flag(parser: argparse._ActionsContainer) -> None:  # pyright: ignore[reportPrivateUsage]
    """Adds --json, the synonym of --format json."""
    parser.add_argument(
        "--json", action="store_const", dest="format", const="json", help="the same as --format json"
    )
