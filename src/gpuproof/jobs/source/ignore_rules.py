"""Decides which files of a source folder are left out: defaults, `.gpuproofignore`, `.gitignore`, and `include`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from fnmatch import fnmatchcase, translate
from pathlib import Path
from typing import TYPE_CHECKING

from gpuproof.errors import UsageError

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

IGNORE_FILE = ".gpuproofignore"
"""Lists what is not sent, in gitignore's syntax; `!name` includes a file that is excluded otherwise."""
GIT_IGNORE_FILE = ".gitignore"

# Files that tools generate again, files that belong to this computer only, and baselines of `gpuproof compare`.
DEFAULT_EXCLUDES = (
    *(".git", ".hg", ".svn", ".DS_Store"),
    *("__pycache__", "*.pyc", "*.egg-info", ".mypy_cache", ".pytest_cache", ".ruff_cache", ".tox", ".nox"),
    *("node_modules", ".ipynb_checkpoints", ".gpuproof"),
)
# Files that identify a virtual environment (PEP 405) and a conda environment of any name.
_ENVIRONMENT_MARKS = ("pyvenv.cfg", "conda-meta/history")
# `gpuproof pull` creates a folder with the run's name and these files in it.
_PULLED_NAME = re.compile(r".+-\d{8}-\d{6}-[0-9a-f]{4}")
_WILDCARDS = re.compile(r"[*?\[]")
_PULLED_MARKS = ("verdict.json", "algo-1.log")


class Exclusion(Enum):
    """Why a file or folder is not sent."""

    DEFAULT = "default"
    GPUPROOFIGNORE = IGNORE_FILE
    GITIGNORE = GIT_IGNORE_FILE


@dataclass(frozen=True)
class IgnoreRules:
    """The rules that hold in one folder; `below` returns those of a folder in it.

    `.gpuproofignore` takes precedence over the defaults and over `.gitignore`; of the `.gitignore` files, the one nearest
    to the file takes precedence, as with git.

    Args:
        root: the source folder, absolute.
        own: the patterns of `.gpuproofignore`.
        git: the patterns of each `.gitignore`, from the repository's root downwards.
        respect_gitignore: whether `.gitignore` files are read.
    """

    root: Path
    own: _Patterns | None = None
    git: tuple[_Patterns, ...] = ()
    respect_gitignore: bool = True

    @classmethod
    def of(cls, root: Path, *, respect_gitignore: bool = True) -> IgnoreRules:
        """The rules of a source folder, including those of the git repository that contains it.

        Raises:
            UsageError: a file of patterns cannot be read, or has an invalid pattern.
        """
        own = _Patterns.read(root / IGNORE_FILE, str(root))
        git = tuple(_patterns_above(root)) if respect_gitignore else ()
        return cls(root, own, git, respect_gitignore)

    def below(self, prefix: str, names: Sequence[str]) -> IgnoreRules:
        """The rules of the folder `prefix`, which is relative to the root; `names` are its entries."""
        if not self.respect_gitignore or GIT_IGNORE_FILE not in names:
            return self
        folder = self.root / prefix
        patterns = _Patterns.read(folder / GIT_IGNORE_FILE, str(folder))
        return self if patterns is None else replace(self, git=(*self.git, patterns))

    def exclusion(self, name: str, *, is_folder: bool) -> Exclusion | None:
        """Why a file or folder is excluded; None if it is sent.

        Args:
            name: relative to the root, with slashes.
        """
        path = f"{self.root}/{name}" + ("/" if is_folder else "")
        listed = None if self.own is None else self.own.match(path)
        if listed is not None:
            return Exclusion.GPUPROOFIGNORE if listed else None
        base = name.rpartition("/")[2]
        if any(fnmatchcase(base, pattern) for pattern in DEFAULT_EXCLUDES):
            return Exclusion.DEFAULT
        if is_folder and self._is_generated(name, base):
            return Exclusion.DEFAULT
        for patterns in reversed(self.git):
            if (listed := patterns.match(path)) is not None:
                return Exclusion.GITIGNORE if listed else None
        return None

    def _is_generated(self, name: str, base: str) -> bool:
        marks = (*_ENVIRONMENT_MARKS, *(_PULLED_MARKS if _PULLED_NAME.fullmatch(base) else ()))
        return any((self.root / name / mark).exists() for mark in marks)


