"""What a command starts: the script behind wrappers and launchers, its arguments, and how many processes it becomes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath
from typing import Literal

from gpuproof.linter.jobs.commands.shell import Shell, commands

StartKind = Literal["python", "module", "shell", "make", "unknown"]


@dataclass(frozen=True)
class Launcher:
    """A program that starts a script several times.

    Args:
        name: `torchrun`, `accelerate`, `deepspeed`, `mpi` or `srun`.
        processes: processes on each host; None for one per GPU, or if it is unknown.
        total: processes on all hosts together, where the launcher counts those.
        hosts: hosts that it connects; None if it is unknown.
        option: the option that sets the number of processes, for messages: `--nproc_per_node`.
        is_known: False if the numbers depend on variables or files.
    """

    name: str
    processes: int | None = None
    total: int | None = None
    hosts: int | None = None
    option: str = ""
    is_known: bool = True


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
        line: its line in the text, from 1.
        is_conditional: whether it may not run, or another one instead.
    """

    kind: StartKind
    program: str
    arguments: tuple[str, ...] = ()
    folder: str = ""
    environment: Mapping[str, str] = field(default_factory=dict[str, str])
    launcher: Launcher | None = None
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
_LAUNCHERS = {
    "torchrun": "torchrun",
    "accelerate": "accelerate",
    "accelerate-launch": "accelerate",
    "deepspeed": "deepspeed",
    "mpirun": "mpi",
    "mpiexec": "mpi",
    "horovodrun": "mpi",
    "srun": "srun",
}
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
_PYTHON = re.compile(r"(.*/)?(python[\d.]*|pypy[\d.]*)(\.exe)?|\$\(which python[\d.]*\)|\$\{?PYTHON\w*\}?")
_SHELLS = re.compile(r"(.*/)?(bash|sh|zsh|dash|ksh)|source|\.")
_PYTHON_VALUES = frozenset({"-W", "-X", "--check-hash-based-pycs"})
_MODULES = {
    "torch.distributed.run": "torchrun",
    "torch.distributed.launch": "torchrun",
    "accelerate.commands.launch": "accelerate",
    "accelerate.launch": "accelerate",
    "deepspeed.launcher.runner": "deepspeed",
    "deepspeed.launcher.launch": "deepspeed",
    "mpi4py": "",
    "torch.utils.bottleneck": "",
    "cProfile": "",
    "pdb": "",
    "ipdb": "",
    "debugpy": "",
    "coverage": "",
    "memory_profiler": "",
    "kernprof": "",
}
"""Modules that run the script after their options, with the launcher that they are."""
_FLAGS = {
    "torchrun": "standalone no_python m module run_path use_env virtual_local_rank h",
    "accelerate": "multi_gpu cpu tpu use_deepspeed use_fsdp use_megatron_lm use_parallelism_config quiet q m module no_python"
    " debug same_network use_xpu mps mpirun_no_rank ipex use_tp dynamo_use_fullgraph dynamo_use_dynamic enable_cpu_affinity"
    " no_tpu_cluster tpu_use_cluster tpu_use_sudo downcast_bf16 fp8_opt h",
    "deepspeed": "no_local_rank no_python module m force_multi save_pid no_ssh no_ssh_check bind_cores_to_rank h",
    "mpi": "allow-run-as-root tag-output oversubscribe bind-to-none bynode byslot q quiet v verbose display-map prtemapper",
    "srun": "exclusive label l unbuffered u overlap kill-on-bad-exit K no-kill k multi-prog oversubscribe s verbose v quiet Q"
    " container-remap-root container-mount-home no-container-mount-home pty exact",
    "python": "",
}
"""Options of launchers that take no value. Sources: torch/distributed/run.py of torch 2.9, accelerate/commands/launch.py of
accelerate 1.12, deepspeed/launcher/runner.py of deepspeed 0.18, mpirun(1) of Open MPI 4.1, srun(1) of Slurm 24.05."""


@dataclass(frozen=True)
class _Context:
    """What surrounds a program in its command: the shell, variables, and the launcher before it."""

    shell: Shell
    environment: Mapping[str, str] = field(default_factory=dict[str, str])
    launcher: Launcher | None = None
    depth: int = 0

    def start(self, kind: StartKind, program: str, arguments: Sequence[str]) -> Start:
        unknown = kind in ("python", "module", "shell") and "$" in program and not _starts_in_folder(program)
        return Start(
            "unknown" if unknown else kind,
            program,
            tuple(arguments),
            environment=self.environment,
            launcher=self.launcher,
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
    elif _PYTHON.fullmatch(program):
        yield from _python(rest, context)
    elif _SHELLS.fullmatch(program):
        yield from _shell(program, rest, context)
    elif name in _LAUNCHERS:
        if name == "accelerate":
            if rest[:1] != ["launch"]:
                return
            rest = rest[1:]
        yield from _launched(_LAUNCHERS[name], rest, context)
    elif name in ("make", "gmake"):
        yield context.start("make", _option(rest, "f", "file") or "Makefile", rest)
    elif name == "sbatch":
        file = next((word for word in rest if not word.startswith("-")), None)
        if file is not None:
            yield context.start("shell", file, rest[rest.index(file) + 1 :])
    elif name == "eval":
        yield from read_text(" ".join(rest), context.shell)
    elif name.endswith(".py"):
        yield context.start("python", program, rest)
    elif re.fullmatch(r".*\.(sh|bash|sbatch|slurm)", name):
        yield context.start("shell", program, rest)
    elif name in _WRAPPERS or context.launcher is not None:
        index = next((i for i, word in enumerate(rest) if _is_program(word)), None)
        if index is not None:
            yield from context.inner(rest[index:])


def _starts_in_folder(program: str) -> bool:
    """Whether only the folder of a path is unknown: `$ROOT/train.py`."""
    folder, slash, rest = program.partition("/")
    return bool(slash) and "$" in folder and "$" not in rest


def _is_program(word: str) -> bool:
    """Whether a word after a wrapper's options is the program that it runs."""
    name = PurePosixPath(word).name
    return (
        bool(_PYTHON.fullmatch(word))
        or (bool(_SHELLS.fullmatch(word)) and word not in (".", "source"))
        or name in (*_LAUNCHERS, "make")
        or bool(re.fullmatch(r"[\w./${}-]+\.(py|sh|bash)", word))
    )


def _python(rest: list[str], context: _Context) -> Iterator[Start]:
    index = 0
    while index < len(rest):
        word = rest[index]
        if word == "-m" or (word.startswith("-m") and len(word) > 2):
            module = word[2:] or (rest[index + 1] if index + 1 < len(rest) else "")
            following = rest[index + (2 if word == "-m" else 1) :]
            if module in _MODULES:
                yield from _launched(_MODULES[module] or "python", following, context)
            elif module:
                yield context.start("module", module, following)
            return
        if word in ("-c", "-") or word.startswith("-c"):
            return
        if not word.startswith("-"):
            yield context.start("python", word, rest[index + 1 :])
            return
        index += 2 if word in _PYTHON_VALUES else 1


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
                    )
            return
        rest = rest[2:] if rest[0] in ("-o", "--rcfile", "+o") else rest[1:]
    if rest and not (program in ("source", ".") and _ENVIRONMENT.fullmatch(rest[0])):
        yield context.start("shell", rest[0], rest[1:])


