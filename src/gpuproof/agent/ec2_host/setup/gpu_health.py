"""The checks of `gpuproof doctor --quick` that need no framework and no AWS, on the instance before its job."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from gpuproof.agent.ec2_host.parameters import HostParameters
from gpuproof.findings import Finding, Severity
from gpuproof.gpu.checks import (
    compute_mode,
    ecc_errors,
    fabric_manager,
    gpu_memory,
    gpu_processes,
    mig,
    pcie_link,
    throttling,
    xid_events,
)
from gpuproof.gpu.checks.states import Gpus, read_gpu_states
from gpuproof.util.kernel_log import parse_kernel_log, read_ring_buffer

_OF_HARDWARE = ("D601", "D603", "D605", "D610", "D611")
"""What another instance may not have: memory errors, worn memory, no spare rows, failures since it started."""


class GpuUnhealthy(Exception):
    """A GPU of the instance is in a state in which the job would fail; the message says which."""


def read_findings(
    parameters: HostParameters, environment: Mapping[str, str], root: Path = Path("/")
) -> list[Finding]:
    """What is wrong with the GPUs, worst first; empty if nothing is, or if NVML does not answer.

    Args:
        root: the folder that holds `/dev`, `/proc` and `/sys`.
    """
    gpus = read_gpu_states(environment)
    if gpus is None:
        return []
    return sorted(_evaluate(gpus, parameters, root), key=lambda finding: finding.severity.rank)


def raise_for(findings: list[Finding]) -> None:
    """Raise for findings with which the job would fail.

    Raises:
        GpuUnhealthy: there is one.
    """
    errors = [finding for finding in findings if finding.severity is Severity.ERROR]
    if not errors:
        return
    text = " ".join(f"{finding.code}: {finding.message}" for finding in errors)
    if all(finding.code in _OF_HARDWARE for finding in errors):
        raise GpuUnhealthy(f"{text} Run the job again: it gets another instance.")
    raise GpuUnhealthy(f"{text} The job needs another AMI, or other settings of it (ec2: ami).")


def _evaluate(gpus: Gpus, parameters: HostParameters, root: Path) -> Iterator[Finding]:
    yield from ecc_errors.evaluate(gpus)
    yield from mig.evaluate(gpus)
    yield from compute_mode.evaluate(gpus)
    yield from pcie_link.evaluate(gpus)
    yield from throttling.evaluate(gpus)
    if log := read_ring_buffer(root / "dev/kmsg"):
        events = xid_events.find_xid_events(parse_kernel_log(log))
        yield from xid_events.evaluate(xid_events.Reading(events, xid_events.gpu_labels(gpus)))
    yield from gpu_processes.evaluate(gpu_processes.read_uses(gpus, root, in_container=False))
    fabric = fabric_manager.read_fabric(gpus, root, in_container=False)
    if fabric is not None:
        yield from fabric_manager.evaluate(fabric)
    for gpu in gpus.states:
        small = gpu_memory.evaluate(
            gpu.index, gpu.info.name, gpu.info.memory_total, parameters.gpu_memory, parameters.instance_type
        )
        if small is not None:
            yield small
