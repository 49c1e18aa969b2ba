"""How well a job scales: its throughput per GPU, compared with that of an earlier run on fewer GPUs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from gpuproof.agent.verdict import USED, Verdict
from gpuproof.util.humanize import format_share, pluralize


@dataclass(frozen=True)
class Measured:
    """A run with its measured throughput.

    Args:
        gpus: GPUs that worked, all of the same model.
        examples_per_s: of all of them.
    """

    run: str
    gpus: int
    model: str
    examples_per_s: float

    @staticmethod
    def of(run: str, verdict: Verdict) -> Measured | None:
        """The measurements of a run; `None` without throughput, or if not all of its GPUs worked and are of one model."""
        models = {gpu.name for gpu in verdict.gpus if gpu.worked}
        if (
            verdict.throughput is None
            or verdict.throughput.examples_per_s <= 0
            or verdict.outcome != USED
            or verdict.gpus_working < 1
            or len(models) != 1
            or (model := models.pop()) is None
        ):
            return None
        return Measured(run, verdict.gpus_working, model, verdict.throughput.examples_per_s)


@dataclass(frozen=True)
class ScalingEfficiency:
    """The scaling efficiency of a run, compared with another.

    Args:
        efficiency: 1.0 if each GPU did as much as each GPU of the other run.
    """

    efficiency: float
    now: Measured
    before: Measured

    @property
    def text(self) -> str:
        """The efficiency and what it is compared with: a number without that means nothing."""
        return (
            f"scaling efficiency {format_share(self.efficiency)} ({pluralize(self.now.gpus, 'GPU')}, compared with "
            f"{self.before.run} on {pluralize(self.before.gpus, 'GPU')})"
        )

    def to_json(self) -> dict[str, Any]:
        """The efficiency as plain values."""
        return {
            "efficiency": round(self.efficiency, 3),
            "gpus": self.now.gpus,
            "examples_per_s": round(self.now.examples_per_s, 3),
            "compared_with": {
                "run": self.before.run,
                "gpus": self.before.gpus,
                "examples_per_s": round(self.before.examples_per_s, 3),
            },
        }


def scaling_efficiency(now: Measured, earlier: Iterable[Measured]) -> ScalingEfficiency | None:
    """The scaling efficiency of a run on several GPUs: (T_n / n) / (T_m / m).

    T_n is the throughput in examples per second on n GPUs, and T_m that of an earlier run on m < n GPUs of the same model. Of
    several such runs, the one on the fewest GPUs is the basis, of those the first. `None` if there is none.

    This is the parallel efficiency S/n with the speedup S = T_n / T_1; see Amdahl, "Validity of the single processor
    approach to achieving large scale computing capabilities", AFIPS 1967.

    Args:
        earlier: earlier runs of the same job, newest first.
    """
    comparable = [
        measured for measured in earlier if measured.gpus < now.gpus and measured.model == now.model
    ]
    if not comparable:
        return None
    before = min(comparable, key=lambda measured: measured.gpus)
    return ScalingEfficiency(
        (now.examples_per_s / now.gpus) / (before.examples_per_s / before.gpus), now, before
    )
