"""Sandbox for tests of the command line: a project folder, a home folder, and `gpuproof` commands."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from support.python_processes import run_gpuproof, suits_command

GPUPROOF = [sys.executable, "-m", "gpuproof"]
_TIMEOUT_S = 300.0
"""Timeout of a command; a busy machine can be ten times as slow as an idle one."""


@dataclass
class CliSandbox:
    """A home and a project folder in which `gpuproof` commands run.

    Args:
        home: HOME of the commands.
        project: their working directory.
        environment: additional environment variables.
    """

    home: Path
    project: Path
    environment: dict[str, str] = field(default_factory=dict)

    def write(self, name: str, content: str) -> Path:
        path = self.project / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
        return path

    def gpuproof(self, *words: str | Path, **options: Any) -> subprocess.CompletedProcess[str]:
        """Runs `gpuproof` and waits for it.

        Args:
            options: of `subprocess.run`; without any, the command is a fork of a process that has imported it.
        """
        command, environment = [str(word) for word in words], self._environment()
        if not options and suits_command(environment):
            done = run_gpuproof(command, cwd=self.project, env=environment, timeout=_TIMEOUT_S)
        else:
            done = subprocess.run(
                [*GPUPROOF, *command],
                cwd=self.project,
                env=environment,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=_TIMEOUT_S,
                **options,
            )
        _show(words, done.returncode, done.stdout, done.stderr)
        return done

    def start(self, *words: str | Path) -> subprocess.Popen[str]:
        """Starts `gpuproof` in the background."""
        return _ShownProcess(
            [*GPUPROOF, *map(str, words)],
            cwd=self.project,
            env=self._environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
        )

    def run_json(self, *words: str | Path) -> dict[str, Any]:
        """Runs `gpuproof run … --format json` and parses its output."""
        done = self.gpuproof("run", *_with_format(words))
        assert done.stdout, done.stderr
        return json.loads(done.stdout)

    def detached(self, *words: str | Path) -> Path:
        """Runs `gpuproof run … --detach` and returns the run's folder."""
        done = self.gpuproof("run", "--detach", *_with_format(words))
        assert done.returncode == 0, done.stderr
        return Path(json.loads(done.stdout)["folder"])

    @property
    def runs(self) -> Path:
        return self.home / ".local" / "state" / "gpuproof" / "runs"

    def newest(self) -> Path:
        """Folder of the newest run."""
        return max((path for path in self.runs.iterdir()), key=lambda path: path.stat().st_mtime)

    def state(self, folder: Path) -> dict[str, Any]:
        return json.loads((folder / "run.json").read_text())

    def _environment(self) -> dict[str, str]:
        keep = {"PATH", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "PIP_FIND_LINKS", "TMPDIR"}
        inherited = {name: value for name, value in os.environ.items() if name in keep}
        # Two frameworks at once with one thread per core each mostly wait for each other.
        threads = {"OMP_NUM_THREADS": "1", "TF_NUM_INTRAOP_THREADS": "1", "TF_NUM_INTEROP_THREADS": "1"}
        return {**inherited, **threads, "HOME": str(self.home), **self.environment}


class _ShownProcess(subprocess.Popen[str]):
    """A process whose output pytest shows if the test fails."""

    def communicate(self, *arguments: Any, **options: Any) -> tuple[str, str]:
        output, errors = super().communicate(*arguments, **options)
        _show(self.args[len(GPUPROOF) :], self.returncode, output, errors)  # type: ignore[index]
        return output, errors


def _show(words: Collection[str | Path], code: int, output: str, errors: str) -> None:
    print(f"$ gpuproof {' '.join(map(str, words))}\n{output}{errors}exit code {code}")


def until(condition: Callable[[], Any], what: str, seconds: float = 300.0) -> Any:
    """Waits until the condition returns a true value, and returns it; fails the test after `seconds`, sized for slow machines."""
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        if time.monotonic() > deadline:
            pytest.fail(f"{what} did not happen within {seconds:g} s")
        time.sleep(0.02)
    return value


def is_ready(folder: Path) -> bool:
    """Returns whether the script of a run in this folder has printed `ready`."""
    log = folder / "logs" / "algo-1.log"
    return log.exists() and b"ready" in log.read_bytes()


def nothing_new_in_opt(before: Collection[str]) -> None:
    """Waits until the host's `/opt` has no new entries: proot creates a folder there while it runs."""
    until(lambda: {*os.listdir("/opt")} <= {*before}, "the end of what is new in /opt")


def gone(pid: int, seconds: float = 300.0) -> bool:
    """Returns whether a process ends within that time."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([descriptor], [], [], seconds)[0])
    finally:
        os.close(descriptor)


def _with_format(words: tuple[str | Path, ...]) -> list[str | Path]:
    """Inserts `--format json` before the script's own arguments."""
    end = words.index("--") if "--" in words else len(words)
    return [*words[:end], "--format", "json", *words[end:]]
