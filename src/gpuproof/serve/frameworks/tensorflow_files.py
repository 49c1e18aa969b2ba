"""Finds TensorFlow and Keras models in a folder. Reads only file names."""

from __future__ import annotations

from pathlib import Path

from gpuproof.serve.errors import LoadError

SAVED_MODEL = "saved_model.pb"
KERAS_SUFFIXES = (".keras", ".h5", ".hdf5")
_DEEPEST = 4
_MOST_FOLDERS = 2_000
"""Limits the search in a home folder or `/`; model folders have fewer."""
_NO_MODELS = ("code", "assets", "variables")


def saved_models(folder: Path) -> dict[str, Path]:
    """SavedModels by model name, the latest version of each: `1/`, `name/1/`, `export/Servo/1/`, or the folder itself.

    As in TensorFlow Serving, folders with numbers are versions, and the highest is served.
    """
    found: dict[str, tuple[int, Path]] = {}
    for path in _walk(folder, _DEEPEST):
        version = int(path.name) if path.name.isdigit() and path != folder else -1
        home = path.parent if version >= 0 else path
        name = "model" if home == folder else home.name
        if name not in found or version > found[name][0]:
            found[name] = (version, path)
    return {name: path for name, (_, path) in sorted(found.items())}


def choose_model(folder: Path, wanted: str = "") -> Path | None:
    """The SavedModel folder or Keras file to serve; `None` if there is neither.

    Prefers a SavedModel, because it does not depend on the classes it was built from.

    Args:
        wanted: the name of one of several SavedModels.

    Raises:
        LoadError: there are several and none is selected, or the selected one does not exist.
    """
    found = saved_models(folder)
    if wanted and found:
        if wanted not in found:
            raise LoadError(
                f"SAGEMAKER_TFS_DEFAULT_MODEL_NAME is {wanted!r}, but {folder} contains {', '.join(found)}."
            )
        return found[wanted]
    if len(found) > 1 and "model" not in found:
        raise LoadError(
            f"{folder} contains several SavedModels: {', '.join(found)}.",
            remedy="Set SAGEMAKER_TFS_DEFAULT_MODEL_NAME to the one to serve.",
        )
    if found:
        return found.get("model") or next(iter(found.values()))
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
