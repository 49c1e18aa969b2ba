"""The MODEL argument: a path, or a run that produced the model."""

from __future__ import annotations

import argparse
from pathlib import Path

from gpuproof.app.endpoints import model_source
from gpuproof.app.endpoints.model_source import MODEL_HELP
from gpuproof.cli.arguments import add_backend_flags


def add_model_arguments(parser: argparse.ArgumentParser, *, optional: bool = False) -> None:
    """Adds MODEL, --code, and the flags that say where to look for a run."""
    parser.add_argument("model", metavar="MODEL", nargs="?" if optional else None, help=MODEL_HELP)
    parser.add_argument(
        "--code",
        type=Path,
        metavar="PATH",
        help="the handler: inference.py, or the folder that becomes code/",
    )
    add_backend_flags(parser)


def resolve_model(arguments: argparse.Namespace, scratch: Path) -> Path:
    """The file or folder that the arguments name; see `gpuproof.app.endpoints.model_source.resolve_model`."""
    return model_source.resolve_model(
        arguments.model, scratch, code=arguments.code, on=arguments.on, region=arguments.region
    )
