"""Writes `docs/cli.md`: every command and option, from the parsers themselves.

python tools/build_cli_docs.py          # write it
python tools/build_cli_docs.py --check  # exit 1 if it is not current
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Iterator
from importlib import import_module
from pathlib import Path

PAGE = Path(__file__).resolve().parent.parent / "docs" / "cli.md"
HEAD = """# CLI reference

Written by `tools/build_cli_docs.py` from the command line's own parsers. `gpuproof COMMAND --help` prints the same, and so does
`man gpuproof` where the package is installed. `gpuproof completion bash` (or `zsh`, `fish`) prints a completion script from the same
source; `gpuproof completion --help` shows how to load it.

`--json` is a synonym of `--format json` in every command that has a format. `NO_COLOR` turns colours off, `FORCE_COLOR` on.

## JSON output

`--format json` prints one document on standard output, and everything else on standard error.

- `version` is the version of the document's form: within a version, keys are only added. Documents of AWS's own form have none:
  `iam policy --user`, `--role` and `--trust` print a policy that goes straight into a file.
- Times are texts in ISO 8601, in UTC, with milliseconds: `2026-11-26T10:30:00.123Z`. Dates are `2026-11-26`.
- Durations are numbers of seconds, sizes are bytes, amounts are USD; where a key does not end in `_seconds`, `_bytes` or `_usd`, the
  page of the command says so. Unknown values are `null`.
- `run.json` and `verdict.json` in a run's folder are the agent's own files, whose times are seconds since the epoch.

## Exit codes

| exit code | meaning |
|---|---|
"""


def main() -> int:
    """Write, or with --check compare."""
    return write_or_check(PAGE, page(), __doc__)


def write_or_check(file: Path, text: str, description: str | None) -> int:
    """Write a generated file if it is not current; with `--check` on the command line, change nothing and return 1."""
    parser = argparse.ArgumentParser(description=(description or "").partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="change nothing; exit 1 if it is not current")
    check = parser.parse_args().check
    if file.exists() and file.read_text(encoding="utf-8") == text:
        return 0
    print(f"{'not current' if check else 'written'}: {file.name}")
    if not check:
        file.write_text(text, encoding="utf-8")
    return int(check)


def page() -> str:
    """The whole page, the same on every version of Python."""
    from gpuproof.cli.assistants.guide import EXIT_CODES
    from gpuproof.cli.main import COMMANDS

    root = argparse.ArgumentParser(prog="gpuproof")
    commands = root.add_subparsers()
    for command in COMMANDS.values():
        import_module(f"gpuproof.cli.{command.module}").add_parser(commands)
    sections = [
        line for name, parser in commands.choices.items() for line in section(f"gpuproof {name}", parser)
    ]
    codes = "".join(f"| {code} | {meaning} |\n" for code, meaning in EXIT_CODES.items())
    return "\n".join([HEAD + codes, *sections]).rstrip() + "\n"


def section(name: str, parser: argparse.ArgumentParser) -> Iterator[str]:
    """A command's heading, description and tables, and those of its own commands."""
    yield f"## {name}\n"
    yield f"{(parser.description or '').strip()}\n"
    # argparse has no public list of a parser's arguments.
    for group in parser._action_groups:  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
        actions = [action for action in group._group_actions if action.help != argparse.SUPPRESS]  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
        children = [action for action in actions if isinstance(action, argparse._SubParsersAction)]  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
        rows = [row(action) for action in actions if action not in children and action.dest != "help"]
        if rows:
            title = {"positional arguments": "argument", "options": "option"}.get(
                group.title or "", group.title
            )
            yield from (f"| {title} | |", "|---|---|", *rows, "")
        for child in children:
            for child_name, child_parser in child.choices.items():
                yield from section(f"{name} {child_name}", child_parser)
    if parser.epilog:
        yield f"```text\n{parser.epilog.strip()}\n```\n"


def row(action: argparse.Action) -> str:
    """One argument as a row: how it is written, and its help."""
    value = metavar(action)
    names = list(action.option_strings) or [value]
    takes_value = action.option_strings and action.nargs != 0
    written = ", ".join(f"`{name}{f' {value}' if takes_value else ''}`" for name in names)
    return f"| {written} | {(action.help or '').replace('|', chr(92) + '|')} |"


def metavar(action: argparse.Action) -> str:
    """The name of an argument's value."""
    if isinstance(action.metavar, str):
        return action.metavar
    choices: Iterable[object] | None = action.choices
    return "{" + ",".join(map(str, choices)) + "}" if choices else action.dest.upper()


if __name__ == "__main__":
    sys.exit(main())