class IncludePatterns:
    """The files that are sent although a rule excludes them, or although they look like secrets.

    Args:
        patterns: paths relative to the source folder; `*` and `?` match within a name, `**` any number of folders.
        root: the source folder; absolute patterns below it are accepted.
    """

    def __init__(self, patterns: Sequence[str], root: Path) -> None:
        self.unused = dict.fromkeys(patterns)
        """The patterns that have matched nothing so far."""
        self._parts = {pattern: _pattern_parts(pattern, root) for pattern in patterns}

    def match(self, name: str) -> bool:
        """Whether a pattern names this file or folder itself."""
        matched = [pattern for pattern, parts in self._parts.items() if _match_parts(name.split("/"), parts)]
        for pattern in matched:
            self.unused.pop(pattern, None)
        return bool(matched)

    def may_match_below(self, folder: str) -> bool:
        """Whether a pattern leads into an excluded folder. A leading `**` does not: it would lead into all of them."""
        parts = folder.split("/")
        return any(pattern[:1] != ["**"] and _leads_into(parts, pattern) for pattern in self._parts.values())


@dataclass(frozen=True)
class _Pattern:
    """One line of such a file.

    Args:
        parts: its components; the last one alone decides whether it can match.
        anchored: whether it is relative to the file's folder, and not to any folder below.
        only_folders: whether it matches only folders, and what is in them.
        simple: whether it follows the rules of `fnmatch`, component by component.
    """

    parts: tuple[str, ...]
    anchored: bool
    only_folders: bool
    simple: bool

    @classmethod
    def of(cls, line: str) -> _Pattern:
        text = line.rstrip().removeprefix("!")
        stripped = text.rstrip("/")
        simple = not line.startswith("!") and not any(rare in text for rare in ("\\", "[^", "[[", "**", "//"))
        while stripped.endswith("/**"):
            stripped = stripped[:-3]  # it matches what is below a folder of that name
        return cls(tuple(stripped.strip("/").split("/")), "/" in stripped, text.endswith("/"), simple)

    @property
    def is_rare(self) -> bool:
        """Whether its last component follows other rules than `fnmatch`."""
        return not self.parts[-1] or any(rare in self.parts[-1] for rare in ("\\", "[^", "[["))

    def can_match(self, parts: Sequence[str]) -> bool:
        """Whether it may match a path or one of its parents; only for a simple pattern, False is always right."""
        return self.is_rare or any(fnmatchcase(part, self.parts[-1]) for part in parts)

    def matches(self, parts: Sequence[str], *, is_folder: bool) -> bool:
        """Whether a simple pattern matches a path or one of its parents."""
        for end in range(1, len(parts) + 1):
            if self.only_folders and end == len(parts) and not is_folder:
                continue
            tested = parts[:end] if self.anchored else parts[end - 1 : end]
            if len(tested) == len(self.parts) and all(map(fnmatchcase, tested, self.parts)):
                return True
        return False


