"""Arguments that several commands share."""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Callable, Mapping
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpuproof.cli.help_formatter import HelpFormatter
from gpuproof.errors import UsageError

if TYPE_CHECKING:
    from typing import Protocol, TypeVar

    from gpuproof.backends.api_call import ApiCall
    from gpuproof.backends.base import Run
    from gpuproof.jobs.models.job_model import JobModel

    ModelType = TypeVar("ModelType", bound=JobModel)

    class PlannedCalls(Protocol):
        """A plan whose AWS calls are data; as a text, what was decided."""

        @property
        def calls(self) -> tuple[ApiCall, ...]: ...
        def to_json(self) -> dict[str, Any]: ...

    # argparse has no public name for the type that `add_subparsers` returns.
    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]

_OPTIONS = Path(__file__).with_name("options.json")

RUN_HELP = "a run's id, its beginning or end, or a job's name (default: the newest run)"


def usd(text: str) -> float:
    """Parses the value of an option that limits costs: USD, 0 or more."""
    amount = float(text.removeprefix("$"))
    if not 0 <= amount < math.inf:
        raise ValueError
    return amount


def add_command(
    commands: Subparsers,
    name: str,
    summary: str,
    description: str | None,
    run: Callable[[argparse.Namespace], int] | None = None,
) -> argparse.ArgumentParser:
    """Adds a command's parser, which keeps line breaks of the description and takes no abbreviated flags.

    Args:
        run: what executes the command and returns its exit code, unless the caller sets it itself.
    """
    parser = commands.add_parser(
        name,
        help=summary,
        description=description,
        formatter_class=HelpFormatter,
        allow_abbrev=False,
    )
    if run is not None:
        parser.set_defaults(run=run)
    return parser


def add_flags(
    parser: argparse.ArgumentParser, command: str, *, notes: Mapping[str, str] | None = None
) -> None:
    """Adds the flags that follow from the models of a command. Their values are texts; the models parse them.

    They are read from a generated file, because importing pydantic takes longer than `--help` may.

    Args:
        command: a key of `gpuproof.jobs.options.COMMANDS`.
        notes: by key, what the command itself adds to the help of a flag.
    """
    titles = dict.fromkeys(flag["group"] for flag in _options(command) if "group" in flag)
    groups = {title: parser.add_argument_group(title) for title in titles}
    for flag in _options(command):
        note = (notes or {}).get(flag["key"])
        groups.get(flag.get("group", ""), parser).add_argument(
            *(name for name in (flag.get("short"), flag["flag"]) if name),
            dest=flag["key"],
            help=f"{flag['help']}; {note}" if note else flag["help"],
            **_action(flag),
        )


def given_flags(arguments: argparse.Namespace, command: str) -> dict[str, Any]:
    """Returns the values of the flags of `add_flags` that were given, by key."""
    values = {flag["key"]: getattr(arguments, flag["key"]) for flag in _options(command)}
    return {key: value for key, value in values.items() if value not in (None, [])}


def read_job(
    arguments: argparse.Namespace,
    command: str,
    model: type[ModelType],
    target: str,
    key: str,
    *,
    folders: bool = False,
) -> ModelType:
    """Reads the job that a command's first argument and JOB name, or that its flags alone describe.

    Args:
        command: a key of `gpuproof.jobs.options.COMMANDS`.
        target: the first argument: a job file, or a value.
        key: the field of which it is the value.
        folders: whether a folder is that of a job file.

    Raises:
        UsageError: there is no such job, or a flag is invalid or missing.
        InvalidJob: the job file is invalid.
    """
    from gpuproof.jobs.apply_overrides import override  # imports pydantic, which --help does without
    from gpuproof.jobs.load import load_as

    changes = given_flags(arguments, command)
    path = Path(target)
    if path.suffix in (".yaml", ".yml") or (folders and path.is_dir()):
        return override(model, load_as(path, arguments.job, model), changes)
    if arguments.job is not None:
        raise UsageError(
            f"Unexpected argument '{arguments.job}': {target} is not a gpuproof.yaml.",
            remedy=f"gpuproof {command} gpuproof.yaml {arguments.job}",
        )
    return override(model, None, {key: target, **changes})


def show_dry_run(plan: PlannedCalls, *, as_json: bool) -> None:
    """Prints a plan and its AWS calls."""
    if as_json:
        from gpuproof.backends.aws.unknown_account import with_placeholders  # only for dry runs

        print(json.dumps(with_placeholders(plan.to_json()), indent=2, default=str))
        return
    from gpuproof.backends.api_call import format_calls

    print(plan)
    for title, request in format_calls(plan.calls):
        print(f"\n{title}\n{request}")


@cache
def _options(command: str) -> list[dict[str, Any]]:
    return json.loads(_OPTIONS.read_bytes())[command]


def _action(flag: Mapping[str, Any]) -> dict[str, Any]:
    match flag["form"]:
        case "switch":
            return {"action": argparse.BooleanOptionalAction}
        case "list" | "pairs":
            return {"action": "append", "default": [], "metavar": flag["metavar"]}
        case "integer" | "number" as form:
            return {"type": partial(_number, int if form == "integer" else float), "metavar": flag["metavar"]}
        case _:
            return {"metavar": flag.get("metavar"), "choices": flag.get("choices")}


def _number(kind: type[int] | type[float], text: str) -> float | str:
    """The number; a text that is none, which the model rejects."""
    try:
        return kind(text)
    except ValueError:
        return text


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


def resolve_run(arguments: argparse.Namespace, name: str | None) -> Run:
    """Finds the run that RUN, --on and --region name."""
    from gpuproof.backends import registry  # commands that need no runs start faster without it

    return registry.find_run(name, arguments.on, arguments.region)


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
