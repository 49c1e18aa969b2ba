"""Which file of a model's folder is the handler, and what else lies there. Reads names, imports nothing."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from gpuproof.serve.errors import LoadError
from gpuproof.serve.settings import Settings

CODE = "code"
REQUIREMENTS = "requirements.txt"


@dataclass(frozen=True)
class Found:
    """Where the handler is.

    Args:
        file: its file; `None` where there is none and the defaults serve.
        module: the name to import it by.
        paths: what goes to the front of `sys.path`, in this order.
        requirements: the handler's `requirements.txt`, where there is one.
        looked: the places that were looked at.
    """

    file: Path | None
    module: str
    paths: tuple[Path, ...]
    requirements: Path | None
    looked: tuple[Path, ...]


def find_handler(folder: Path, settings: Settings) -> Found:
    """Looks where AWS's toolkits look: the submitted folder, `code/`, and beside the model.

    Sources: sagemaker_inference/environment.py and model_server.py (`PYTHONPATH` begins with `code/`), TorchServe's
    model_service (the model's folder is on `sys.path`).

    Raises:
        LoadError: `SAGEMAKER_PROGRAM` names a file that is in none of these places.
    """
    program = settings.program
    program = program[: -len(".py")] if program.endswith(".py") else program.replace(".", "/")
    folders = _folders(folder, settings)
    looked = tuple(place / f"{program}.py" for place in folders)
    file = next((path for path in looked if path.is_file()), None)
    if file is None and settings.program not in ("inference.py", "inference"):
        raise LoadError(
            f"SAGEMAKER_PROGRAM is {settings.program!r}, and it is not there: looked for "
            f"{', '.join(map(str, looked))}.",
            remedy="Put it into the model's code/ folder, or name the file that is there.",
        )
    paths = tuple(place for place in folders if place.is_dir())
    requirements = next((place / REQUIREMENTS for place in paths if (place / REQUIREMENTS).is_file()), None)
    return Found(file, Path(program).name, _first(file, paths), requirements, looked)


def _folders(folder: Path, settings: Settings) -> list[Path]:
    folders = [folder / CODE, folder]
    submitted = settings.submit_directory
    # On SageMaker it often names an archive on S3, which the platform has laid into code/.
    if submitted and "://" not in submitted and Path(submitted).is_dir():
        folders.insert(0, Path(submitted))
    program = Path(settings.program)
    if program.is_absolute():
        folders.insert(0, program.parent)
    return list(dict.fromkeys(Path(os.path.abspath(place)) for place in folders))  # noqa: PTH100 - links stay


def _first(file: Path | None, paths: tuple[Path, ...]) -> tuple[Path, ...]:
    """The handler's own folder goes first: it imports its neighbours."""
    return paths if file is None else tuple(dict.fromkeys((file.parent, *paths)))
