"""Energy of the job's GPUs: their power, integrated over the run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gpuproof.agent.verdict.schema import Energy, Expectation, GpuVerdict


def host_energy(expectation: Expectation, gpus: Sequence[GpuVerdict]) -> Energy | None:
    """The energy of the GPUs that a host's job held; `None` if no power of theirs could be read.

    The job held a GPU that it opened. A job that asked for all GPUs of its machine held the others, too, whose idle power is
    its own, except those that other processes used.
    """
    has_all = expectation.count >= len(gpus)
    held = [gpu for gpu in gpus if gpu.touched or (has_all and not gpu.others_present)]
    joules = [gpu.energy_j for gpu in held if gpu.energy_j is not None]
    return Energy(sum(joules), len(joules)) if joules else None


def job_energy(hosts: Iterable[Energy | None]) -> Energy | None:
    """The energy of all hosts for which it is known."""
    known = [energy for energy in hosts if energy is not None]
    if not known:
        return None
    return Energy(sum(energy.joules for energy in known), sum(energy.gpus for energy in known))
