"""`gpuproof emulator`: starts the distribution gpuproof-emulator, which defines the command's arguments."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from gpuproof.cli.arguments import add_command
from gpuproof.errors import GPUproofError

if TYPE_CHECKING:
    from gpuproof.cli.arguments import Subparsers

_SUMMARY = "emulate AWS on this machine; SageMaker jobs really run"


def add_parser(commands: Subparsers) -> None:
    """Add `gpuproof emulator` to the command line."""
    try:
        from gpuproof_emulator import command_line
    except ModuleNotFoundError as error:
        if error.name != "gpuproof_emulator":
            raise
        # Whatever its arguments are: other commands, such as `gpuproof completion`, need all parsers.
        parser = add_command(commands, "emulator", _SUMMARY, None)
        parser.parse_known_args = _not_installed  # pyright: ignore[reportAttributeAccessIssue]
        return
    command_line.add_arguments(add_command(commands, "emulator", _SUMMARY, command_line.__doc__))


def _not_installed(*_: object) -> NoReturn:
    raise GPUproofError(
        "The emulator is not installed: it is a package of its own.",
        remedy="pip install 'gpuproof[emulator]'",
    )
