"""What the agent measures while the script runs, and what it makes of it in the end."""

from __future__ import annotations

from typing import Any, Callable

from gpuproof.agent.job import AgentJob
from gpuproof.agent.verdict import Expectation, Verdict, judge, used_so_far
from gpuproof.gpu.sampler import Sampler
from gpuproof.gpu.telemetry import Evidence, Sample


class Watcher:
    """Samples GPUs and processes beside the script and gives the verdict at the end.

    Args:
        job: says what is expected.
        reaper: process id whose descendants are the script's processes.
        visible_devices: the script's `CUDA_VISIBLE_DEVICES`.
        show: gets the newest sample in short, once a second.
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
            # A job that asks for a GPU means it, unless it says otherwise.
            required=bool(job.expected_gpus) if job.require_gpu is None else job.require_gpu,
        )
        self._show = show
        self._sampler = Sampler(reaper, on_sample=self._sampled, visible_devices=visible_devices)

    def start(self) -> None:
        """Begin; the first sample is taken at once, in a thread of its own."""
        self._sampler.start()

    def gpu_used(self) -> bool | None:
        """Whether a GPU has done work for the job so far; `None` where that cannot be told."""
        return used_so_far(self._sampler.evidence())

    def stop(self) -> Evidence:
        """Take a last sample; all that was seen."""
        return self._sampler.stop()

    def verdict(self, evidence: Evidence) -> Verdict:
        """What is to be made of it."""
        return judge(self._expectation, evidence)

    def _sampled(self, sample: Sample) -> None:
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
