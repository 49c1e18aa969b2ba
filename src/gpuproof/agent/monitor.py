"""Monitors GPUs and processes while the script runs and judges the result."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any, Callable

from gpuproof.agent.job import AgentJob, PlannedFlops
from gpuproof.agent.verdict import Expectation, Verdict, host_throughput, judge, used_so_far
from gpuproof.agent.verdict.driver import DriverProblem, driver_problem
from gpuproof.agent.verdict.events import exit_event, host_events
from gpuproof.agent.verdict.evidence import RunEvent, Steps
from gpuproof.agent.verdict.gpus import hidden_gpus
from gpuproof.agent.verdict.judge import used_reason
from gpuproof.agent.verdict.limiting_phase import Machine, with_limiting_phase
from gpuproof.agent.verdict.mfu import host_mfu
from gpuproof.agent.verdict.recent import RecentActivity, Wait
from gpuproof.agent.verdict.schema import CPU_ONLY
from gpuproof.agent.verdict.steps import host_steps
from gpuproof.agent.verdict.stragglers import HostFacts, find_straggler
from gpuproof.gpu.cuda import read_cuda
from gpuproof.gpu.cuda_compat import DriverLibrary
from gpuproof.gpu.framework_probe import read_packages
from gpuproof.gpu.history import RecentMeans
from gpuproof.gpu.nvml import GpuInfo
from gpuproof.gpu.sampler import Sampler, cpu_count
from gpuproof.gpu.telemetry import Sample, Telemetry

_DISTRIBUTIONS = {"pytorch": "torch", "huggingface": "torch", "tensorflow": "tensorflow"}
_PROBE_S = 20.0
"""SageMaker kills a container 120 s after it has asked it to stop, and the verdict comes last."""
_MOST_DOCUMENTS = 4096
_LONGEST_COUNTS = 64 << 10
_LONGEST_STEPS = 512 << 10
"""Bytes. The script may write anything into these folders."""
_STEPS_EVERY_S = 5.0
_MOST_LIVE_DOCUMENTS = 16
"""While the script runs, the steps of so many of its processes are read."""


@dataclass(frozen=True)
class MonitorSettings:
    """What a monitor has to know of a job.

    Args:
        python: the script's interpreter; empty if it has none.
        framework: `tensorflow`, `pytorch` … if the job names it.
        hosts: number of hosts of the job.
        visible_devices: the GPUs of this host of the job, if other hosts use the machine's other GPUs.
        planned_flops: of a step, if the script was planned.
    """

    expectation: Expectation
    python: str
    framework: str | None = None
    hosts: int = 1
    visible_devices: str | None = None
    planned_flops: PlannedFlops | None = None

    @classmethod
    def of_job(cls, job: AgentJob) -> MonitorSettings:
        """Those of a job that the agent runs."""
        return cls(
            Expectation(
                gpus=job.expected_gpus,
                gpu_name=job.expected_gpu_name,
                because=job.expected_because,
                # A job that asks for a GPU requires it, unless the job states otherwise.
                required=bool(job.expected_gpus) if job.require_gpu is None else job.require_gpu,
            ),
            job.python,
            job.framework,
            len(job.hosts),
            job.visible_devices,
            job.planned_flops,
        )


class Monitor:
    """Samples GPUs and processes while the script runs, and computes the verdict afterwards.

    Args:
        roots: process ids; they and their descendants are the script's processes.
        environment: the script's variables.
        left_out: processes among them that are not the script's.
        age_s: seconds for which the script was running already; `None` if it starts later.
        settles: whether only a part of the script is watched, and work of the part before may still show in the first second.
        show: receives a summary of the newest sample, once a second.
        on_sample: receives each sample, with the GPUs of this host.
        steps: the folder in which its processes record their steps, for what its GPUs wait for now.
    """

    def __init__(
        self,
        settings: MonitorSettings,
        roots: int | Iterable[int],
        environment: Mapping[str, str],
        show: Callable[[dict[str, Any]], None] | None = None,
        on_sample: Callable[[Sample], None] | None = None,
        *,
        left_out: Iterable[int] = (),
        age_s: float | None = None,
        settles: bool = False,
        steps: Path | None = None,
    ) -> None:
        self._settings = settings
        self._show = show
        self._observer = on_sample
        self._host_devices = settings.visible_devices
        self._other_gpus: frozenset[int] | None = None
        self._environment = environment
        self._driver_problem: DriverProblem | None = None
        self._asked = False
        self._steps = steps
        self._steps_due = 0.0
        self._infos: tuple[GpuInfo, ...] = ()
        self._past = RecentMeans()
        self._recent = RecentActivity(cpu_count=cpu_count(), has_peers=self._has_peers)
        self._events: list[RunEvent] = []
        self._sampler = Sampler(
            roots,
            on_sample=self._on_sample,
            left_out=left_out,
            visible_devices=environment.get("CUDA_VISIBLE_DEVICES"),
            age_s=age_s,
            settles=settles,
        )

    def set_roots(self, roots: Iterable[int], left_out: Iterable[int] | None = None) -> None:
        """Replace the processes at the top of the script's trees, and those left out; any thread may do so."""
        self._sampler.set_roots(roots, left_out)

    def set_visible_devices(self, devices: str | None, of_host: str | None = None) -> None:
        """Replace the script's `CUDA_VISIBLE_DEVICES`.

        Args:
            of_host: the `visible_devices` of the settings.
        """
        self._sampler.set_visible_devices(devices)
        self._host_devices, self._other_gpus = of_host, None

    def read_first(self) -> None:
        """Take the first sample before the script starts, so that nothing in it can be the script's own work."""
        self._sampler.read_first()

    def start(self) -> None:
        """Start sampling in a thread; the first sample is taken immediately, unless `read_first` has taken it."""
        self._sampler.start()

    def gpu_used(self) -> bool | None:
        """Whether a GPU has done work for the job so far; `None` if unknown."""
        return used_so_far(self.telemetry(), has_peers=self._has_peers)

    def driver_problem(self) -> DriverProblem | None:
        """Whether the driver is too old for the script's framework; reads both in processes of their own, once."""
        if not self._asked and self._settings.python:
            self._asked = True
            packages = read_packages(self._settings.python, self._environment, _PROBE_S)
            own = {
                name: cuda
                for name, cuda in packages.cuda.items()
                if name == _DISTRIBUTIONS.get(self._settings.framework or "")
            }
            built = own or packages.cuda
            runs = read_cuda(self._environment, _PROBE_S).version if built else None
            versions = {"torch": packages.torch or "", "tensorflow": packages.tensorflow or ""}
            driver = self._sampler.telemetry().driver_version
            self._driver_problem = driver_problem(built, runs, driver, versions)
        return self._driver_problem

    def record_stop(self, kind: str, why: str) -> None:
        """Record that the script is being ended.

        Args:
            kind: a kind of `gpuproof.agent.verdict.events`.
        """
        self._events.append(RunEvent(self._seconds(), kind, why))

    def record_exit(self, code: int, *, is_failure: bool) -> None:
        """Record that the script has ended; a negative code is minus the number of the signal that killed it."""
        self._events.append(exit_event(self._seconds(), code, is_failure=is_failure))

    def expect(self, expectation: Expectation) -> None:
        """Replace what is expected of the script."""
        self._settings = replace(self._settings, expectation=expectation)

    def telemetry(self) -> Telemetry:
        """Return the telemetry so far."""
        return self._of_host(self._sampler.telemetry())

    def so_far(self) -> Verdict:
        """Judge the telemetry so far; without steps and throughput."""
        return judge(self._settings.expectation, self.telemetry(), has_peers=self._has_peers)

    def stop(self) -> Telemetry:
        """Take a last sample and return the telemetry of the whole run."""
        return self._sampler.stop()

    def verdict(
        self,
        telemetry: Telemetry,
        throughput: Path | None = None,
        steps: Path | None = None,
        driver: DriverLibrary | None = None,
    ) -> Verdict:
        """Judge the telemetry against what the job expects.

        Args:
            throughput: the folder with what the script has counted, if any.
            steps: the folder with what its processes have recorded of their steps, if any.
            driver: the driver library that the script loaded, if the agent chose it.
        """
        step_documents = list(read_documents(steps, _LONGEST_STEPS)) if steps is not None else []
        recorded = host_steps(step_documents)
        verdict = judge(
            self._settings.expectation, self._of_host(telemetry), recorded, has_peers=self._has_peers
        )
        if verdict.outcome == CPU_ONLY and verdict.gpus and (problem := self.driver_problem()) is not None:
            verdict = replace(verdict, cause=problem.cause, reason=problem.reason, remedy=problem.remedy)
        counts = list(read_documents(throughput, _LONGEST_COUNTS)) if throughput is not None else []
        return replace(
            _with_steps(verdict, telemetry, recorded),
            events=host_events(telemetry, verdict.gpus, step_documents, self._sampler.began_at, self._events),
            throughput=host_throughput(counts),
            mfu=host_mfu(
                verdict.gpus, counts, step_documents, self._settings.planned_flops, self._settings.hosts
            ),
            cuda_compat=driver.compat if driver is not None else None,
            driver_version=verdict.driver_version or (driver.driver if driver is not None else None),
        )

    def _seconds(self) -> float:
        return round(max(time.time() - self._sampler.began_at, 0.0), 1)

    @property
    def _has_peers(self) -> bool:
        return self._settings.hosts > 1

    def _of_host(self, telemetry: Telemetry) -> Telemetry:
        """The telemetry without the GPUs that belong to other hosts of the job on this machine."""
        if self._host_devices is None:
            return telemetry
        others = hidden_gpus(self._host_devices, telemetry.gpus)
        own = tuple(gpu for gpu in telemetry.gpus if gpu.info.index not in others)
        return replace(telemetry, gpus=own, visible_devices=None)

    def _on_sample(self, sample: Sample) -> None:
        tree = sample.tree
        if self._other_gpus is None:
            gpus = self._sampler.telemetry().gpus
            self._other_gpus = hidden_gpus(self._host_devices, gpus)
            self._infos = tuple(gpu.info for gpu in gpus)
        others = self._other_gpus
        if others:
            sample = replace(sample, gpus=tuple(gpu for gpu in sample.gpus if gpu.index not in others))
        if self._observer is not None:
            self._observer(sample)
        if self._show is None:
            return
        waits = self._waits(sample)
        self._past.add(sample)
        self._show(
            {
                "seconds": round(sample.t, 1),
                "gpus": [
                    {
                        "index": gpu.index,
                        "utilization": gpu.utilization,
                        "memory_used": gpu.memory_used,
                        "memory_total": gpu.memory_total,
                        "power_w": gpu.power_w,
                        "temperature_c": gpu.temperature_c,
                        "waiting_for": wait.to_json() if (wait := waits.get(gpu.index)) else None,
                    }
                    for gpu in sample.gpus
                ],
                "cores": round(sample.cpu.cores, 2) if sample.cpu else None,
                "rss": tree.rss if tree else None,
                "past": self._past.to_json(),
            }
        )

    def _waits(self, sample: Sample) -> dict[int, Wait]:
        self._recent.add(sample)
        if self._steps is not None and sample.t >= self._steps_due:
            self._steps_due = sample.t + _STEPS_EVERY_S
            documents = islice(read_documents(self._steps, _LONGEST_STEPS), _MOST_LIVE_DOCUMENTS)
            self._recent.set_steps(sample.t, host_steps(documents))
        return self._recent.waits(self._infos)


