"""What a command starts: the script behind wrappers and launchers, and its arguments."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath
from typing import Literal

from gpuproof.linter.jobs.commands.launchers import (
    LAUNCHERS,
    MODULES,
    PYTHON,
    SHELLS,
    Launcher,
    is_program,
    read_launch,
)
from gpuproof.linter.jobs.commands.shell import Shell, commands

StartKind = Literal["python", "module", "shell", "make", "unknown"]


@dataclass(frozen=True)
class Start:
    """One program that a command starts.

    Args:
        kind: `python` for a script, `module` for `python -m`, `shell` and `make` for files with more commands, `unknown`
            for a script whose name depends on a variable.
        program: the path or the module, or the unknown word.
        arguments: the arguments of the program.
        folder: the working folder relative to that of the command.
        environment: variables that the command sets for it.
        launcher: what starts it; None for Python itself.
        launchers: the names of all launchers around it, the outermost first: `srun`, `torchrun`.
        outer: the outermost of them, with its options.
        line: its line in the text, from 1.
        is_conditional: whether it may not run, or another one instead.
    """

    kind: StartKind
    program: str
    arguments: tuple[str, ...] = ()
    folder: str = ""
    environment: Mapping[str, str] = field(default_factory=dict[str, str])
    launcher: Launcher | None = None
    launchers: tuple[str, ...] = ()
    outer: Launcher | None = None
    line: int = 1
    is_conditional: bool = False


def read_text(text: str, shell: Shell | None = None) -> Iterator[Start]:
    """What a shell text starts, in its order."""
    shell = shell or Shell()
    folder = ""
    for command in commands(text, shell):
        words = command.words
        if words[0] in ("cd", "pushd"):
            folder = _joined(folder, words[1] if len(words) > 1 else "~")
            continue
        environment = {
            **{name: shell.variables[name] for name in shell.exported if name in shell.variables},
            **dict(command.assignments),
        }
        for start in _of_words(list(command.words), _Context(shell)):
            yield replace(
                start,
                folder=_joined(folder, start.folder),
                environment={**environment, **start.environment},
                line=command.line if start.line == 1 else command.line + start.line - 1,
                is_conditional=start.is_conditional or command.is_conditional,
            )


def read_words(words: Sequence[str]) -> Iterator[Start]:
    """What a command starts that is given as a list of words, without a shell."""
    yield from _of_words(list(words), _Context(Shell()))


_MAX_DEPTH = 8
_WRAPPERS = frozenset(
    [
        "sudo",
        "env",
        "nice",
        "numactl",
        "timeout",
        "stdbuf",
        "setsid",
        "unbuffer",
        "taskset",
        "ionice",
        "tini",
        "dumb-init",
        "conda",
        "mamba",
        "micromamba",
        "uv",
        "poetry",
        "pipenv",
        "pdm",
        "hatch",
        "rye",
        "pixi",
        "opentelemetry-instrument",
        "nsys",
        "ncu",
        "nvprof",
        "py-spy",
        "strace",
        "gdb",
        "ddtrace-run",
        "singularity",
        "apptainer",
        "enroot",
        "xvfb-run",
        "script",
        "xargs",
        "exec",
        "nohup",
        "time",
    ]
)
"""Programs that run the command after their own options."""
_SERVERS = frozenset({"uvicorn", "gunicorn", "hypercorn", "granian", "waitress-serve"})
"""Servers that import the application `module:name`."""
_AGENT = "gpuproof-agent.pyz"
"""The file that `gpuproof agent` writes; `watch` and a command follow."""
_PYTHON_VALUES = frozenset({"-W", "-X", "--check-hash-based-pycs"})


@dataclass(frozen=True)
class _Context:
    """What surrounds a program in its command: the shell, variables, and the launcher before it."""

    shell: Shell
    environment: Mapping[str, str] = field(default_factory=dict[str, str])
    launcher: Launcher | None = None
    launchers: tuple[str, ...] = ()
    outer: Launcher | None = None
    depth: int = 0

    def start(self, kind: StartKind, program: str, arguments: Sequence[str]) -> Start:
        unknown = kind in ("python", "module", "shell") and "$" in program and not _starts_in_folder(program)
        return Start(
            "unknown" if unknown else kind,
            program,
            tuple(arguments),
            environment=self.environment,
            launcher=self.launcher,
            launchers=self.launchers,
            outer=self.outer,
        )

    def inner(self, words: Sequence[str], launcher: Launcher | None = None) -> Iterator[Start]:
        """What the words after a wrapper or launcher start."""
        context = replace(self, launcher=launcher or self.launcher, depth=self.depth + 1)
        return _of_words(list(words), context)


def _of_words(words: list[str], context: _Context) -> Iterator[Start]:
    if not words or context.depth > _MAX_DEPTH:
        return
    program, rest = words[0], words[1:]
    name = PurePosixPath(program).name
    if match := re.fullmatch(r"([A-Za-z_]\w*)=(.*)", program, re.DOTALL):
        environment = {**context.environment, match.group(1): match.group(2)}
        yield from replace(context, environment=environment).inner(rest)
    elif PYTHON.fullmatch(program):
        yield from _python(rest, context)
    elif SHELLS.fullmatch(program):
        yield from _shell(program, rest, context)
    elif name in LAUNCHERS:
        if name == "accelerate":
            if rest[:1] != ["launch"]:
                return
            rest = rest[1:]
        yield from _launched(LAUNCHERS[name], rest, context)
    elif name in ("make", "gmake"):
        yield context.start("make", _option(rest, "f", "file") or "Makefile", rest)
    elif name == "sbatch":
        file = next((word for word in rest if not word.startswith("-")), None)
        if file is not None:
            yield context.start("shell", file, rest[rest.index(file) + 1 :])
    elif name == "gpuproof" and rest[:1] == ["watch"]:
        yield from _watched(rest[1:], context)
    elif name == "eval":
        yield from read_text(" ".join(rest), context.shell)
    elif name.endswith(".py"):
        yield context.start("python", program, rest)
    elif name in _SERVERS:
        served = next((word for word in rest if re.fullmatch(r"[A-Za-z_][\w.]*:[\w.]+(\(.*\))?", word)), None)
        if served is not None:
            yield context.start("module", served.partition(":")[0], ())
    elif name in ("streamlit", "chainlit") and rest[:1] == ["run"] and len(rest) > 1:
        yield context.start("python", rest[1], rest[2:])
    elif re.fullmatch(r".*\.(sh|bash|sbatch|slurm)", name):
        yield context.start("shell", program, rest)
    elif name in _WRAPPERS or context.launcher is not None:
        index = next((i for i, word in enumerate(rest) if is_program(word)), None)
        if index is not None:
            yield from context.inner(rest[index:])


def _starts_in_folder(program: str) -> bool:
    """Whether only the folder of a path is unknown: `$ROOT/train.py`."""
    folder, slash, rest = program.partition("/")
    return bool(slash) and "$" in folder and "$" not in rest


def _python(rest: list[str], context: _Context) -> Iterator[Start]:
    index = 0
    while index < len(rest):
        word = rest[index]
        if word == "-m" or (word.startswith("-m") and len(word) > 2):
            module = word[2:] or (rest[index + 1] if index + 1 < len(rest) else "")
            following = rest[index + (2 if word == "-m" else 1) :]
            if module == "gpuproof" and following[:1] == ["watch"]:
                yield from _watched(following[1:], context)
            elif module in MODULES:
                yield from _launched(MODULES[module] or "python", following, context)
            elif module:
                yield context.start("module", module, following)
            return
        if word in ("-c", "-") or word.startswith("-c"):
            return
        if word.endswith(_AGENT) and rest[index + 1 : index + 2] == ["watch"]:
            yield from _watched(rest[index + 2 :], context)
            return
        if not word.startswith("-"):
            yield context.start("python", word, rest[index + 1 :])
            return
        index += 2 if word in _PYTHON_VALUES else 1


def _watched(rest: list[str], context: _Context) -> Iterator[Start]:
    """What `gpuproof watch` starts: the command after its options."""
    if "--" in rest:
        yield from context.inner(rest[rest.index("--") + 1 :])
    elif (index := next((i for i, word in enumerate(rest) if is_program(word)), None)) is not None:
        yield from context.inner(rest[index:])


_ENVIRONMENT = re.compile(r"(?:.*/)?(?:activate|conda\.sh|mamba\.sh|setvars\.sh|[\w.-]*\.env|\.\w+)|/etc/.*")
"""Files that are sourced for their variables: of conda and virtual environments, profiles."""


def _shell(program: str, rest: list[str], context: _Context) -> Iterator[Start]:
    shell = context.shell
    while program not in ("source", ".") and rest and rest[0].startswith(("-", "+")):
        if "c" in rest[0] and not rest[0].startswith("--"):
            if len(rest) > 1:
                inner = Shell(dict(shell.variables), set(shell.exported), tuple(rest[3:]))
                for start in read_text(rest[1], inner):
                    yield replace(
                        start,
                        environment={**context.environment, **start.environment},
                        launcher=start.launcher or context.launcher,
                        launchers=(*context.launchers, *start.launchers),
                        outer=context.outer or start.outer,
                    )
            return
        rest = rest[2:] if rest[0] in ("-o", "--rcfile", "+o") else rest[1:]
    if rest and not (program in ("source", ".") and _ENVIRONMENT.fullmatch(rest[0])):
        yield context.start("shell", rest[0], rest[1:])


def _launched(kind: str, rest: list[str], context: _Context) -> Iterator[Start]:
    """The script that a launcher starts after its own options."""
    launch = read_launch(kind, rest)
    if not launch.words:
        return
    if kind != "python":
        outer = context.outer or Launcher(kind, is_known=False, options=launch.options)
        context = replace(context, launchers=(*context.launchers, kind), outer=outer)
    if launch.runs_program:
        found = next((i for i, other in enumerate(launch.words) if is_program(other)), None)
        if found is not None:
            yield from context.inner(launch.words[found:], launch.launcher)
        return
    inner = replace(context, launcher=launch.launcher or context.launcher)
    yield inner.start("module" if launch.is_module else "python", launch.words[0], launch.words[1:])


def _option(words: Sequence[str], short: str, long: str) -> str | None:
    for word, following in zip(words, [*words[1:], ""], strict=False):
        if word in (f"-{short}", f"--{long}"):
            return following
        if word.startswith(f"--{long}="):
            return word.partition("=")[2]
    return None


def _joined(folder: str, other: str) -> str:
    if not other:
        return folder
    if other.startswith(("/", "~", "$")):
        return other
    return f"{folder}/{other}" if folder else other
