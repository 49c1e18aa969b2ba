"""Serve a model as SageMaker does: GET /ping, POST /invocations, the handler's functions; on a GPU if there is one.

Supports the environment variables of AWS's inference toolkits (SAGEMAKER_PROGRAM, SAGEMAKER_MODEL_SERVER_WORKERS …);
flags take precedence over them. Without MODEL, /opt/ml/model is served on all addresses, as in a container. With
SAGEMAKER_MULTI_MODEL=true, omit MODEL: POST /models loads models. Ctrl-C waits for running requests.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from gpuproof.app.endpoints.model_source import MODEL_HELP
from gpuproof.cli.arguments import add_command
from gpuproof.cli.serving.model_argument import add_model_arguments, resolve_model
from gpuproof.cli.tempdir import temporary_folder
from gpuproof.errors import ExitCode, GPUproofError, UsageError

if TYPE_CHECKING:
    from gpuproof.cli.arguments import Subparsers
    from gpuproof.serve.settings import Settings

_FLAGS = ("host", "port", "workers", "workers_per_gpu", "max_batch_size", "timeout", "warmup", "autocast")
_SWITCHES = ("require_gpu", "compile", "cuda_graphs", "no_access_log")


def add_parser(commands: Subparsers) -> None:
    """Add `gpuproof serve` to the command line."""
    from gpuproof.serve.flags import add_flags  # the flags of the server itself

    parser = add_command(commands, "serve", "serve a model with SageMaker's handler contract", __doc__)
    add_model_arguments(parser, optional=True)
    parser.add_argument(
        "--python", metavar="PY", help="interpreter or virtual environment that runs the handler"
    )
    parser.add_argument("--dev", action="store_true", help="reload the model when its code changes")
    add_flags(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Entry point of `gpuproof serve`."""
    from gpuproof.backends.agent_job.archive import agent_file
    from gpuproof.backends.interpreter import find_interpreter
    from gpuproof.serve.errors import LoadError
    from gpuproof.serve.model.archive import prepare
    from gpuproof.settings import cache_dir

    settings = _read_settings()
    container = _set_container_model(arguments, settings)
    _check_model(arguments, settings)
    python = find_interpreter(arguments.python)
    with temporary_folder("gpuproof-serve-") as scratch:
        model: list[str] = []
        watched: list[Path | None] = []
        if not settings.multi_model:
            try:
                path = resolve_model(arguments, scratch)
                model = ["--model-dir", str(prepare(path, scratch / "model", arguments.code))]
            except LoadError as error:
                raise GPUproofError(error.message, remedy=error.remedy) from error
            if arguments.dev and path.is_file() and arguments.code is None:
                raise UsageError(
                    "--dev watches code, but MODEL is a single file.",
                    remedy="Use a folder with code/, or --code.",
                )
            watched = [path, arguments.code] if arguments.dev else []
        # The server imports from this file until it ends; the cached file may be replaced in the meantime.
        agent = scratch / "gpuproof-agent.pyz"
        agent.write_bytes(agent_file(cache_dir()).read_bytes())
        command = [python, str(agent), "serve", *model, *server_flags(arguments, container=container)]
        return _serve(command, watched)


def _read_settings() -> Settings:
    from gpuproof.serve.errors import LoadError
    from gpuproof.serve.settings import read_settings

    try:
        return read_settings(os.environ)
    except LoadError as error:
        raise UsageError(error.message, remedy=error.remedy) from error


def _set_container_model(arguments: argparse.Namespace, settings: Settings) -> bool:
    """Without MODEL, use the one where SageMaker puts it. Returns whether it, or the folder of models, exists."""
    if arguments.model == "serve" and not Path("serve").exists():
        # SageMaker appends `serve` to the image's entry point.
        arguments.model = None
    folder = Path(settings.base_dir) / ("models" if settings.multi_model else "model")
    if arguments.model is not None or not folder.is_dir():
        return False
    if not settings.multi_model:
        arguments.model = str(folder)
    return True


def _check_model(arguments: argparse.Namespace, settings: Settings) -> None:
    """Raises UsageError if MODEL is missing, or given although models are loaded by the multi-model API."""
    if settings.multi_model and (arguments.model is not None or arguments.code is not None or arguments.dev):
        raise UsageError(
            "SAGEMAKER_MULTI_MODEL is true: models are loaded by POST /models, so MODEL, --code and --dev cannot be "
            "used.",
            remedy="Remove them, or unset SAGEMAKER_MULTI_MODEL to serve one model.",
        )
    if not settings.multi_model and arguments.model is None:
        raise UsageError(
            f"MODEL is missing, and there is no {Path(settings.base_dir) / 'model'}.",
            remedy=f"gpuproof serve MODEL: {MODEL_HELP}.",
        )


def server_flags(arguments: argparse.Namespace, *, container: bool = False) -> list[str]:
    """Returns the command-line flags of the server process.

    Args:
        container: listen on all addresses by default, because SageMaker connects from outside.
    """
    words = ["--with-parent", "--load-once" if arguments.dev else "--leave-on-failure"]
    for name in _FLAGS:
        value = getattr(arguments, name)
        if value is not None:
            words += [f"--{name.replace('_', '-')}", str(value)]
    if arguments.host is None and "GPUPROOF_SERVE_HOST" not in os.environ and not container:
        # On a user's machine, listen only on loopback.
        words += ["--host", "127.0.0.1"]
    words += [f"--{name.replace('_', '-')}" for name in _SWITCHES if getattr(arguments, name)]
    return words


def _serve(command: list[str], watched: list[Path | None]) -> int:
    environment = dict(os.environ)
    if watched:
        # Bytecode caches compare modification times in seconds: a second edit within one second would be missed.
        environment["PYTHONDONTWRITEBYTECODE"] = "1"
    # Blocked in both processes until each has its handlers.
    blocked = {signal.SIGTERM, signal.SIGINT, signal.SIGHUP}
    signal.pthread_sigmask(signal.SIG_BLOCK, blocked)
    process = subprocess.Popen(command, env=environment)
    signal.signal(signal.SIGTERM, lambda number, _frame: process.send_signal(number))
    # The terminal sends SIGINT to the server too.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, blocked)
    if watched:
        from gpuproof.cli.serving.hot_reload import reload_on_change

        reload_on_change(process, [path for path in watched if path is not None])
    code = process.wait()
    if code < 0:
        print(f"gpuproof: the server was killed by {signal.Signals(-code).name}", file=sys.stderr)
        return ExitCode.FAILED
    return code
