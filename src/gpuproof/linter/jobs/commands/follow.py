"""Follows what a command starts to the Python scripts of the project, through shell scripts, Makefiles and Dockerfiles."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath

from gpuproof.linter.analysis.workspace import Workspace
from gpuproof.linter.jobs.commands import files
from gpuproof.linter.jobs.commands.programs import Start, read_text
from gpuproof.linter.jobs.commands.shell import Shell
from gpuproof.linter.jobs.commands.subprocesses import started_by
from gpuproof.linter.source.span import Unit

_CONTAINER_FOLDERS = re.compile(
    r"^/opt/ml/(code|input/data/code|input/data/sm_code|processing/input/(code|entrypoint)|processing/code)(/|$)"
)
"""Where SageMaker puts a job's source folder."""
_HERE = re.compile(r"^(\$\{?\w+\}?|\$\(.*\)|\$\{[^}]*\}|~)(/|$)")
"""A folder that is only known where the command runs: `$SLURM_SUBMIT_DIR/`, `$(dirname "$0")/`; mostly the script's own."""
_TOOLS = frozenset(
    [
        "pip",
        "ensurepip",
        "venv",
        "virtualenv",
        "pytest",
        "unittest",
        "http",
        "json",
        "compileall",
        "site",
        "nltk",
        "spacy",
        "ipykernel",
        "jupyter",
        "build",
        "twine",
        "tensorboard",
        "sagemaker_training",
        "zipfile",
        "timeit",
        "base64",
    ]
)
"""Modules that `python -m` runs and that train nothing."""
_DEPTH = 8


@dataclass(frozen=True)
class Found:
    """A Python script that a command starts.

    Args:
        start: how, with the environment and launcher of everything on the way.
        path: the path by which the command names it.
    """

    unit: Unit
    start: Start
    path: str


@dataclass(frozen=True)
class LinkEnd:
    """Why what a job starts cannot be followed to a Python script.

    Args:
        reason: a sentence without its period.
        line: the line of the file that is followed, if it is the one that the reader looks at.
    """

    reason: str
    remedy: str = ""
    line: int = 1


@dataclass
class Followed:
    """What commands lead to: scripts, and places where the link ends."""

    scripts: list[Found] = field(default_factory=list[Found])
    ends: list[LinkEnd] = field(default_factory=list[LinkEnd])


