"""`python gpuproof-agent.pyz serve`: settings, signals, the spawner, the exit code."""

from __future__ import annotations

import asyncio
import contextlib
import os
import resource
import signal
import sys
from pathlib import Path

from gpuproof.serve.errors import LoadError
from gpuproof.serve.flags import read_arguments
from gpuproof.serve.frontend.frontend import ENDING, Front, Options, say
from gpuproof.serve.settings import Settings, read_settings
from gpuproof.serve.workers.spawner import Spawner
from gpuproof.serve.workers.warmup import recorded_files
from gpuproof.util.process_tree import die_with_parent

EXIT_PORT = 2


def main(words: list[str]) -> int:
    """`[serve] [--model-dir FOLDER] …`; gives the exit code."""
    while words[:1] == ["serve"]:
        # SageMaker adds its own to the image's entry point.
        words = words[1:]
    try:
        settings, folder, options = read_arguments(words, read_settings(os.environ))
        recorded_files(settings.warmup)
    except LoadError as error:
        return _refused(error)
    try:
        return serve(settings, folder, options)
    finally:
        _let_logs_go()


def serve(settings: Settings, model_dir: Path, options: Options | None = None) -> int:
    """Serve a model until SIGTERM or SIGINT; gives the exit code.

    Args:
        settings: what the environment says.
        model_dir: the model's folder; not used under the multi-model API.
        options: see there.
    """
    chosen = options or Options()
    # From here on: the first process of a container never gets a signal that nobody handles.
    asked: list[int] = []
    for number in ENDING:
        signal.signal(number, lambda number, _frame: asked.append(number))
    if not settings.multi_model:
        # It would load the model again; until that is there, nothing need be done about a change.
        signal.signal(signal.SIGHUP, lambda _number, _frame: None)
    # `gpuproof serve` held them back until somebody handles them.
    signal.pthread_sigmask(signal.SIG_UNBLOCK, (*ENDING, signal.SIGHUP))
    if chosen.with_parent:
        die_with_parent()
    _allow_many_connections()
    # First of all: a fork must find one thread and little memory.
    spawner = Spawner.start()
    front = Front(settings, model_dir, chosen, spawner, os.environ)
    try:
        return asyncio.run(front.run(asked))
    except LoadError as error:
        spawner.close()
        return _refused(error)


def _allow_many_connections() -> None:
    """As many open files as this process may have: each connection is one."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _let_logs_go() -> None:
    """Give up what a full disk does not take: Python would end with 120 over it, however well the server did."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):  # noqa: PERF203 - two streams, once
            # What is left in the buffer goes nowhere.
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1 if stream is sys.stdout else 2)


def _refused(error: LoadError) -> int:
    say(error.message)
    if error.remedy:
        say(error.remedy)
    return EXIT_PORT
