"""Print the guide for coding assistants as a skill (SKILL.md).

  mkdir -p skills/gpuproof && gpuproof skill > skills/gpuproof/SKILL.md

The folder in which an assistant looks for skills is in its own documentation.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from gpuproof.cli.arguments import add_command
from gpuproof.errors import ExitCode

if TYPE_CHECKING:
    from gpuproof.cli.arguments import Subparsers


def add_parser(commands: Subparsers) -> None:
    """Add `gpuproof skill` to the command line."""
    add_command(commands, "skill", "print a guide to GPUproof for coding assistants (SKILL.md)", __doc__, run)


def run(arguments: argparse.Namespace) -> int:  # noqa: ARG001 - it has none
    """Entry point of `gpuproof skill`."""
    from gpuproof.cli.assistants.guide import skill  # imports every command's parser

    print(skill(), end="")
    return ExitCode.OK
