"""MODEL on the command line: a path, or a run whose model it is."""

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
    """MODEL, the code that goes with it, and where to look for a run."""
    parser.add_argument("model", metavar="MODEL", nargs="?" if optional else None, help=MODEL_HELP)
    parser.add_argument(
        "--code",
        type=Path,
        metavar="PATH",
        help="the handler: inference.py, or the folder that becomes code/",
    )
    add_backend_flags(parser)


def resolve_model(arguments: argparse.Namespace, scratch: Path) -> Path:
    """The file or folder that MODEL means; a run's model is brought here if it lies elsewhere.

    Raises:
        UsageError: there is no such file, folder or run, or the run left no model.
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
            f"There is neither a file or folder {text} nor a run of that name.",
            remedy=f"MODEL is {MODEL_HELP}. `gpuproof ps` lists runs.",
        ) from error
    if path.exists():
        print(f"The folder {text} holds no model; this is the run {run.id}.", file=sys.stderr)
    here = next((Path(a.location) for a in run.artifacts() if a.name == "model.tar.gz"), None)
    if here is not None and here.is_file():
        return here
    pulled = run.pull(scratch / "pulled") if here is not None else []
    return _archive_in(next((p for p in pulled if p.name == "model.tar.gz"), scratch / "none"), text)


def _may_be_a_run(path: Path, text: str, code: Path | None) -> bool:
    """Whether a folder that is there is not what is meant: a run is often called like the folder of its script."""
    from gpuproof.serve.model.archive import holds_model  # `--help` needs nothing of it

    return code is None and os.sep not in text and path.is_dir() and not holds_model(path)


def _archive_in(archive: Path, name: str) -> Path:
    if archive.is_file():
        return archive
    raise GPUproofError(
        f"The run {name} left no model.tar.gz: its script wrote nothing into SM_MODEL_DIR.",
        remedy="gpuproof.runtime.save(model) writes there, in the form that serving expects.",
    )
