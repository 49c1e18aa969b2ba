"""Detects the kind of a `.pt`, `.pth` or `.pt2` file by the names in its zip archive, without loading it."""

from __future__ import annotations

import zipfile
from pathlib import Path

SCRIPT = "a TorchScript program"
EXPORTED = "a torch.export program"
COMPILED = "an AOTInductor package"
PICKLED = "a pickle: a state dict, or a whole model"
OTHER = "not a PyTorch file"

SUFFIXES = (".pt", ".pth", ".pt2")


def kind_of_file(path: Path) -> str:
    """The kind of a file: one of the constants above."""
    try:
        with zipfile.ZipFile(path) as file:
            # Members are in a folder with the archive's name.
            names = [name.partition("/")[2] or name for name in file.namelist()]
    except (zipfile.BadZipFile, OSError):
        with path.open("rb") as stream:
            # PyTorch before 1.6 wrote plain pickles, which start with the marker of protocol 2.
            return PICKLED if stream.read(2) == b"\x80\x02" else OTHER
    if any(name.startswith(("data/aotinductor/", "aotinductor/")) for name in names):
        return COMPILED
    if any(name.startswith("code/") for name in names) and "constants.pkl" in names:
        return SCRIPT
    if any("serialized_exported_program" in name or name.startswith("models/") for name in names):
        return EXPORTED
    return PICKLED if "data.pkl" in names else OTHER


def model_files(folder: Path) -> list[Path]:
    """Files at the top level of a folder that PyTorch may have written, `model.*` first."""
    found = [path for path in folder.iterdir() if path.suffix in SUFFIXES and path.is_file()]
    return sorted(found, key=lambda path: (path.stem != "model", path.name))
