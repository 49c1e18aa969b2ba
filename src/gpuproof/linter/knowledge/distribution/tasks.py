"""The tasks of a job that srun or mpirun starts, by their own options and those of the allocation."""

from __future__ import annotations

from gpuproof.linter.analysis.values import ABSENT, UNKNOWN, Value, known
from gpuproof.linter.jobs.definition import JobDefinition
from gpuproof.linter.knowledge.distribution.launchers import host_count
from gpuproof.linter.source.span import Span


def tasks_per_host(job: JobDefinition) -> Value:
    """The tasks that srun or mpirun starts on each host; unknown if neither its options nor the allocation say so."""
    start = job.start
    if start is None:
        return UNKNOWN
    outer = start.outer
    options = outer.options if outer is not None else {}
    hosts = host_count(job) or (1 if job.source == "command" else None)
    # `-N` is the number of nodes for srun, and of processes on each for mpirun.
    each = ("ntasks_per_node",) if outer is None or outer.name == "srun" else ("npernode", "ppn", "N")
    for name in (*each, "ntasks", "n", "np", "c"):
        if name in options:
            return _each(options[name], 1 if name in each else hosts)
    if job.source != "slurm":
        return UNKNOWN
    for name, total in (("ntasks-per-node", False), ("ntasks", True)):
        written = job.arguments.get(name, ABSENT)
        if written.text is not None:
            return _each(written.text, hosts if total else 1).with_span(written.span)
    return known(1)


def runs_on_first_host_only(job: JobDefinition) -> bool:
    """Whether a Slurm script certainly runs its program once, on the first node: it starts it without srun or the like."""
    if job.source != "slurm" or job.start is None or job.start.launchers[:1] in (("srun",), ("mpi",)):
        return False
    return not job.start.is_conditional


def command_span(job: JobDefinition) -> Span:
    """The line of the command that starts a job's script, if a shell script has it; otherwise where the job names it."""
    unit, start = job.span.unit, job.start
    is_shell = start is not None and job.source in ("slurm", "command") and unit.kind == "shell"
    if not is_shell or start is None or start.line > len(unit.lines):
        return job.where(job.command, job.entry_point)
    line = unit.lines[start.line - 1]
    return unit.span(start.line, len(line) - len(line.lstrip()) + 1, start.line, len(line) + 1)


def _each(text: str, hosts: int | None) -> Value:
    if not text.isdigit() or not hosts or int(text) % hosts:
        return UNKNOWN
    return known(int(text) // hosts)
