"""Reads the shell command with which Open MPI starts its daemon on another host.

Open MPI writes it for the shell that ssh would start. It is run without a shell, and only if it is the daemon's.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath

DAEMONS = ("orted", "prted")
"""Names of the daemon in Open MPI 4 and 5."""

# For users whose login shell is sh or ksh, Open MPI has the profile read first.
_PROFILE = re.compile(
    r"^\s*\(\s*test ! -r \./\.profile \|\| \. \./\.profile;(?P<command>.*)\)\s*$", re.DOTALL
)
_ASSIGNMENT = re.compile(r"^(?P<name>[A-Za-z_]\w*)=(?P<value>.*)$", re.DOTALL)
_VARIABLE = re.compile(r"\$(?:\{(\w+)(?::-)?\}|(\w+))")


class NotADaemon(Exception):
    """The command does not start Open MPI's daemon."""


@dataclass(frozen=True)
class DaemonCommand:
    """The daemon's program and arguments, and its environment."""

    command: list[str]
    environment: dict[str, str]


def parse_daemon_command(text: str, environment: Mapping[str, str]) -> DaemonCommand:
    """Parse the command; its assignments are applied to the environment.

    The daemon stays in the foreground, so that its end and its messages are seen.

    Raises:
        NotADaemon: it is another command.
    """
    profile = _PROFILE.match(text)
    values = dict(environment)
    *before, words = _statements(profile["command"] if profile else text)
    for statement in before:
        if statement[:1] == ["export"]:
            continue
        for word in statement:
            assignment = _ASSIGNMENT.match(word)
            if assignment is None:
                raise NotADaemon(text)
            values[assignment["name"]] = _expand(assignment["value"], values)
    if not words or PurePosixPath(words[0]).name not in DAEMONS:
        raise NotADaemon(text)
    return DaemonCommand([word for word in words if word != "--daemonize"], values)


def _statements(text: str) -> list[list[str]]:
    lexer = shlex.shlex(text, posix=True, punctuation_chars=";&|()<>")
    lexer.whitespace_split = True
    lexer.commenters = ""
    statements: list[list[str]] = [[]]
    try:
        for word in lexer:
            if word == ";":
                statements.append([])
            elif word and set(word) <= set(";&|()<>"):
                raise NotADaemon(text)
            else:
                statements[-1].append(word)
    except ValueError as error:  # an open quotation
        raise NotADaemon(text) from error
    return statements


def _expand(value: str, environment: Mapping[str, str]) -> str:
    return _VARIABLE.sub(lambda found: environment.get(found[1] or found[2], ""), value)