@dataclass(frozen=True)
class _Patterns:
    """The patterns of one file.

    gitignore's rules are subtle, so pathspec applies them. Importing it takes 30 ms, and most files match no pattern or
    simple ones only: these are decided without it.

    Args:
        file: where they were read.
        folder: what they are relative to; absolute.
        lines: as they were read.
        patterns: each line, parsed.
        can_match: whether some pattern may match a path with this component; a quick test for each of thousands of files.
    """

    file: Path
    folder: str
    lines: tuple[str, ...]
    patterns: tuple[_Pattern, ...]
    can_match: Callable[[str], bool]

    @classmethod
    def of(cls, file: Path, folder: str, lines: Sequence[str]) -> _Patterns:
        """The patterns in some lines."""
        patterns = tuple(map(_Pattern.of, lines))
        return cls(file, folder, tuple(lines), patterns, _quick_test(patterns))

    @classmethod
    def read(cls, file: Path, folder: str) -> _Patterns | None:
        """The patterns of a file; None if there is no such file, or no pattern in it."""
        try:
            text = file.read_text(encoding="utf-8-sig", errors="surrogateescape")
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise UsageError(f"{file} cannot be read: {reason}.", "Make it readable.") from error
        lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
        return cls.of(file, folder, lines) if lines else None

    def match(self, path: str) -> bool | None:
        """Whether a path is ignored (True) or explicitly not ignored (False); None if no pattern matches.

        Args:
            path: absolute; a folder's ends with a slash.
        """
        relative = path[len(self.folder.rstrip("/")) + 1 :]
        parts = relative.rstrip("/").split("/")
        if not any(map(self.can_match, parts)):
            return None
        possible = [pattern for pattern in self.patterns if pattern.can_match(parts)]
        if all(pattern.simple for pattern in possible):
            is_folder = relative.endswith("/")
            return True if any(item.matches(parts, is_folder=is_folder) for item in possible) else None
        return _spec(self.file, self.lines).check_file(relative).include


def _quick_test(patterns: Sequence[_Pattern]) -> Callable[[str], bool]:
    if any(pattern.is_rare for pattern in patterns):
        return lambda _: True
    literal = {pattern.parts[-1] for pattern in patterns if not _WILDCARDS.search(pattern.parts[-1])}
    globs = [translate(pattern.parts[-1]) for pattern in patterns if pattern.parts[-1] not in literal]
    expression = re.compile("|".join(globs)) if globs else None
    return lambda part: part in literal or (expression is not None and expression.match(part) is not None)


_specs: dict[tuple[Path, tuple[str, ...]], GitIgnoreSpec] = {}


def _spec(file: Path, lines: tuple[str, ...]) -> GitIgnoreSpec:
    if (file, lines) not in _specs:
        from pathspec import GitIgnoreSpec  # 30 ms, and most runs need none

        try:
            _specs[file, lines] = GitIgnoreSpec.from_lines(lines)
        except ValueError as error:
            raise UsageError(
                f"{file} has an invalid pattern: {error}.", "Use the syntax of .gitignore."
            ) from error
    return _specs[file, lines]


def _patterns_above(root: Path) -> Iterator[_Patterns]:
    """The patterns of the repository's folders above the source folder, from its root downwards.

    None if they ignore the source folder itself: the user named that folder.
    """
    repository = next((folder for folder in (root, *root.parents) if (folder / ".git").exists()), None)
    if repository is None:
        return
    files = [(repository / ".git" / "info" / "exclude", repository)]
    files += [
        (folder / GIT_IGNORE_FILE, folder)
        for folder in reversed(root.parents)
        if folder.is_relative_to(repository)
    ]
    found = [
        patterns for file, folder in files if (patterns := _Patterns.read(file, str(folder))) is not None
    ]
    folders = [folder for folder in (*reversed(root.parents), root) if folder.is_relative_to(repository)]
    for folder in folders[1:]:
        for patterns in reversed(found):
            if not folder.is_relative_to(patterns.folder) or str(folder) == patterns.folder:
                continue
            if (listed := patterns.match(f"{folder}/")) is not None:
                if listed:
                    return
                break
    yield from found


def _pattern_parts(pattern: str, root: Path) -> list[str]:
    if pattern.startswith("/"):
        pattern = pattern.removeprefix(f"{root}/").lstrip("/")
    return [part for part in pattern.split("/") if part not in ("", ".")]


def _match_parts(parts: Sequence[str], pattern: Sequence[str]) -> bool:
    if not pattern:
        return not parts
    if pattern[0] == "**":
        return any(_match_parts(parts[start:], pattern[1:]) for start in range(len(parts) + 1))
    return bool(parts) and fnmatchcase(parts[0], pattern[0]) and _match_parts(parts[1:], pattern[1:])


def _leads_into(parts: Sequence[str], pattern: Sequence[str]) -> bool:
    if not parts or not pattern:
        return bool(pattern)
    return pattern[0] == "**" or (fnmatchcase(parts[0], pattern[0]) and _leads_into(parts[1:], pattern[1:]))
