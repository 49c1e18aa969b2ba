"""Finds TensorFlow and Keras models in a folder. Reads only file names."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from gpuproof.serve.errors import LoadError

SAVED_MODEL = "saved_model.pb"
DEFAULT_NAME = "model"
"""Name of a model without a folder of its own, as in /opt/ml/model."""
KERAS_SUFFIXES = (".keras", ".h5", ".hdf5")
_DEEPEST = 4
_MOST_FOLDERS = 2_000
"""Limits the search in a home folder or `/`; model folders have fewer."""
_NO_MODELS = ("code", "assets", "variables")


def saved_models(folder: Path) -> dict[str, dict[int, Path]]:
    """SavedModels by model name and version: `1/`, `name/1/`, `export/Servo/1/`, or the folder itself as version 1.

    As in TensorFlow Serving, folders with numbers are versions of the model that their parent is named after.

    Raises:
        LoadError: two folders contain the same version of a model of the same name.
    """
    found: dict[str, dict[int, Path]] = {}
    for path in _walk(folder, _DEEPEST):
        numbered = path.name.isascii() and path.name.isdigit() and path != folder
        home = path.parent if numbered else path
        name = DEFAULT_NAME if home == folder else home.name
        version = int(path.name) if numbered else 1
        other = found.setdefault(name, {}).setdefault(version, path)
        if other != path:
            raise LoadError(
                f"{folder} contains version {version} of {name} twice: {other.relative_to(folder)} and "
                f"{path.relative_to(folder)}.",
                remedy="Remove or rename one of them: clients select a model by its name and version.",
            )
    return {name: dict(sorted(found[name].items())) for name in sorted(found)}


def default_name(folder: Path, found: Mapping[str, object], wanted: str = "") -> str:
    """The model that is served to clients that name none: the wanted one, `model`, or the first by name.

    Raises:
        LoadError: the wanted model does not exist.
    """
    if wanted and wanted not in found:
        raise LoadError(
            f"SAGEMAKER_TFS_DEFAULT_MODEL_NAME is {wanted!r}, but {folder} contains {', '.join(found)}."
        )
    return wanted or (DEFAULT_NAME if DEFAULT_NAME in found else next(iter(found)))


def choose_model(folder: Path, wanted: str = "") -> Path | None:
    """The SavedModel folder or Keras file that is served by default; `None` if there is neither.

    Prefers a SavedModel, because it does not depend on the classes it was built from.

    Raises:
        LoadError: the selected SavedModel does not exist, or there are several Keras files and none is selected.
    """
    found = saved_models(folder)
    if found:
        versions = found[default_name(folder, found, wanted)]
        return versions[max(versions)]
    return keras_file(folder)


def keras_file(folder: Path) -> Path | None:
    """The Keras file to serve; `None` if there is none. Raises LoadError if there are several and none is `model`."""
    files = sorted(path for path in folder.iterdir() if path.suffix in KERAS_SUFFIXES and path.is_file())
    if len(files) > 1:
        files = [path for path in files if path.stem == "model"] or files
    if len(files) > 1 and len({path.stem for path in files}) > 1:
        raise LoadError(
            f"{folder} contains several models: {', '.join(path.name for path in files)}.",
            remedy="Rename the one to serve to model.keras, or write a model_fn.",
        )
    return next((path for path in files if path.suffix == ".keras"), files[0]) if files else None


def _walk(top: Path, depth: int) -> list[Path]:
    found: list[Path] = []
    waiting = [(top, depth)]
    looked = 0
    while waiting and looked < _MOST_FOLDERS:
        folder, below = waiting.pop(0)
        looked += 1
        if (folder / SAVED_MODEL).is_file():
            found.append(folder)
        elif below:
            waiting += [(path, below - 1) for path in _folders(folder)]
    return found


def _folders(folder: Path) -> list[Path]:
    try:
        paths = sorted(path for path in folder.iterdir() if path.is_dir())
    except OSError:
        # Not readable by this user, or deleted meanwhile.
        return []
    return [path for path in paths if path.name not in _NO_MODELS and not path.name.startswith(".")]
