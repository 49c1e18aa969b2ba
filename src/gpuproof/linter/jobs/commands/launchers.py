"""The launchers of commands: their options, what they start, and how many processes it becomes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath


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
        options: the options as they are written, without dashes and with `_`; those without a value are empty texts.
    """

    name: str
    processes: int | None = None
    total: int | None = None
    hosts: int | None = None
    option: str = ""
    is_known: bool = True
    options: Mapping[str, str] = field(default_factory=dict[str, str], compare=False)


@dataclass(frozen=True)
class Launch:
    """The command line of a launcher.

    Args:
        words: what follows its options.
        is_module: whether the first of the words is a module.
        runs_program: whether it starts any program, not a script of Python.
        launcher: the launcher; None for modules of Python that run a script once, and where an allocation decides.
        options: its options as they are written.
    """

    words: list[str]
    is_module: bool
    runs_program: bool
    launcher: Launcher | None
    options: Mapping[str, str]


LAUNCHERS = {
    "torchrun": "torchrun",
    "accelerate": "accelerate",
    "accelerate-launch": "accelerate",
    "deepspeed": "deepspeed",
    "mpirun": "mpi",
    "mpiexec": "mpi",
    "horovodrun": "mpi",
    "srun": "srun",
}
PYTHON = re.compile(r"(.*/)?(python[\d.]*|pypy[\d.]*)(\.exe)?|\$\(which python[\d.]*\)|\$\{?PYTHON\w*\}?")
SHELLS = re.compile(r"(.*/)?(bash|sh|zsh|dash|ksh)|source|\.")
MODULES = {
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


def read_launch(kind: str, rest: list[str]) -> Launch:
    """The options of a launcher, and what follows them."""
    flags = _FLAGS[kind].replace("-", "_").split()
    options: dict[str, str] = {}
    given: dict[str, str] = {}
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
                index + 1 < len(rest) and not is_program(rest[index + 1]) and rest[index + 1][:1] != "-"
            )
        if takes_value and name in ("x", "export") and index + 1 < len(rest):
            options.setdefault(name, rest[index + 1])
        elif takes_value and index + 1 < len(rest):
            options[name] = rest[index + 1]
        elif equals:
            options[name] = value
        else:
            given[name] = ""
        index += 2 if takes_value else 1
    launcher = None if kind == "python" else _launcher(kind, options)
    written = {**given, **options}
    launcher = replace(launcher, options=written) if launcher is not None else None
    return Launch(rest[index:], is_module, runs_program, launcher, written)


def is_program(word: str) -> bool:
    """Whether a word after a wrapper's options is the program that it runs."""
    name = PurePosixPath(word).name
    return (
        bool(PYTHON.fullmatch(word))
        or (bool(SHELLS.fullmatch(word)) and word not in (".", "source"))
        or name in (*LAUNCHERS, "make")
        or bool(re.fullmatch(r"[\w./${}-]+\.(py|sh|bash)", word))
    )


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
                None if several or (given and hosts is None) else hosts or 1,
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
