"""Turns a MODEL argument into a model folder. Does not load or execute anything of the model."""

from __future__ import annotations

import os
from pathlib import Path

from gpuproof.agent.artifacts.archive_create import ArtifactError
from gpuproof.agent.artifacts.archive_extract import unpack
from gpuproof.serve.errors import LoadError
from gpuproof.serve.frameworks import tensorflow_files, torch_files
from gpuproof.serve.model.discovery import CODE, REQUIREMENTS, find_handler
from gpuproof.serve.settings import read_settings

ARCHIVES = (".tar.gz", ".tgz", ".tar")
ARCHIVE = "model.tar.gz"
_FORMATS = (
    "a folder with code/inference.py, a model.tar.gz, a SavedModel, a .keras or .h5 file, a TorchScript or torch.export "
    "program, or a state dict together with the code that loads it"
)


def prepare(model: Path, scratch: Path, code: Path | None = None, requirements: Path | None = None) -> Path:
    """Prepare the folder to serve, with the content of `/opt/ml/model`.

    Args:
        model: a folder, an archive or a model file.
        scratch: an empty folder for unpacked archives and links; must exist as long as the server runs.
        code: a handler: its file, or the folder that becomes `code/`. Takes precedence over the model's `code/`.
        requirements: a `requirements.txt` for `code/`. Takes precedence over the one in the code.

    Raises:
        LoadError: it is none of these; the message lists what was searched for.
    """
    try:
        return _prepared(model, scratch, code, requirements)
    except OSError as error:
        raise LoadError.of(error) from error


def holds_model(folder: Path) -> bool:
    """Whether a folder contains a model that can be served."""
    return _archive_in(folder) is not None or _is_model(folder)


def _prepared(model: Path, scratch: Path, code: Path | None, requirements: Path | None) -> Path:
    if not model.exists():
        raise LoadError(f"{model} does not exist.", remedy=f"MODEL can be {_FORMATS}.")
    if model.is_file():
        folder = _unpacked(model, scratch) if _is_archive(model) else _folder_for_file(model, scratch, code)
    else:
        folder = _model_folder(model, scratch, code)
    if code is None and requirements is None:
        return folder
    return _with_code(folder, scratch / "with-code", code, requirements)


def describe(folder: Path) -> str:
    """Short description of a model folder: `handler code/inference.py`, `SavedModel 1`, `model.keras`."""
    handler = next(
        (path for path in (folder / CODE / "inference.py", folder / "inference.py") if path.is_file()), None
    )
    if handler is not None:
        return f"handler {handler.relative_to(folder)}"
    for path in torch_files.model_files(folder):
        kind = torch_files.kind_of_file(path)
        if kind != torch_files.OTHER:
            return f"{path.name}, {kind}"
    path = tensorflow_files.choose_model(folder)
    if path is None:
        return "no known model"
    return f"SavedModel {path.relative_to(folder)}" if path.is_dir() else path.name


def _is_archive(path: Path) -> bool:
    return path.name.endswith(ARCHIVES)


def _unpacked(archive: Path, scratch: Path) -> Path:
    folder = scratch / "model"
    try:
        unpack(archive, folder)
    except ArtifactError as error:
        raise LoadError(str(error)) from error
    inner = [path for path in folder.iterdir() if not path.name.startswith(".")]
    if not inner:
        raise LoadError(f"{archive} is empty.")
    # `tar czf model.tar.gz model/` puts everything one folder deeper than SageMaker expects.
    if len(inner) != 1 or not inner[0].is_dir() or inner[0].name == CODE:
        return folder
    deeper = (inner[0] / CODE).is_dir() or (not _is_model(folder) and _is_model(inner[0]))
    return inner[0] if deeper else folder


def _model_folder(folder: Path, scratch: Path, code: Path | None) -> Path:
    if code is not None or _is_model(folder):
        return folder
    archive = _archive_in(folder)
    if archive is not None:
        return _unpacked(archive, scratch)
    names = ", ".join(sorted(path.name for path in folder.iterdir())[:10]) or "nothing"
    raise LoadError(
        f"{folder} contains no model: no {CODE}/inference.py or inference.py, no {tensorflow_files.SAVED_MODEL}, "
        f".keras, .h5, .pt, .pth or .pt2, and no {ARCHIVE}. It contains {names}.",
        remedy=f"MODEL can be {_FORMATS}.",
    )


def _archive_in(folder: Path) -> Path | None:
    places = (folder / ARCHIVE, folder / "artifacts" / ARCHIVE)
    return next((path for path in places if path.is_file()), None)


def _is_model(folder: Path) -> bool:
    if _has_handler(folder) or (folder / "model.json").is_file() or torch_files.model_files(folder):
        return True
    if tensorflow_files.saved_models(folder):
        return True
    return any(path.suffix in tensorflow_files.KERAS_SUFFIXES for path in folder.iterdir())


def _has_handler(folder: Path) -> bool:
    """Whether there is a handler: any Python file in `code/`, but in the model folder only one with the handler's name."""
    if any((folder / CODE).glob("*.py")):
        return True
    try:
        return find_handler(folder, read_settings(os.environ)).file is not None
    except LoadError:
        return False


def _folder_for_file(file: Path, scratch: Path, code: Path | None) -> Path:
    """A folder with a link to a single model file."""
    if file.suffix not in (*torch_files.SUFFIXES, *tensorflow_files.KERAS_SUFFIXES) and code is None:
        hint = (
            " It is part of a SavedModel: pass that folder."
            if file.name == tensorflow_files.SAVED_MODEL
            else ""
        )
        raise LoadError(f"{file} is not a known model file.{hint}", remedy=f"MODEL can be {_FORMATS}.")
    if (
        code is None
        and torch_files.kind_of_file(file) == torch_files.PICKLED
        and file.suffix in torch_files.SUFFIXES
    ):
        raise LoadError(
            f"{file} is {torch_files.PICKLED}. It does not contain the network of its weights, and GPUproof does not "
            "execute pickles.",
            remedy="Pass code with a model_fn that loads it: --code inference.py",
        )
    folder = scratch / "model"
    folder.mkdir(parents=True, exist_ok=True)
    _link(file, folder / file.name)
    return folder


def _with_code(folder: Path, target: Path, code: Path | None, requirements: Path | None) -> Path:
    """Combine a model with other code by links, without changing either."""
    target.mkdir(parents=True, exist_ok=True)
    for path in folder.iterdir():
        if path.name != CODE:
            _link(path, target / path.name)
    source = code if code is not None else folder / CODE
    if not source.exists() and code is not None:
        raise LoadError(f"{code} does not exist.", remedy="--code takes inference.py or its folder.")
    inside = target / CODE
    inside.mkdir(exist_ok=True)
    if source.is_file():
        _link(source, inside / "inference.py")
    elif source.is_dir():
        for path in source.iterdir():
            if path.name not in ("__pycache__", ".git"):
                _link(path, inside / path.name)
    if requirements is not None:
        if not requirements.is_file():
            raise LoadError(f"{requirements} does not exist.")
        (inside / REQUIREMENTS).unlink(missing_ok=True)
        _link(requirements, inside / REQUIREMENTS)
    return target


def _link(source: Path, link: Path) -> None:
    link.symlink_to(os.path.abspath(source))  # noqa: PTH100 - does not resolve links
