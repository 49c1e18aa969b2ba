"""Finds the files to check: source, notebooks, job descriptions, templates, commands, requirements; honours .gitignore."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from gpuproof.errors import UsageError
from gpuproof.linter.source.command_files import SHELL, command_kind

if TYPE_CHECKING:
    import pathspec

    Ignores = list[tuple[Path, pathspec.GitIgnoreSpec]]

SKIPPED_FOLDERS = frozenset(
    [
        ".git",
        ".hg",
        ".svn",
        ".venv",
        "venv",
        "__pycache__",
        "node_modules",
        "site-packages",
        "dist-packages",
        ".tox",
        ".nox",
        ".mypy_cache",
        ".ruff_cache",
        ".pytest_cache",
        ".ipynb_checkpoints",
        ".terraform",
        ".eggs",
        "__pypackages__",
        ".aws-sam",
        "cdk.out",
    ]
)
"""Folders that contain no source of the project."""

_SUFFIXES = (".py", ".ipynb", ".tf", ".yaml", ".yml", ".template", ".json")


@dataclass(frozen=True)
class FoundFiles:
    """The files to check, as the user would write them, and the folders that cannot be listed, with the reason."""

    files: tuple[str, ...]
    unlisted: tuple[tuple[str, str], ...] = ()


def find_files(
    paths: Iterable[str], *, markdown: bool = False, exclude: Sequence[str] = (), root: Path | None = None
) -> FoundFiles:
    """Find the files under the paths, sorted; a file that is named is included even if `.gitignore` excludes it.

    Args:
        markdown: whether to include Markdown files.
        exclude: patterns of files and folders to skip, as in `.gitignore`, relative to `root`.
        root: the folder of the settings; the working folder by default.

    Raises:
        UsageError: a path does not exist.
    """
    suffixes = (*_SUFFIXES, ".md") if markdown else _SUFFIXES
    excluded = _excluded(exclude, root or Path.cwd())
    found: dict[str, None] = {}
    unlisted: list[tuple[str, str]] = []
    for path in paths:
        if os.path.isdir(path):  # noqa: PTH112
            walker = _Walker(suffixes, excluded)
            found |= dict.fromkeys(sorted(walker.files(path)))
            unlisted += walker.unlisted
        elif os.path.lexists(path):
            found[os.path.normpath(path)] = None
        else:
            from gpuproof.jobs.file_hints import suggest_file

            raise UsageError(f"{path} does not exist{suggest_file(Path(path))}")
    return FoundFiles(_without_repetitions(found), tuple(unlisted))


def _without_repetitions(files: Iterable[str]) -> tuple[str, ...]:
    """The files without those that are named twice, such as relative and absolute."""
    seen: dict[str, str] = {}
    for path in files:
        seen.setdefault(os.path.abspath(path), path)  # noqa: PTH100  # runs for every file
    return tuple(seen.values())


class _Walker:
    def __init__(self, suffixes: tuple[str, ...], excluded: Ignores) -> None:
        self._suffixes = suffixes
        self._excluded = excluded
        self.unlisted: list[tuple[str, str]] = []

    def files(self, top: str) -> Iterator[str]:
        outer = _outer_ignores(Path(top).absolute())
        # An ignored folder that the user names is checked.
        yield from self._walk(top, [] if _ignored(top, outer, is_folder=True) else outer)

    def _walk(self, folder: str, ignores: Ignores) -> Iterator[str]:
        try:
            entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
        except OSError as error:
            self.unlisted.append((folder, (error.strerror or str(error)).lower()))
            return
        if any(entry.name == ".gitignore" for entry in entries):
            here = Path(folder).absolute()
            if (spec := _ignore_file(here)) is not None:
                ignores = [*ignores, (here, spec)]
        for entry in entries:
            path = os.path.normpath(entry.path)
            # Links to folders are not followed: their targets are checked where they are, and loops cannot occur.
            is_folder = entry.is_dir(follow_symlinks=False)
            if is_folder:
                if (
                    entry.name in SKIPPED_FOLDERS
                    or _is_environment(entry.path)
                    or self._is_excluded(path, ignores, is_folder=True)
                ):
                    continue
                yield from self._walk(entry.path, ignores)
            elif self._is_checked(entry) and not self._is_excluded(path, ignores, is_folder=False):
                yield path

    def _is_excluded(self, path: str, ignores: Ignores, *, is_folder: bool) -> bool:
        # A `!pattern` in .gitignore does not include what the settings exclude.
        return any(_ignored(path, some, is_folder=is_folder) for some in (self._excluded, ignores))

    def _is_checked(self, entry: os.DirEntry[str]) -> bool:
        name = entry.name
        if name.endswith(".ts"):
            return not name.endswith(".d.ts") and _is_cdk(entry.path)
        if not name.endswith(self._suffixes) and not (
            name.startswith("requirements") and name.endswith(".txt")
        ):
            return name == "pyproject.toml" or (
                os.path.isfile(entry.path)  # noqa: PTH113  # `entry.is_file()` raises for a link to itself
                and (command_kind(name) is not None or ("." not in name and _is_shell(entry.path)))
            )
        return not (entry.is_symlink() and os.path.isdir(entry.path))  # noqa: PTH112


def _is_cdk(path: str) -> bool:
    """Whether a TypeScript file uses the CDK; others are not checked."""
    try:
        with open(path, "rb") as file:  # noqa: PTH123
            return b"aws-cdk" in file.read(16384)
    except OSError:
        return False


def _is_shell(path: str) -> bool:
    """Whether a program without a suffix is a shell script, by its first line."""
    try:
        with open(path, "rb") as file:  # noqa: PTH123
            return SHELL.match(file.read(80)) is not None
    except OSError:
        return False


def _is_environment(folder: str) -> bool:
    return os.path.exists(os.path.join(folder, "pyvenv.cfg"))  # noqa: PTH110, PTH118


def _excluded(patterns: Sequence[str], root: Path) -> Ignores:
    if not patterns:
        return []
    import pathspec  # only if the settings exclude something

    return [(root, pathspec.GitIgnoreSpec.from_lines(patterns))]


def _outer_ignores(folder: Path) -> Ignores:
    """The ignore files above a folder, up to the root of its repository."""
    repository = next((parent for parent in (folder, *folder.parents) if (parent / ".git").exists()), None)
    if repository is None:
        return []
    above = [parent for parent in reversed(folder.parents) if parent.is_relative_to(repository)]
    return [(parent, spec) for parent in above if (spec := _ignore_file(parent)) is not None]


def _ignore_file(folder: Path) -> pathspec.GitIgnoreSpec | None:
    try:
        lines = (folder / ".gitignore").read_text(errors="replace").splitlines()
    except OSError:
        return None
    import pathspec  # only if there is an ignore file

    return pathspec.GitIgnoreSpec.from_lines(lines)


def _ignored(path: str, ignores: Ignores, *, is_folder: bool) -> bool:
    absolute = os.path.abspath(path) if ignores else ""  # noqa: PTH100
    # The innermost file with a matching pattern decides, as in git.
    for folder, spec in reversed(ignores):
        relative = os.path.relpath(absolute, folder) + ("/" if is_folder else "")
        if relative.startswith("../"):
            # Settings of one project say nothing about another one.
            continue
        if (included := spec.check_file(relative).include) is not None:
            return included
    return False
