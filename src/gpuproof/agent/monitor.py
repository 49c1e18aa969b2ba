"""Monitors GPUs and processes while the script runs and judges the result."""

from __future__ import annotations

from typing import Any, Callable

from gpuproof.agent.job import AgentJob
from gpuproof.agent.verdict import Expectation, Verdict, judge, used_so_far
from gpuproof.gpu.sampler import Sampler
from gpuproof.gpu.telemetry import Sample, Telemetry


class Monitor:
    """Samples GPUs and processes while the script runs, and computes the verdict afterwards.

    Args:
        job: states what is expected.
        reaper: process id whose descendants are the script's processes.
        visible_devices: the script's `CUDA_VISIBLE_DEVICES`.
        show: receives a summary of the newest sample, once a second.
    """

    def __init__(
        self,
        job: AgentJob,
        reaper: int,
        visible_devices: str | None,
        show: Callable[[dict[str, Any]], None],
    ) -> None:
        self._expectation = Expectation(
            gpus=job.expected_gpus,
            gpu_name=job.expected_gpu_name,
            because=job.expected_because,
            # A job that asks for a GPU requires it, unless the job states otherwise.
            required=bool(job.expected_gpus) if job.require_gpu is None else job.require_gpu,
        )
        self._show = show
        self._sampler = Sampler(reaper, on_sample=self._on_sample, visible_devices=visible_devices)

    def start(self) -> None:
        """Start sampling in a thread; the first sample is taken immediately."""
        self._sampler.start()

    def gpu_used(self) -> bool | None:
        """Whether a GPU has done work for the job so far; `None` if unknown."""
        return used_so_far(self._sampler.telemetry())

    def stop(self) -> Telemetry:
        """Take a last sample and return the telemetry of the whole run."""
        return self._sampler.stop()

    def verdict(self, telemetry: Telemetry) -> Verdict:
        """Judge the telemetry against what the job expects."""
        return judge(self._expectation, telemetry)

    def _on_sample(self, sample: Sample) -> None:
        tree = sample.tree
        self._show(
            {
                "seconds": round(sample.t, 1),
                "gpus": [
                    {
                        "index": gpu.index,
                        "utilization": gpu.utilization,
                        "memory_used": gpu.memory_used,
                        "memory_total": gpu.memory_total,
                    }
                    for gpu in sample.gpus
                ],
                "cores": round(sample.cpu.cores, 2) if sample.cpu else None,
                "rss": tree.rss if tree else None,
            }
        )
