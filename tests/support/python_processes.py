"""Starts Python programs with their imports done already, where a new interpreter would make no difference."""

from __future__ import annotations

import functools
import os
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Literal, cast

from support.fork_server import ORIGINAL_ENVIRONMENT, ForkedProcess, ForkServer, suits

Framework = Literal["torch", "tensorflow"]

_HERE = Path(__file__).parent


def start_python(
    arguments: Sequence[str],
    imported: Framework | None,
    *,
    cwd: str | Path,
    env: Mapping[str, str],
    streams: tuple[int, int, int],
    python: str = sys.executable,
) -> subprocess.Popen[bytes] | ForkedProcess:
    """Start `python ARGUMENTS…` in a session of its own.

    Args:
        imported: what the program may find imported; None for a new interpreter.
        streams: descriptors of its standard input, output and error.
    """
    if imported is not None and suits(python, env):
        return _server(imported).popen(arguments, cwd=cwd, env=env, streams=streams)
    stdin, stdout, stderr = streams
    return subprocess.Popen(
        [python, *arguments],
        cwd=cwd,
        env=env,
        stdin=stdin,
        stdout=stdout,
        stderr=stderr,
        start_new_session=True,
    )


def run_gpuproof(
    words: Sequence[str], *, cwd: Path, env: Mapping[str, str], timeout: float
) -> subprocess.CompletedProcess[str]:
    """Run `python -m gpuproof WORDS…` in a session of its own with its modules imported already; as `subprocess.run` with pipes.

    Raises:
        subprocess.TimeoutExpired: it ran too long, and was killed.
    """
    command = ["-m", "gpuproof", *words]
    outputs = [os.pipe(), os.pipe()]
    with open(os.devnull, "rb") as nothing:
        process = _command_server().popen(
            command, cwd=cwd, env=env, streams=(nothing.fileno(), outputs[0][1], outputs[1][1])
        )
    texts = ["", ""]
    readers: list[threading.Thread] = []
    for number, (source, sink) in enumerate(outputs):
        os.close(sink)
        readers.append(threading.Thread(target=_read, args=(source, texts, number)))
        readers[-1].start()
    try:
        code = process.wait(timeout)
    except subprocess.TimeoutExpired:
        process.kill()
        raise
    finally:
        for reader in readers:
            reader.join(timeout)  # as long as something that the command started has its streams
    return subprocess.CompletedProcess([sys.executable, *command], code, *texts)


def spawn_emulator(
    options: Sequence[str], environment: Mapping[str, str], log: IO[bytes]
) -> subprocess.Popen[str]:
    """Start `python -m gpuproof_emulator OPTIONS…`; its standard output is a pipe. It ends at the latest with all tests."""
    output, sink = os.pipe()
    with open(os.devnull, "rb") as nothing:
        process = _emulator_server().popen(
            ["-m", "gpuproof_emulator", *options],
            cwd=Path.cwd(),
            env=environment,
            streams=(nothing.fileno(), sink, log.fileno()),
        )
    os.close(sink)
    process.stdout = open(output)  # noqa: SIM115 - `end_emulator` closes it
    return cast("subprocess.Popen[str]", process)


def _read(source: int, texts: list[str], number: int) -> None:
    with open(source, errors="replace") as stream:
        texts[number] = stream.read()


def suits_command(environment: Mapping[str, str]) -> bool:
    """Whether a command with this environment can be a fork: nothing differs that Python itself reads when it starts."""
    read_at_start = ("PYTHON", "LC_", "LANG", "LD_", "MALLOC_")
    changed = {
        name
        for name in environment.keys() | ORIGINAL_ENVIRONMENT.keys()
        if environment.get(name) != ORIGINAL_ENVIRONMENT.get(name) and name.startswith(read_at_start)
    }
    return hasattr(os, "pidfd_open") and changed <= {"PYTHONUNBUFFERED", "PYTHONDONTWRITEBYTECODE"}


@functools.cache
def _command_server() -> ForkServer:
    """The server whose processes have imported what commands import."""
    return ForkServer("gpuproof", str(_HERE / "warm_command.py"))


@functools.cache
def _emulator_server() -> ForkServer:
    """The server whose processes have imported what the emulator imports."""
    return ForkServer("emulator", str(_HERE / "warm_emulator.py"))


@functools.cache
def _server(framework: Framework) -> ForkServer:
    """The server whose processes have imported the framework, and what the tracer imports before a script runs."""
    names = {
        "torch": ("gpuproof.trace.pytorch.session", "torch._dynamo"),
        "tensorflow": ("gpuproof.trace.tensorflow.session",),
    }
    return ForkServer(framework, "gpuproof.trace.main", *names[framework])
