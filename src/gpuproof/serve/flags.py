"""The command line of `python gpuproof-agent.pyz serve`; each flag goes before its environment variable."""

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
    """Settings, the model's folder and options that a command line asks for."""
    from gpuproof.serve.frontend.frontend import (
        Options,  # `gpuproof serve` reads the flags too, and needs no event loop
    )

    parser = argparse.ArgumentParser(prog="gpuproof-agent serve", description=__doc__, allow_abbrev=False)
    add_flags(parser)
    parser.add_argument(
        "--model-dir", type=Path, help="the model's folder (default: model in SAGEMAKER_BASE_DIR)"
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
    """The flags that a person types too."""
    parser.add_argument(
        "--host",
        help="address to listen at (default: 127.0.0.1 for `gpuproof serve`, every one in a container)",
    )
    parser.add_argument("--port", type=_of(port), help="port to listen at (default: 8080)")
    parser.add_argument("--workers", type=_of(count), help="predictor processes in all (default: one a GPU)")
    parser.add_argument("--workers-per-gpu", type=_of(count), help="predictor processes a GPU (default: 1)")
    parser.add_argument(
        "--max-batch-size", type=_of(count), help="requests computed together at most (default: 32)"
    )
    parser.add_argument(
        "--timeout", type=_of(seconds), metavar="SECONDS", help="for a whole request (default: 60)"
    )
    parser.add_argument(
        "--warmup",
        metavar="FILE",
        help="a request's body, or a folder of such, to begin with; auto: zeros of the model's shape",
    )
    parser.add_argument("--require-gpu", action="store_true", help="never healthy with a model on the CPU")
    parser.add_argument("--autocast", choices=["bf16", "fp16"], help="mixed precision for PyTorch models")
    parser.add_argument("--compile", action="store_true", help="torch.compile the model")
    parser.add_argument("--cuda-graphs", action="store_true", help="torch.compile with CUDA graphs")
    parser.add_argument("--no-access-log", action="store_true", help="write no line for each request")


def with_flags(settings: Settings, given: argparse.Namespace) -> Settings:
    """Settings as the flags change them."""
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


def _of(read: Callable[[str], _T]) -> Callable[[str], _T]:
    def checked(value: str) -> _T:
        try:
            return read(value)
        except ValueError as error:
            raise argparse.ArgumentTypeError(f"{value!r} is not {error}") from None

    return checked