def _with_steps(verdict: Verdict, telemetry: Telemetry, steps: Steps | None) -> Verdict:
    """The verdict with where the time of the steps went, and what that says about the bottleneck."""
    if steps is None:
        return verdict
    cores = verdict.processes.mean_cpu_percent / 100 if verdict.processes is not None else 0.0
    facts = HostFacts(verdict.gpus, cores, verdict.cpu_count)
    steps = replace(steps, straggler=find_straggler(steps.ranks, {None: facts}))
    machine = Machine(verdict.seconds, verdict.cpu_count, cores, verdict.gpus, telemetry.waiting)
    if verdict.gpus_working:
        # The straggler is known only now.
        verdict = replace(verdict, reason=used_reason(verdict.expectation, verdict.gpus, steps))
    return replace(verdict, steps=steps, bottlenecks=with_limiting_phase(verdict.bottlenecks, steps, machine))


def read_documents(folder: Path, longest: int) -> Iterator[Mapping[str, Any]]:
    """What the script's processes wrote into a folder, of at most this many bytes each."""
    with suppress(OSError):
        for path in sorted(folder.glob("*.json"))[:_MOST_DOCUMENTS]:
            with suppress(OSError, ValueError), path.open("rb") as file:
                document = json.loads(file.read(longest))
                if isinstance(document, dict):
                    yield document
