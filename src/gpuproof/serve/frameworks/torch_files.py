"""What a `.pt`, `.pth` or `.pt2` file holds, told from the names in its zip: nothing is loaded."""

from __future__ import annotations

import zipfile
from pathlib import Path

SCRIPT = "a TorchScript program"
EXPORTED = "a torch.export program"
COMPILED = "an AOTInductor package"
PICKLED = "a pickle: a state dict, or a whole model"
OTHER = "no file of PyTorch's"

SUFFIXES = (".pt", ".pth", ".pt2")


def kind_of_file(path: Path) -> str:
    """One of the words above."""
    try:
        with zipfile.ZipFile(path) as file:
            # Members are below a folder with the archive's name.
            names = [name.partition("/")[2] or name for name in file.namelist()]
    except (zipfile.BadZipFile, OSError):
        with path.open("rb") as stream:
            # PyTorch before 1.6 wrote bare pickles, which begin with protocol 2.
            return PICKLED if stream.read(2) == b"\x80\x02" else OTHER
    if any(name.startswith(("data/aotinductor/", "aotinductor/")) for name in names):
        return COMPILED
    if any(name.startswith("code/") for name in names) and "constants.pkl" in names:
        return SCRIPT
    if any("serialized_exported_program" in name or name.startswith("models/") for name in names):
        return EXPORTED
    return PICKLED if "data.pkl" in names else OTHER


def model_files(folder: Path) -> list[Path]:
    """The files at the top of a model's folder that PyTorch may have written, `model.*` first."""
    found = [path for path in folder.iterdir() if path.suffix in SUFFIXES and path.is_file()]
    return sorted(found, key=lambda path: (path.stem != "model", path.name))
