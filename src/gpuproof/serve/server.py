"""Entry point of the server: settings, signals, exit code."""

from __future__ import annotations

import asyncio
import contextlib
import os
import resource
import signal
import sys
from pathlib import Path

from gpuproof.gpu.cuda_compat import read_driver_library, with_folder
from gpuproof.serve.errors import LoadError
from gpuproof.serve.flags import read_arguments
from gpuproof.serve.frontend.frontend import STOP_SIGNALS, Frontend, Options, log
from gpuproof.serve.model.warmup import recorded_files
from gpuproof.serve.settings import Settings, read_settings
from gpuproof.serve.workers.spawner import Spawner
from gpuproof.util.process_tree import die_with_parent

EXIT_CANNOT_SERVE = 2


def main(words: list[str]) -> int:
    """Run `[serve] [--model-dir FOLDER] …` and return the exit code."""
    while words[:1] == ["serve"]:
        # SageMaker appends `serve` to the image's entry point.
        words = words[1:]
    try:
        settings, folder, options = read_arguments(words, read_settings(os.environ))
        recorded_files(settings.warmup)
    except LoadError as error:
        return _report(error)
    try:
        return serve(settings, folder, options)
    finally:
        _flush_logs()


def serve(settings: Settings, model_dir: Path, options: Options | None = None) -> int:
    """Serve a model until SIGTERM or SIGINT, and return the exit code."""
    chosen = options or Options()
    # As early as possible: the kernel drops unhandled signals to the first process of a container.
    received: list[int] = []
    for number in STOP_SIGNALS:
        signal.signal(number, lambda number, _frame: received.append(number))
    if not settings.multi_model:
        # SIGHUP reloads the model; before the model is loaded, there is nothing to do.
        signal.signal(signal.SIGHUP, lambda _number, _frame: None)
    # `gpuproof serve` blocks them until they are handled.
    signal.pthread_sigmask(signal.SIG_UNBLOCK, (*STOP_SIGNALS, signal.SIGHUP))
    if chosen.with_parent:
        die_with_parent()
    _allow_many_connections()
    _warn_universal_bucket(settings)
    # Forks, so it must precede threads and large allocations.
    spawner = Spawner.start()
    # The hook that starts this server on SageMaker takes the place of the image's entry point, which would look for it.
    driver = read_driver_library(chosen.root)
    if driver is not None and driver.note is not None:
        log(driver.note)
    environ = with_folder(os.environ, driver.folder if driver is not None else None)
    frontend = Frontend(settings, model_dir, chosen, spawner, environ, driver)
    try:
        return asyncio.run(frontend.run(received))
    except LoadError as error:
        spawner.close()
        return _report(error)


def _warn_universal_bucket(settings: Settings) -> None:
    """AWS's TensorFlow Serving container downloads the shared handler of a multi-model endpoint; this server has no S3 client."""
    name = "SAGEMAKER_MULTI_MODEL_UNIVERSAL_BUCKET"
    code = Path(settings.base_dir) / "models" / "code"
    if settings.multi_model and os.environ.get(name) and not code.is_dir():
        log(f"warning: {name} is ignored; put the handler that all models share into {code}")


def _allow_many_connections() -> None:
    """Raise the limit on open files to its maximum: each connection is one."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _flush_logs() -> None:
    """Flush the logs, and drop what a full disk does not accept: Python would otherwise exit with code 120."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):  # noqa: PERF203 - two streams, once
            # Discards the rest of the buffer.
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1 if stream is sys.stdout else 2)


def _report(error: LoadError) -> int:
    log(error.message)
    if error.remedy:
        log(error.remedy)
    return EXIT_CANNOT_SERVE
