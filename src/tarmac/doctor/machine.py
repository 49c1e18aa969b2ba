"""The machine as the checks see it: one object that can stand for this machine or for a folder of readings."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from tarmac.catalogue import Catalogue


@dataclass(frozen=True)
class Said:
    """What a program said.

    Args:
        code: its exit code; `None` where it is not there or did not end in time.
        output: its standard output.
        error: its standard error, or why it could not be asked.
    """

    code: int | None
    output: str = ""
    error: str = ""


@dataclass(frozen=True)
class Machine:
    """Where to look.

    Args:
        root: the folder that holds `/proc`, `/sys` and `/dev`; another than `/` in tests.
        environment: the environment variables that a job would get.
        python: the user's interpreter.
        instance_type: what the user says this machine is, such as `g5.xlarge`; `None` to ask the machine.
        full: measure bandwidth and compute rates too.
    """

    root: Path = Path("/")
    environment: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    python: str = sys.executable
    instance_type: str | None = None
    full: bool = False

    @cached_property
    def catalogue(self) -> Catalogue:
        """The facts about GPUs, drivers and frameworks."""
        return Catalogue.load()

    def path(self, name: str) -> Path:
        """A path of the machine, such as `/proc/driver/nvidia/version`, below the root."""
        return self.root / name.lstrip("/")

    def text(self, name: str) -> str | None:
        """The content of a small file; `None` where it cannot be read."""
        try:
            return self.path(name).read_text(encoding="utf-8", errors="replace")
        except OSError:
            return None

    def run(self, *command: str, seconds: float = 30.0) -> Said:
        """Ask a program; it gets the machine's environment and no input. Never raises."""
        program = shutil.which(command[0], path=self.environment.get("PATH"))
        if program is None:
            return Said(None, error=f"{command[0]} is not installed")
        try:
            done = subprocess.run(
                [program, *command[1:]],
                env=dict(self.environment),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=seconds,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return Said(None, error=f"{command[0]} did not answer within {seconds:g} s")
        except OSError as error:
            return Said(None, error=f"{command[0]} could not be started: {error.strerror}")
        return Said(done.returncode, done.stdout, done.stderr)
