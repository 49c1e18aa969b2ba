"""The parser of the command line: errors name the misspelt option and suggest the nearest known word."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable
from typing import Any, NoReturn

from gpuproof.errors import UsageError


class Parser(argparse.ArgumentParser):
    """An argument parser that raises UsageError, with a suggestion, where argparse prints its usage and exits."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **{"allow_abbrev": False, **options})
        self.words: list[str] = []
        """The words that are being parsed, for error messages."""

    def parse_known_args(  # pyright: ignore[reportIncompatibleMethodOverride] - it has overloads
        self, args: Any = None, namespace: Any = None
    ) -> Any:
        """Notes the words and parses them."""
        self.words = list(args or ())
        return super().parse_known_args(args, namespace)

    @property
    def options(self) -> dict[str, argparse.Action]:
        """Its options by name; argparse has no public list of them."""
        return self._option_string_actions

    @property
    def arguments(self) -> list[argparse.Action]:
        """All its arguments and options; argparse has no public list of them."""
        return self._actions

    @property
    def subcommands(self) -> dict[str, Parser]:
        """The parsers of its own commands, by name."""
        choices: dict[str, Parser] = {}
        for action in self._actions:
            if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
                choices |= action.choices  # pyright: ignore[reportUnknownMemberType]
        return choices

    def error(self, message: str) -> NoReturn:
        """Raises UsageError. A misspelt option is the likelier mistake than what else argparse complains about."""
        if (word := self.unknown_option()) is not None:
            raise unknown_argument(self, word)
        raise UsageError(f"{self.prog}: {message}.", remedy=f"{self.prog} --help")

    def unknown_option(self) -> str | None:
        """The first option among the words that the command does not have."""
        known = self.options
        for word in self.words:
            name = word.partition("=")[0]
            if not word.startswith("-") or word == "-" or self._negative_number_matcher.match(word):
                continue
            if name not in known and (word.startswith("--") or word[:2] not in known):
                return word
        return None

    def _print_message(self, message: str, file: Any = None) -> None:
        # argparse ignores errors of writing; a full disk must not look like success.
        stream = file or sys.stderr
        stream.write(message)
        stream.flush()

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is None or value in action.choices:
            return
        choices = [str(choice) for choice in action.choices]
        near = nearest(str(value), choices)
        what = "/".join(action.option_strings) or str(action.metavar or action.dest)
        raise UsageError(
            f"{self.prog}: '{value}' is not a value of {what}.",
            remedy=f"Did you mean {near}?" if near else f"Choose from: {', '.join(choices)}.",
        )


def unknown_argument(parser: Parser, word: str) -> UsageError:
    """The error for an option or a further argument that a command does not accept."""
    parser = _innermost(parser)
    near = None
    if word.startswith("-"):
        visible = {
            name: action for name, action in parser.options.items() if action.help != argparse.SUPPRESS
        }
        near = nearest(word.partition("=")[0], visible, cutoff=0.7)
    hints = [f"Did you mean {near}?"] if near else []
    if parser.prog == "gpuproof run":
        hints.append("Write the script's own arguments after --, as in: gpuproof run train.py -- --epochs 5")
    return UsageError(
        f"`{parser.prog}` does not accept the argument {word}.",
        remedy=" ".join(hints) or f"{parser.prog} --help",
    )


def _innermost(parser: Parser) -> Parser:
    """The parser of the command's own command, if the words name one: `refresh` of `gpuproof catalogue refresh`."""
    named = next((word for word in parser.words if word in parser.subcommands), None)
    return _innermost(parser.subcommands[named]) if named else parser


def nearest(word: str, known: Iterable[str], cutoff: float = 0.6) -> str | None:
    """The nearest known word; None if no word is near."""
    from gpuproof.util.spelling import nearest_words  # needed for mistyped words only

    return next(iter(nearest_words(word, list(known), cutoff=cutoff)), None)
