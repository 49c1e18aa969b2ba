"""Settings files beside a script that have the arguments of a Trainer: for HfArgumentParser, TrlParser and LightningCLI."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator
from pathlib import Path

from gpuproof.linter.analysis.call import calls_named
from gpuproof.linter.analysis.evaluation.settings_text import FORMATS, read_settings_text
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.values import Value

_FOLDERS = re.compile(r"^(conf|configs?|args|arguments|settings|recipes?|params|experiments?)$")
_FORMATS = (".yaml", ".yml", ".json")
_MAX_FILES = 40
_MAX_SIZE = 60_000
_CLI = re.compile(r"(^|\.)LightningCLI$")


def files_with(module: Module, names: Collection[str], least: int) -> list[Value]:
    """The settings files beside a script, or in its folder of settings, whose mapping has some of these keys.

    Args:
        least: how many of the names a file must have.
    """
    found: list[Value] = []
    for path in _candidates(module.unit.absolute.parent):
        unit = module.loader.settings_file(path)
        if unit is None or len(unit.source) > _MAX_SIZE:
            continue
        value = module.loader.cached(
            f"settings as {FORMATS[path.suffix.lower()]}",
            unit,
            lambda unit=unit, path=path: read_settings_text(unit, FORMATS[path.suffix.lower()]),
        )
        if value.entries is not None and sum(key in names for key in value.entries) >= least:
            found.append(value)
    return found


def cli_trainers(module: Module) -> list[Value]:
    """The `trainer` mappings in the settings files of a script that runs `LightningCLI`."""
    if not any(_CLI.search(call.name or "") for call in calls_named(module, "LightningCLI")):
        return []
    files = files_with(module, ("trainer",), 1)
    return [found for value in files if (found := value.at("trainer")).entries is not None]


def _candidates(folder: Path) -> Iterator[Path]:
    """The settings files in a folder and its folders of settings, also beside it."""
    count = 0
    for place in (folder, folder.parent):
        for name, is_folder in _listed(place):
            if is_folder and _FOLDERS.match(name):
                inner = [place / name / other for other, deeper in _listed(place / name) if not deeper]
            elif not is_folder and place is folder:
                inner = [place / name]
            else:
                continue
            for path in inner:
                if path.suffix.lower() in _FORMATS:
                    count += 1
                    if count > _MAX_FILES:
                        return
                    yield path


def _listed(folder: Path) -> list[tuple[str, bool]]:
    try:
        with os.scandir(folder) as entries:
            return sorted((entry.name, entry.is_dir()) for entry in entries)
    except OSError:
        return []
