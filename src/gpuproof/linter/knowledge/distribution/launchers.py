"""The launchers that the `distribution` of a job enables, and its number of hosts."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from gpuproof.linter.analysis.call import Call, calls_named
from gpuproof.linter.analysis.local_imports import local_modules
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.usage import find_uses, uses
from gpuproof.linter.analysis.values import ABSENT, UNKNOWN, Value, known
from gpuproof.linter.jobs.definition import JobDefinition
from gpuproof.linter.knowledge.distribution.accelerate_config import launch_settings

if TYPE_CHECKING:
    from gpuproof.linter.jobs.commands.launchers import Launcher

_SHARDED = re.compile(r"^ShardedByS3Key$")
_HOSTS_TEXT = re.compile(
    r"SM_HOSTS|SM_CURRENT_HOST|TF_CONFIG|resource_?config|current_host|OMPI_|PMIX?_RANK", re.IGNORECASE
)
_HOSTS_ATTRIBUTES = frozenset({"current_host", "hosts"})
_WHOLE = re.compile(r"^(vars|asdict)$")
"""Functions that read all command-line arguments."""
_OF_GPUPROOF: Mapping[str, tuple[str, ...]] = {
    "none": (),
    "torchrun": ("torch_distributed",),
    # One process on each host; the script itself uses all GPUs of it.
    "mirrored": (),
    "multi_worker_mirrored": ("multi_worker_mirrored_strategy",),
    "parameter_server": ("parameter_server",),
    "mpi": ("mpi",),
}
"""`auto` is missing: what it starts is unknown here."""
_OF_COMMANDS = {"torchrun": "torch_distributed"}
_OF_SDK_V3 = {"Torchrun": "torch_distributed", "MPI": "mpi"}


def enabled_launchers(job: JobDefinition) -> tuple[str, ...] | None:
    """The launchers that a job certainly enables, such as `torch_distributed`; None if unknown.

    `smdistributed` has a second part: `smdistributed.dataparallel`.
    """
    if job.start is not None and (launcher := job.start.launcher) is not None:
        return None if job.start.is_conditional else (_OF_COMMANDS.get(launcher.name, launcher.name),)
    if job.source == "slurm" and {"ntasks", "ntasks-per-node"} & set(job.arguments):
        return None
    entries = job.distribution.entries
    if job.source == "gpuproof" and (named := _named_launcher(job)) is not None:
        return _OF_GPUPROOF.get(named)
    if entries is None:
        is_off = job.distribution.is_absent or (
            job.distribution.is_known
            and job.distribution.value is None
            and job.distribution.options == (None,)
        )
        return () if is_off else None
    if not entries.complete:
        return None
    found: list[str] = []
    for key, value in entries.items():
        if job.source == "sagemaker-v3":
            found.append(_OF_SDK_V3.get(str(key), str(key)))
            continue
        parts = value.parts if key == "smdistributed" else {"": value}
        for name, options in parts.items():
            flag = options.at("enabled")
            if flag.is_unknown:
                return None
            if flag.flag:
                found.append(f"{key}.{name}" if name else str(key))
    return tuple(found)


def has_no_launcher(job: JobDefinition) -> bool:
    """Whether certainly only one process is started on each host."""
    if not job.argument("distributions").is_absent or (job.start is not None and job.start.is_conditional):
        return False
    return enabled_launchers(job) == ()


def format_distribution(job: JobDefinition, launcher: str) -> str:
    """What to write into a job so that it enables a launcher, such as `torch_distributed`, in the form of its source."""
    if not job.command.is_absent:
        return "torchrun --nproc_per_node=gpu in the command"
    if job.source == "gpuproof":
        return f"distribution: {launcher_name(job, launcher)}"
    if job.source == "remote":
        return "use_torchrun=True" if launcher == "torch_distributed" else "use_mpirun=True"
    classes = {name: form for form, name in _OF_SDK_V3.items()}
    if job.source == "sagemaker-v3" and launcher in classes:
        return f"distributed={classes[launcher]}()"
    return f'distribution={{"{launcher}": {{"enabled": True}}}}'


def launcher_name(job: JobDefinition, launcher: str) -> str:
    """The name of a launcher in the job's own form: `torchrun` in a `gpuproof.yaml`, `torch_distributed` in the SDK."""
    names = {started[0]: name for name, started in _OF_GPUPROOF.items() if started}
    return names.get(launcher, launcher) if job.source == "gpuproof" else launcher


def processes_per_host(job: JobDefinition) -> Value:
    """The number of processes that a job's launcher starts on each host; absent if the job leaves it to the launcher."""
    if job.start is not None and (launcher := job.start.launcher) is not None:
        return _processes_of_command(job, launcher)
    if job.source == "gpuproof" and _named_launcher(job) is not None:
        return job.distribution.at("processes_per_host") if job.distribution.entries is not None else ABSENT
    if job.source == "sagemaker-v3":
        if counts_all_ranks(job):
            return UNKNOWN
        parts = job.distribution.parts.values()
        return next((part.at("process_count_per_node") for part in parts), ABSENT)
    if job.source == "remote":
        return next((part.at("processes_per_host") for part in job.distribution.parts.values()), ABSENT)
    return job.distribution.at("mpi", "processes_per_host")


