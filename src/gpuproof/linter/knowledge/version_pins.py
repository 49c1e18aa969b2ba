"""Version constraints of a project: in requirements files, pyproject.toml, and `pip install` in notebooks."""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path

from gpuproof.linter.jobs.requirement import requirements
from gpuproof.linter.source.decode import Unreadable, decode, read_bytes
from gpuproof.linter.source.span import Unit

_INSTALL = re.compile(r"^\s*[!%]?\s*(?:python3?\s+-m\s+)?pip3?\s+install\s+(.+)$", re.MULTILINE)
_WORD = re.compile(
    r"""["']?([A-Za-z0-9][\w.-]*)(?:\[[^\]]*\])?((?:[=<>!~]=?=?[^"'\s,]+)(?:,[=<>!~]=?[^"'\s,]+)*)["']?"""
)
_NAME = re.compile(r"(?<!\S)[\"']?([A-Za-z][\w.-]*)")


def pinned_versions(unit: Unit) -> dict[str, str]:
    """Version constraints that apply to a unit, by normalised package name: `{"torch": "==2.1.0"}`.

    They come from requirements files, pyproject.toml and the notebook's own `pip install`; the nearest file wins, up to
    the repository's root.
    """
    folder = unit.absolute.parent
    repository = next((parent for parent in (folder, *folder.parents) if (parent / ".git").exists()), None)
    found = pins_above(folder, repository)
    return {**found, **installed_in(unit.raw)} if unit.raw and "pip" in unit.raw else found


@lru_cache(maxsize=256)
def pins_above(folder: Path, repository: Path | None) -> dict[str, str]:
    """Constraints by normalised name, where the nearest file wins: `{"sagemaker": "<3", "torch": "==2.1.0"}`.

    Args:
        folder: the folder where the search starts.
        repository: the folder where it ends; None to search only `folder`.
    """
    found: dict[str, str] = {}
    for parent in _reach(folder, repository):
        for name, constraint in _listed_in(parent).items():
            if constraint:
                found.setdefault(name, constraint)
    return found


def listed_packages(unit: Unit) -> frozenset[str]:
    """The normalised names of all packages that a project or a notebook lists, with or without a version."""
    folder = unit.absolute.parent
    repository = next((parent for parent in (folder, *folder.parents) if (parent / ".git").exists()), None)
    found = {name for parent in _reach(folder, repository) for name in _listed_in(parent)}
    if unit.raw and "pip" in unit.raw:
        for line in _INSTALL.findall(unit.raw):
            found.update(re.sub(r"[-_.]+", "-", word).lower() for word in _NAME.findall(line))
    return frozenset(found)


def installed_in(text: str) -> dict[str, str]:
    """Constraints in `!pip install "sagemaker<3"` lines of a notebook; packages without a version are left out."""
    found: dict[str, str] = {}
    for line in _INSTALL.findall(text):
        for name, constraint in _WORD.findall(line):
            found[re.sub(r"[-_.]+", "-", name).lower()] = constraint
    return found


def _reach(folder: Path, repository: Path | None) -> list[Path]:
    """The folders whose files are read, the nearest first."""
    reach = [
        parent
        for parent in (folder, *folder.parents)
        if repository is not None and parent.is_relative_to(repository)
    ]
    return reach or [folder]


@lru_cache(maxsize=256)
def _listed_in(folder: Path) -> dict[str, str]:
    """The packages that the files of one folder list, with their constraint, which may be empty."""
    found: dict[str, str] = {}
    for path in sorted(folder.glob("requirements*.txt")):
        try:
            text, _ = decode(read_bytes(path))
        except Unreadable:
            continue
        for requirement in requirements(Unit(str(path), text, "requirements")):
            if not found.get(requirement.name):
                found[requirement.name] = requirement.constraint
    if (folder / "pyproject.toml").is_file():
        for item in _of_pyproject(folder / "pyproject.toml"):
            name, constraint = item
            if not found.get(name):
                found[name] = constraint
    return found


def _of_pyproject(path: Path) -> list[tuple[str, str]]:
    import tomllib  # only if there is such a file

    try:
        document = tomllib.loads(decode(read_bytes(path))[0])
    except (tomllib.TOMLDecodeError, Unreadable):
        return []
    project, tool = document.get("project", {}), document.get("tool", {})
    listed = project.get("dependencies", []) if isinstance(project, dict) else []
    lines = "\n".join(line for line in listed if isinstance(line, str)) if isinstance(listed, list) else ""
    found = [
        (requirement.name, requirement.constraint)
        for requirement in requirements(Unit(str(path), lines, "requirements"))
    ]
    poetry = tool.get("poetry", {}).get("dependencies", {}) if isinstance(tool, dict) else {}
    for name, constraint in poetry.items() if isinstance(poetry, dict) else ():
        version = constraint.get("version") if isinstance(constraint, dict) else constraint
        if isinstance(version, str):
            pin = "" if version == "*" else _of_poetry(version)
            found.append((re.sub(r"[-_.]+", "-", str(name)).lower(), pin))
    return found


def _of_poetry(version: str) -> str:
    """Convert a Poetry constraint: `^2.1` is `>=2.1,<3`, and a bare version is exact."""
    if version.startswith("^"):
        major = version[1:].partition(".")[0]
        return f">={version[1:]},<{int(major) + 1}" if major.isdigit() else version
    return version if version[:1] in "<>=~!" else f"=={version}"
