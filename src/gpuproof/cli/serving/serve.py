"""Serve a model as SageMaker does: GET /ping, POST /invocations, the handler's own functions, on the GPU if there is one.

The environment variables of AWS's inference toolkits (SAGEMAKER_PROGRAM, SAGEMAKER_MODEL_SERVER_WORKERS …) are heeded;
flags go before them. With SAGEMAKER_MULTI_MODEL=true there is no MODEL: POST /models loads them. Ctrl-C lets running
requests end first.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from gpuproof.cli.arguments import add_command
from gpuproof.cli.serving.model_argument import MODEL_HELP, add_model_arguments, resolve_model
from gpuproof.cli.tempdir import temporary_folder
from gpuproof.errors import ExitCode, GPUproofError, UsageError

if TYPE_CHECKING:
    from gpuproof.cli.arguments import Subparsers

_FLAGS = ("host", "port", "workers", "workers_per_gpu", "max_batch_size", "timeout", "warmup", "autocast")
_SWITCHES = ("require_gpu", "compile", "cuda_graphs", "no_access_log")


def add_parser(commands: Subparsers) -> None:
    """Add `gpuproof serve` to the command line."""
    from gpuproof.serve.flags import add_flags  # the server's own flags, which its file takes too

    parser = add_command(commands, "serve", "serve a model by SageMaker's handler contract", __doc__)
    add_model_arguments(parser, optional=True)
    parser.add_argument(
        "--python", metavar="PY", help="the interpreter, or environment, that runs the handler"
    )
    parser.add_argument("--dev", action="store_true", help="load the model again whenever its code changes")
    add_flags(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Entry point of `gpuproof serve`."""
    from gpuproof.backends.agent_archive import agent_file
    from gpuproof.backends.interpreter import find_interpreter
    from gpuproof.serve.errors import LoadError
    from gpuproof.serve.model.archive import prepare
    from gpuproof.settings import cache_dir

    several = _several(arguments)
    python = find_interpreter(arguments.python)
    with temporary_folder("gpuproof-serve-") as scratch:
        model: list[str] = []
        watched: list[Path | None] = []
        if not several:
            try:
                path = resolve_model(arguments, scratch)
                model = ["--model-dir", str(prepare(path, scratch / "model", arguments.code))]
            except LoadError as error:
                raise GPUproofError(error.message, remedy=error.remedy) from error
            if arguments.dev and path.is_file() and arguments.code is None:
                raise UsageError(
                    "--dev watches code, and MODEL is one file.",
                    remedy="Give the folder with code/, or --code.",
                )
            watched = [path, arguments.code] if arguments.dev else []
        # The server imports from its file until the end: the cache's may be replaced meanwhile.
        agent = scratch / "gpuproof-agent.pyz"
        agent.write_bytes(agent_file(cache_dir()).read_bytes())
        command = [python, str(agent), "serve", *model, *server_flags(arguments)]
        return _serve(command, watched)


def _several(arguments: argparse.Namespace) -> bool:
    """Whether models come and go through the multi-model API. Raises UsageError: MODEL is missing, or one too many."""
    from gpuproof.serve.errors import LoadError
    from gpuproof.serve.settings import read_settings

    try:
        several = read_settings(os.environ).multi_model
    except LoadError as error:
        raise UsageError(error.message, remedy=error.remedy) from error
    if several and (arguments.model is not None or arguments.code is not None or arguments.dev):
        raise UsageError(
            "SAGEMAKER_MULTI_MODEL is true: models are loaded by POST /models, so there is neither MODEL nor --code nor "
            "--dev.",
            remedy="Leave them out, or unset SAGEMAKER_MULTI_MODEL to serve one model.",
        )
    if not several and arguments.model is None:
        raise UsageError("Which model is to be served?", remedy=f"gpuproof serve MODEL: {MODEL_HELP}.")
    return several


def server_flags(arguments: argparse.Namespace) -> list[str]:
    """The command line for the server itself."""
    words = ["--with-parent", "--load-once" if arguments.dev else "--leave-on-failure"]
    for name in _FLAGS:
        value = getattr(arguments, name)
        if value is not None:
            words += [f"--{name.replace('_', '-')}", str(value)]
    if arguments.host is None and "GPUPROOF_SERVE_HOST" not in os.environ:
        # A handler on a laptop is nobody else's business; in a container SageMaker must reach it.
        words += ["--host", "127.0.0.1"]
    words += [f"--{name.replace('_', '-')}" for name in _SWITCHES if getattr(arguments, name)]
    return words


def _serve(command: list[str], watched: list[Path | None]) -> int:
    environment = dict(os.environ)
    if watched:
        # Bytecode knows its source by the second: two edits within one would be one.
        environment["PYTHONDONTWRITEBYTECODE"] = "1"
    # Held back, also from the server, until each of the two handles them.
    held = {signal.SIGTERM, signal.SIGINT, signal.SIGHUP}
    signal.pthread_sigmask(signal.SIG_BLOCK, held)
    process = subprocess.Popen(command, env=environment)
    signal.signal(signal.SIGTERM, lambda number, _frame: process.send_signal(number))
    # The terminal sends it to the server too.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, held)
    if watched:
        from gpuproof.cli.serving.hot_reload import reload_on_change

        reload_on_change(process, [path for path in watched if path is not None])
    code = process.wait()
    if code < 0:
        print(f"gpuproof: the server was killed by {signal.Signals(-code).name}", file=sys.stderr)
        return ExitCode.FAILED
    return code
