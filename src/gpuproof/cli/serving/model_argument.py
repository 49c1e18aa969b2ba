"""The MODEL argument: a path, or a run that produced the model."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from gpuproof.agent.paths import RunPaths
from gpuproof.cli.arguments import add_backend_flags, resolve_run
from gpuproof.errors import GPUproofError, RunNotFound, UsageError

MODEL_HELP = (
    "a folder with code/inference.py, a model.tar.gz, a run's id, a SavedModel, a .keras file, a TorchScript or "
    "torch.export program, or a state dict with --code"
)


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
    """Returns the file or folder for MODEL; downloads a run's model if it is not on this machine.

    Raises:
        UsageError: the file, folder or run does not exist, or the run produced no model.
    """
    text: str = arguments.model
    path = Path(text).expanduser()
    if path.is_dir() and RunPaths(path).run.is_file():
        return _archive_in(RunPaths(path).model_archive, text)
    if path.exists() and not _may_be_a_run(path, text, arguments.code):
        return path
    try:
        run = resolve_run(arguments, text)
    except GPUproofError as error:
        if path.exists():
            return path
        if not isinstance(error, RunNotFound):
            raise
        raise UsageError(
            f"There is no file, folder or run {text}.",
            remedy=f"MODEL is {MODEL_HELP}. `gpuproof ps` lists runs.",
        ) from error
    if path.exists():
        print(f"The folder {text} contains no model; using the run {run.id}.", file=sys.stderr)
    here = next((Path(a.location) for a in run.artifacts() if a.name == "model.tar.gz"), None)
    if here is not None and here.is_file():
        return here
    pulled = run.pull(scratch / "pulled") if here is not None else []
    return _archive_in(next((p for p in pulled if p.name == "model.tar.gz"), scratch / "none"), text)


def _may_be_a_run(path: Path, text: str, code: Path | None) -> bool:
    """Whether an existing folder may not be meant: a run is often named after the folder of its script."""
    from gpuproof.serve.model.archive import holds_model  # not needed for --help

    return code is None and os.sep not in text and path.is_dir() and not holds_model(path)


def _archive_in(archive: Path, name: str) -> Path:
    if archive.is_file():
        return archive
    raise GPUproofError(
        f"The run {name} has no model.tar.gz: its script wrote nothing to SM_MODEL_DIR.",
        remedy="Save the model with gpuproof.runtime.save(model).",
    )