class Follower:
    """Follows starts to scripts below some folders.

    Args:
        folders: the working folders that a command may have; the first that contains a path counts.
        folder_of: the folders behind an absolute path of the container; None for those that are unknown.
        hints: values of the job that may name a script that another one starts: its hyperparameters.
    """

    def __init__(
        self,
        workspace: Workspace,
        folders: Sequence[Path],
        folder_of: Callable[[str], list[Path] | None] | None = None,
        hints: Sequence[str] = (),
    ) -> None:
        self._hints = tuple(hints)
        self._read: set[Unit] = set()
        self._workspace = workspace
        self._folders = list(folders)
        self._folder_of = folder_of
        self._seen: set[tuple[Path, tuple[str, ...]]] = set()

    def follow(self, starts: Iterable[Start], within: str = "") -> Followed:
        """Follow starts.

        Args:
            within: the file that contains them, for messages; empty for the job itself.
        """
        found = Followed()
        for start in starts:
            self._follow(start, found, within, 0)
        return found

    def _follow(self, start: Start, found: Followed, within: str, depth: int) -> None:
        where = f" ({within}, line {start.line})" if within else ""
        path = _local_path(start.program)
        if path is None or depth > _DEPTH:
            reason = f"`{start.program}` is only known when the command runs{where}"
            found.ends.append(LinkEnd(reason, "Write the script's name into the command.", start.line))
            return
        match start.kind:
            case "module":
                self._module(start, found, where)
            case "shell" | "make":
                self._file(replace(start, program=path), found, where, depth)
            case _:
                self._script(replace(start, program=path), found, where, depth)

    def _script(self, start: Start, found: Followed, where: str, depth: int) -> None:
        located = self._locate(start.folder, start.program)
        unit = self._workspace.file(located) if located is not None else None
        if unit is not None:
            found.scripts.append(Found(unit, start, start.program))
            self._started_by(unit, start, found, depth)
        elif located is None:
            found.ends.append(LinkEnd(f"`{start.program}` is not here{where}", _CHECK_IT, start.line))

    def _started_by(self, unit: Unit, outer: Start, found: Followed, depth: int) -> None:
        """Continue in what a Python script starts as another process."""
        if unit in self._read or not any(word in unit.source for word in ("subprocess", "os.", "runpy")):
            return
        self._read.add(unit)
        module = self._workspace.module(unit)
        if module is None:
            return
        for inner in started_by(module, (*outer.arguments, *self._hints)):
            if (
                inner.kind == "module"
                and self._locate(inner.folder, f"{inner.program.replace('.', '/')}.py") is None
            ):
                continue
            merged = replace(
                inner,
                folder=_join(outer.folder, inner.folder),
                environment={**outer.environment, **inner.environment},
                launcher=inner.launcher or outer.launcher,
                launchers=(*outer.launchers, *inner.launchers),
                outer=outer.outer or inner.outer,
                is_conditional=inner.is_conditional or outer.is_conditional,
            )
            self._follow(merged, found, unit.path.rpartition("/")[2], depth + 1)

    def _module(self, start: Start, found: Followed, where: str) -> None:
        inner = start.program.replace(".", "/")
        for path in (f"{inner}.py", f"{inner}/__main__.py"):
            located = self._locate(start.folder, path) or self._locate(start.folder, f"src/{path}")
            unit = self._workspace.file(located) if located is not None else None
            if unit is not None:
                found.scripts.append(Found(unit, start, path))
                return
        if start.program.partition(".")[0] not in _TOOLS:
            reason = f"`python -m {start.program}` runs a module that is not in this project{where}"
            found.ends.append(LinkEnd(reason, line=start.line))

    def _file(self, start: Start, found: Followed, where: str, depth: int) -> None:
        """Continue in a shell script or a Makefile."""
        folder, name = start.folder, start.program
        if start.kind == "make":
            folder = _join(folder, _option_value(start.arguments, "-C") or "")
        located = self._locate(folder, name)
        if located is None and start.kind == "make":
            located = self._locate(folder, "makefile") or self._locate(folder, "GNUmakefile")
        unit = self._workspace.text_file(located) if located is not None else None
        if unit is None or located is None:
            found.ends.append(LinkEnd(f"`{name}` is not here{where}", _CHECK_IT, start.line))
            return
        if (located, start.arguments) in self._seen:
            return
        self._seen.add((located, start.arguments))
        text: str | None = unit.source
        shell = Shell(dict(start.environment), set(start.environment), start.arguments)
        if start.kind == "make":
            words = list(start.arguments)
            if "-C" in words:
                del words[words.index("-C") : words.index("-C") + 2]
            text = files.recipe(unit.source, words)
        elif python_shebang(unit.source):
            found.scripts.append(Found(unit, start, name))
            return
        if text is None:
            found.ends.append(LinkEnd(f"`{name}` has no such target{where}", line=start.line))
            return
        before = len(found.scripts) + len(found.ends)
        for inner in read_text(text, shell):
            merged = replace(
                inner,
                folder=_join(folder, inner.folder),
                environment={**start.environment, **inner.environment},
                launcher=inner.launcher or start.launcher,
                launchers=(*start.launchers, *inner.launchers),
                outer=start.outer or inner.outer,
                is_conditional=inner.is_conditional or start.is_conditional,
            )
            self._follow(merged, found, located.name, depth + 1)
        if len(found.scripts) + len(found.ends) == before:
            found.ends.append(
                LinkEnd(f"`{name}` starts no Python script that is known here{where}", line=start.line)
            )

    def _locate(self, folder: str, path: str) -> Path | None:
        """The file that a path of the command is; None if there is none."""
        whole = PurePosixPath(_join(_local_path(folder) or "", path))
        bases: Sequence[Path] = self._folders
        known = self._folder_of(str(whole)) if self._folder_of is not None else None
        if known is not None:
            return next((candidate for candidate in known if self._workspace.exists(candidate)), None)
        if whole.is_absolute():
            relative = _CONTAINER_FOLDERS.sub("", str(whole))
            if relative.startswith("/"):
                return Path(whole) if self._workspace.exists(Path(whole)) else self._by_name(whole)
            whole = PurePosixPath(relative)
        found = next((base / whole for base in bases if self._workspace.exists(base / whole)), None)
        return found if found is not None or len(whole.parts) < 2 or not folder else self._in_base(path)

    def _in_base(self, path: str) -> Path | None:
        """The file in the working folder itself, for a `cd` to a folder that exists only where the command runs."""
        return next((base / path for base in self._folders if self._workspace.exists(base / path)), None)

    def _by_name(self, path: PurePosixPath) -> Path | None:
        """A file of the project with the last parts of an absolute path of another machine."""
        for parts, bases in ((path.parts[-2:], self._folders), (path.parts[-1:], self._folders[:1])):
            for base in bases:
                if self._workspace.exists(base.joinpath(*parts)):
                    return base.joinpath(*parts)
        return None


_CHECK_IT = "Check it where it is: gpuproof check FILE."


def python_shebang(source: str) -> bool:
    """Whether a program without a suffix is Python."""
    return bool(re.match(r"#!.*\bpython", source))


def _local_path(word: str) -> str | None:
    """A path without the unknown folder that it starts with; None if more of it is unknown."""
    path = _HERE.sub("", word, count=1)
    path = path.removeprefix("file://")
    return None if "$" in path or "://" in path or (not path and word) else path.removeprefix("./")


def _join(folder: str, path: str) -> str:
    return path if not folder or path.startswith("/") else f"{folder}/{path}" if path else folder


def _option_value(words: Sequence[str], option: str) -> str | None:
    return words[words.index(option) + 1] if option in words[:-1] else None