def _processes_of_command(job: JobDefinition, launcher: Launcher) -> Value:
    hosts = host_count(job)
    settings = launch_settings(job)
    if settings is not None and launcher.total is None and settings.number("num_machines") in (None, hosts):
        total = settings.number("num_processes")
        each = total // hosts if total and hosts and total % hosts == 0 else None
        return known(each, settings.span("num_processes")) if each else UNKNOWN
    if not launcher.is_known:
        return UNKNOWN
    span = job.where(job.command, job.entry_point)
    if launcher.processes is not None:
        return known(launcher.processes, span)
    if launcher.total is None:
        return ABSENT
    return known(launcher.total // hosts, span) if hosts and launcher.total % hosts == 0 else UNKNOWN


def connects_hosts(job: JobDefinition) -> bool:
    """Whether the launcher in the job's command may start one group of processes on all hosts; true if in doubt.

    torchrun, `accelerate launch` and deepspeed start a group on their own host unless they are told the number of hosts.
    """
    launcher = job.start.launcher if job.start is not None else None
    return launcher is None or launcher.hosts != 1 or (job.start is not None and job.start.is_conditional)


def counts_all_ranks(job: JobDefinition) -> bool:
    """Whether `process_count_per_node` is the number of ranks on all hosts together: `MPI()` of the SDK v3, unless on one host.

    Source: `-np` in mpi_driver.py of sagemaker-train, up to 1.27.
    """
    one_host = job.instance_count.is_absent or host_count(job) == 1
    return job.source == "sagemaker-v3" and "MPI" in job.distribution.parts and not one_host


def format_spread_ranks(hosts: int, each: int) -> str:
    """What to write for `MPI()` of the SDK v3 with which every host starts a number of ranks."""
    options = f'["--map-by", "ppr:{each}:node"]'
    return f"distributed=MPI(process_count_per_node={hosts * each}, mpi_additional_options={options})"


def host_count(job: JobDefinition) -> int | None:
    """The number of hosts of a job, known or default; None if unknown."""
    if job.source == "gpuproof" and job.instance_count.is_absent:
        return 1
    number = job.instance_count.number
    return int(number) if number is not None else None


def reads_hosts(script: Module) -> bool:
    """Whether a script reads which hosts there are or which one it runs on, by which it may share the work.

    `add_argument("--hosts", default=json.loads(os.environ["SM_HOSTS"]))` alone, as in AWS's examples, reads nothing.
    """
    return script.loader.cached("reads hosts", script.unit, lambda: _reads_hosts(local_modules(script)))


def _reads_hosts(modules: list[Module]) -> bool:
    read = {node.attr for module in modules for node in module.nodes(ast.Attribute)}
    if read & _HOSTS_ATTRIBUTES or any(uses(module, _WHOLE, "call") for module in modules):
        return True
    for module in modules:
        for use in find_uses(module, "string"):
            if not _HOSTS_TEXT.search(use.text):
                continue
            declared = next(
                (
                    call
                    for call in calls_named(module, "add_argument")
                    if module.tree.is_within(use.node, call.node)
                ),
                None,
            )
            if declared is None or read & _destinations(declared):
                return True
    return False


def _destinations(declared: Call) -> set[str]:
    """The attributes that hold a command-line argument."""
    named = declared.argument("dest").text
    flags = [declared.argument(position=place).text or "" for place in range(len(declared.node.args))]
    return {named} if named else {flag.lstrip("-").replace("-", "_") for flag in flags}


def shards_input(job: JobDefinition) -> bool:
    """Whether the job gives each host its own part of an input: `distribution="ShardedByS3Key"` in its channels."""
    if any(_is_sharded(value) for value in (*job.channels.values(), *job.arguments.values())):
        return True
    if job.module is None or job.call is None:
        return False
    module, made = job.module, job.call.node
    inputs = [
        call.expression("inputs", 0)
        for call in calls_named(module, "fit", "train", "run", "TrainingStep")
        if call.receiver is None or module.origin(call.receiver) is made
    ]
    code = [value for node in inputs if node is not None for value in (node, *_values_in(module, node))]
    return uses(module, _SHARDED, "string", within=[made, *code])


def _named_launcher(job: JobDefinition) -> str | None:
    """The launcher that a `gpuproof.yaml` names, as text or in a mapping; None if it uses the SageMaker SDK's form."""
    return job.distribution.text or job.distribution.at("launcher").text


def _values_in(module: Module, node: ast.expr) -> list[ast.AST]:
    """The expressions behind the names in an expression."""
    names = [child for child in ast.walk(node) if isinstance(child, ast.Name)]
    values = [
        binding.value for name in names for binding in module.reaching(name) if binding.value is not None
    ]
    inner = [child for value in values for child in ast.walk(value) if isinstance(child, ast.Name)]
    return [*values, *(made for value in inner if (made := module.origin(value)) is not None)]


def _is_sharded(value: Value) -> bool:
    if value.entries is not None:
        return any(_is_sharded(entry) for entry in value.entries.values())
    if value.items is not None:
        return any(_is_sharded(item) for item in value.items)
    return value.text == "ShardedByS3Key"
