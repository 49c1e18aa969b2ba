"""Command line of `python gpuproof-agent.pyz serve`. Flags take precedence over environment variables."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Callable, TypeVar

from gpuproof.serve.settings import Settings, count, port, seconds

if TYPE_CHECKING:
    from gpuproof.serve.frontend.frontend import Options

_T = TypeVar("_T")


def read_arguments(words: list[str], settings: Settings) -> tuple[Settings, Path, Options]:
    """Parse a command line into settings, the model's folder and options."""
    from gpuproof.serve.frontend.frontend import (
        Options,  # `gpuproof serve` has the same flags, but needs no server
    )

    parser = argparse.ArgumentParser(prog="gpuproof-agent serve", description=__doc__, allow_abbrev=False)
    add_flags(parser)
    parser.add_argument(
        "--model-dir", type=Path, help="folder of the model (default: `model` in SAGEMAKER_BASE_DIR)"
    )
    parser.add_argument("--ready-fd", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--with-parent", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--load-once", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--leave-on-failure", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args(words)
    folder = given.model_dir or Path(settings.base_dir) / "model"
    options = Options(
        access_log=not given.no_access_log,
        load_once=given.load_once,
        leave_on_failure=given.leave_on_failure,
        ready_fd=given.ready_fd,
        with_parent=given.with_parent,
    )
    return with_flags(settings, given), folder, options


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags that `gpuproof serve` has, too."""
    parser.add_argument(
        "--host",
        help="address to listen on (default: 127.0.0.1 for `gpuproof serve`, all addresses in a container)",
    )
    parser.add_argument("--port", type=_checked(port), help="port to listen on (default: 8080)")
    parser.add_argument(
        "--workers", type=_checked(count), help="total number of worker processes (default: one per GPU)"
    )
    parser.add_argument(
        "--workers-per-gpu", type=_checked(count), help="worker processes per GPU (default: 1)"
    )
    parser.add_argument(
        "--max-batch-size", type=_checked(count), help="maximum number of requests per batch (default: 32)"
    )
    parser.add_argument(
        "--timeout", type=_checked(seconds), metavar="SECONDS", help="timeout of a request (default: 60)"
    )
    parser.add_argument(
        "--warmup",
        metavar="FILE",
        help="file with the body of a request, or folder of such files, to warm up with; `auto` sends zeros",
    )
    parser.add_argument(
        "--require-gpu", action="store_true", help="stay unhealthy if the model is on the CPU"
    )
    parser.add_argument("--autocast", choices=["bf16", "fp16"], help="mixed precision for PyTorch models")
    parser.add_argument("--compile", action="store_true", help="torch.compile the model")
    parser.add_argument("--cuda-graphs", action="store_true", help="torch.compile with CUDA graphs")
    parser.add_argument("--no-access-log", action="store_true", help="do not log each request")


def with_flags(settings: Settings, given: argparse.Namespace) -> Settings:
    """Apply the flags to settings."""
    named = {
        "host": given.host,
        "port": given.port,
        "workers": given.workers,
        "workers_per_gpu": given.workers_per_gpu,
        "max_batch_size": given.max_batch_size,
        "timeout_s": given.timeout,
        "warmup": given.warmup,
        "autocast": given.autocast,
        "require_gpu": given.require_gpu or None,
        "compile": given.compile or given.cuda_graphs or None,
        "cuda_graphs": given.cuda_graphs or None,
    }
    return replace(settings, **{name: value for name, value in named.items() if value is not None})


def _checked(read: Callable[[str], _T]) -> Callable[[str], _T]:
    def checked(value: str) -> _T:
        try:
            return read(value)
        except ValueError as error:
            raise argparse.ArgumentTypeError(f"{value!r} is not {error}") from None

    return checked
