"""Finds the handler and its requirements in a model folder. Reads only file names, imports nothing."""

from __future__ import annotations

import os
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from gpuproof.serve.errors import LoadError
from gpuproof.serve.settings import Settings

CODE = "code"
LIB = "lib"
"""Folder in `code/` with packages, as in AWS's TensorFlow Serving container."""
REQUIREMENTS = "requirements.txt"


@dataclass(frozen=True)
class HandlerLocation:
    """Location of the handler.

    Args:
        file: its file; `None` if there is none and the defaults apply.
        paths: folders to prepend to `sys.path`, in this order.
        requirements: the handler's `requirements.txt`, if there is one.
    """

    file: Path | None
    module: str
    paths: tuple[Path, ...]
    requirements: Path | None
    searched: tuple[Path, ...]


def find_handler(folder: Path, settings: Settings) -> HandlerLocation:
    """Search where AWS's toolkits search: the submitted folder, `code/`, the model folder, and `models/code/`.

    Sources: sagemaker_inference/environment.py and model_server.py (`PYTHONPATH` begins with `code/`), TorchServe's
    model_service (the model's folder is on `sys.path`), the README of sagemaker-tensorflow-serving-container (`code/lib`,
    and the handler that all models of a multi-model endpoint share).

    Raises:
        LoadError: `SAGEMAKER_PROGRAM` names a file that is in none of these folders.
    """
    program = settings.program
    program = program[: -len(".py")] if program.endswith(".py") else program.replace(".", "/")
    folders = _folders(folder, settings)
    searched = tuple(path / f"{program}.py" for path in folders)
    file = next((path for path in searched if path.is_file()), None)
    if file is None and settings.program not in ("inference.py", "inference"):
        raise LoadError(
            f"SAGEMAKER_PROGRAM is {settings.program!r}, which does not exist; searched for "
            f"{', '.join(map(str, searched))}.",
            remedy="Add it to the model's code/ folder, or set SAGEMAKER_PROGRAM to an existing file.",
        )
    there = [path for path in folders if path.is_dir()]
    requirements = next((path / REQUIREMENTS for path in there if (path / REQUIREMENTS).is_file()), None)
    paths = tuple(chain.from_iterable(_with_lib(path) for path in there))
    return HandlerLocation(file, Path(program).name, _own_folder_first(file, paths), requirements, searched)


def _folders(folder: Path, settings: Settings) -> list[Path]:
    folders = [folder / CODE, folder]
    submitted = settings.submit_directory
    # On SageMaker it is often an archive on S3, which the platform extracts to code/.
    if submitted and "://" not in submitted and Path(submitted).is_dir():
        folders.insert(0, Path(submitted))
    program = Path(settings.program)
    if program.is_absolute():
        folders.insert(0, program.parent)
    if settings.multi_model:
        folders.append(Path(settings.base_dir) / "models" / CODE)
    return list(dict.fromkeys(Path(os.path.abspath(path)) for path in folders))  # noqa: PTH100 - links stay


def _with_lib(folder: Path) -> list[Path]:
    lib = folder / LIB
    return [folder, lib] if folder.name == CODE and lib.is_dir() else [folder]


def _own_folder_first(file: Path | None, paths: tuple[Path, ...]) -> tuple[Path, ...]:
    """Put the handler's own folder first, because it imports modules from there."""
    return paths if file is None else tuple(dict.fromkeys((file.parent, *paths)))
