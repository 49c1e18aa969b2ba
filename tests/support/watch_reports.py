"""Reports of `gpuproof watch` as hosts leave them."""

from __future__ import annotations

from gpuproof.agent.verdict import CPU_ONLY, USED, Expectation, Verdict
from gpuproof.agent.verdict.schema import GpuVerdict
from gpuproof.watch.report import WatchReport


def host_report(host: str, worked: bool = True) -> WatchReport:
    """The report of a host with two GPUs, both of which were required.

    Args:
        worked: whether they did work.
    """
    verdict = Verdict(
        USED if worked else CPU_ONLY,
        "",
        expectation=Expectation(2, required=True),
        gpus_expected=2,
        gpus_working=2 if worked else 0,
        gpus_present=2,
        gpu_requirement_met=worked,
        gpus=tuple(GpuVerdict(index, worked=worked, touched=worked) for index in range(2)),
        seconds=60.0,
    )
    return WatchReport(verdict.to_json(), host=host, started=1000.0, seconds=60.0, exit_code=0)