def _launched(kind: str, rest: list[str], context: _Context) -> Iterator[Start]:
    """The script that a launcher starts after its own options."""
    flags = _FLAGS[kind].replace("-", "_").split()
    options: dict[str, str] = {}
    index, is_module, runs_program = 0, False, kind in ("mpi", "srun", "python")
    while index < len(rest):
        word = rest[index]
        if word == "--":
            index += 1
            break
        if not word.startswith("-") or word == "-":
            break
        name, equals, value = word.lstrip("-").partition("=")
        name = name.replace("-", "_")
        is_module = is_module or (kind != "python" and name in ("m", "module"))
        runs_program = runs_program or name == "no_python"
        takes_value = not equals and name not in flags and kind != "python"
        if takes_value and kind in ("mpi", "srun"):
            # Their options are too many to list: a program that follows an option is no value of it.
            takes_value = (
                index + 1 < len(rest) and not _is_program(rest[index + 1]) and rest[index + 1][:1] != "-"
            )
        if takes_value and name in ("x", "export") and index + 1 < len(rest):
            options.setdefault(name, rest[index + 1])
        elif takes_value and index + 1 < len(rest):
            options[name] = rest[index + 1]
        elif equals:
            options[name] = value
        index += 2 if takes_value else 1
    if index >= len(rest):
        return
    launcher = None if kind == "python" else _launcher(kind, options)
    if runs_program:
        found = next((i for i, other in enumerate(rest[index:], index) if _is_program(other)), None)
        if found is not None:
            yield from context.inner(rest[found:], launcher)
        return
    inner = replace(context, launcher=launcher or context.launcher)
    yield inner.start("module" if is_module else "python", rest[index], rest[index + 1 :])


def _launcher(kind: str, options: Mapping[str, str]) -> Launcher | None:
    def number(*names: str) -> tuple[int | None, str]:
        for name in names:
            if name in options:
                text = options[name]
                return (int(text), name) if text.isdigit() else (None, name)
        return None, ""

    match kind:
        case "torchrun":
            processes, name = number("nproc_per_node", "nproc")
            hosts, given = number("nnodes")
            is_open = bool(given) and hosts is None
            if not name:
                processes = 1
            return Launcher(
                "torchrun",
                processes,
                None,
                None if is_open else hosts or 1,
                "--nproc_per_node",
                is_known=processes is not None or options.get(name) in ("gpu", "auto"),
            )
        case "accelerate":
            total, name = number("num_processes", "n")
            hosts, given = number("num_machines")
            has_file = "config_file" in options
            known_hosts = None if (given and hosts is None) or (has_file and not given) else hosts or 1
            return Launcher(
                "accelerate",
                None,
                total,
                known_hosts,
                "--num_processes",
                is_known=total is not None or not (name or has_file),
            )
        case "deepspeed":
            processes, name = number("num_gpus")
            named = re.fullmatch(r"localhost:(\d+(?:,\d+)*)", options.get("include", options.get("i", "")))
            if named is not None:
                gpus = named.group(1).split(",")
                return Launcher("deepspeed", len(gpus), None, 1, "--include")
            hosts, given = number("num_nodes")
            several = {"hostfile", "H", "include", "i", "exclude", "e"} & set(options)
            return Launcher(
                "deepspeed",
                processes,
                None,
                None if several or given else 1,
                "--num_gpus",
                is_known=(processes is not None or not name) and not several,
            )
        case "mpi":
            total, name = number("np", "n", "c")
            several = {"host", "H", "hostfile", "machinefile", "hosts", "f"} & set(options)
            return Launcher(
                "mpi", None, total, None if several else 1, f"-{name or 'np'}", is_known=total is not None
            )
        case "srun":
            each, name = number("ntasks_per_node")
            total, given = number("ntasks", "n")
            hosts, _ = number("nodes", "N")
            if not name and not given:
                # The allocation decides.
                return None
            return Launcher(
                "srun",
                each,
                total,
                hosts,
                f"--{(name or 'ntasks').replace('_', '-')}",
                is_known=each is not None or total is not None,
            )
        case _:
            return None


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
