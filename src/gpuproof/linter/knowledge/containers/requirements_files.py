"""Requirements files that a Dockerfile's `pip install -r` reads."""

from __future__ import annotations

from pathlib import Path

from gpuproof.linter.analysis.workspace import Workspace
from gpuproof.linter.jobs.commands.files import image
from gpuproof.linter.jobs.requirement import Requirement, requirements
from gpuproof.linter.knowledge.containers.installs import is_cpu_index
from gpuproof.linter.source.decode import Unreadable, decode, read_bytes
from gpuproof.linter.source.project_root import launch_folders
from gpuproof.linter.source.span import Unit

_INDEX_OPTIONS = ("--index-url", "--extra-index-url", "-i", "-f", "--find-links")


def requirements_read(recipe: Unit, path: str, workspace: Workspace) -> list[Requirement]:
    """The requirements of a file of the image; empty if the file is not in the build context.

    Args:
        path: as the command names it.
    """
    names = [*image(recipe.source).sources(path), path] if "$" not in path else []
    for base in launch_folders(recipe.absolute):
        for name in names:
            unit = _unit(base / name, workspace)
            if unit is not None:
                return list(requirements(unit))
    return []


def cpu_index_of(unit: Unit) -> str:
    """The index of builds for CPUs that is the only one a requirements file names; empty for others."""
    found: list[str] = []
    for line in unit.lines:
        words = line.partition(" #")[0].replace("=", " ", 1).split()
        if len(words) > 1 and words[0] in _INDEX_OPTIONS:
            found.append(words[1])
    return found[0] if len(found) == 1 and is_cpu_index(found[0]) else ""


def _unit(path: Path, workspace: Workspace) -> Unit | None:
    found = next((unit for unit in workspace.units_of("requirements") if unit.absolute == path), None)
    if found is not None or not path.is_file():
        return found
    try:
        return Unit(str(path), decode(read_bytes(path))[0], "requirements")
    except Unreadable:
        return None
