"""`--help`: prose fills the terminal, and examples can be pasted."""

from __future__ import annotations

import argparse
import re
from importlib import import_module

import pytest

from gpuproof.cli.help_formatter import HelpFormatter
from gpuproof.cli.main import COMMANDS


@pytest.fixture(autouse=True)
def _narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")


def description(text: str) -> list[str]:
    """The lines of a description, which is wrapped at 58 characters."""
    parser = argparse.ArgumentParser(
        "p", description=text, add_help=False, formatter_class=HelpFormatter, usage="p"
    )
    return parser.format_help().splitlines()[2:]


def test_lines_of_a_paragraph_are_joined_and_filled() -> None:
    assert description("One line of a paragraph that is\nbroken. " + "word " * 10)[0] == (
        "One line of a paragraph that is broken. word word word"
    )


def test_paragraphs_stay_apart() -> None:
    assert description("One.\n\nTwo.") == ["One.", "", "Two."]


def test_an_example_that_fits_is_kept_as_it_is() -> None:
    assert description("Do:\n\n  p --all    everything\n  p one") == [
        "Do:",
        "",
        "  p --all    everything",
        "  p one",
    ]


def test_the_comment_of_a_long_example_goes_below_it() -> None:
    example = "  p --all                       everything that there is in the account"
    assert description(f"Do:\n\n{example}")[2:] == [
        "  p --all",
        "      everything that there is in the account",
    ]


def test_a_long_command_is_continued_with_a_backslash_and_never_within_quotes() -> None:
    example = "  p --first argument --second other --third 'a long value with many words'"
    lines = description(f"Do:\n\n{example}")[2:]
    assert [line.endswith(" \\") for line in lines] == [True, False]
    joined = " ".join(line.removesuffix("\\").strip() for line in lines)
    assert joined == example.strip()
    assert "'a long value with many words'" in lines[-1]


@pytest.mark.parametrize("command", COMMANDS)
def test_each_example_of_a_command_is_on_a_line_of_its_own(command: str) -> None:
    # Lines that are not indented are prose, which is filled.
    text = import_module(f"gpuproof.cli.{COMMANDS[command].module}").__doc__ or ""
    assert not re.findall(rf"^gpuproof {command} .*", text, re.MULTILINE)
