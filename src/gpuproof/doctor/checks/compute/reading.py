"""What the probes that really compute have told."""

from __future__ import annotations

from dataclasses import dataclass

from gpuproof.gpu.probe_process import Answer, Record


@dataclass(frozen=True)
class Work:
    """One operation on one GPU.

    Args:
        name: `matmul`, `convolution`, `tf.function`.
        dtype: such as `bfloat16`.
        device: where the result was.
        deviation: the largest one from the CPU's answer, as a share of the largest number of the answer; `None` where
            there was no result.
        tolerance: what still counts as right.
        error: the exception's text.
    """

    gpu: int
    name: str
    dtype: str
    tolerance: float
    device: str | None = None
    deviation: float | None = None
    error: str | None = None

    @property
    def right(self) -> bool:
        """Whether the answer is the CPU's; not a number is wrong."""
        return self.deviation is not None and self.deviation <= self.tolerance


@dataclass(frozen=True)
class ComputeReading:
    """What one probe told.

    Args:
        by: what computed: `PyTorch 2.11.0`, or `a CUDA kernel`.
        works: every operation.
        growth: what memory growth did; `None` where it does not apply.
        problem: how the process ended if not well.
        hung: whether it never ended.
        step: what it was at.
        names: the GPUs' names, by index.
        error: the end of what it wrote to standard error.
    """

    by: str
    works: tuple[Work, ...] = ()
    growth: Record | None = None
    problem: str | None = None
    hung: bool = False
    step: str | None = None
    names: tuple[str, ...] = ()
    error: str = ""

    def name_of(self, gpu: int) -> str | None:
        """A GPU's name."""
        return self.names[gpu] if gpu < len(self.names) else None


def understand(by: str, answer: Answer, names: tuple[str, ...]) -> ComputeReading:
    """Puts a probe's records into form."""
    problem = answer.problem or (None if answer.one("done") else "ended early")
    return ComputeReading(
        by,
        tuple(_work(record) for record in answer.of("work")),
        answer.one("growth"),
        problem,
        answer.hung,
        answer.step,
        names,
        answer.error,
    )


def _work(record: Record) -> Work:
    return Work(
        record["gpu"],
        record["name"],
        record["dtype"],
        record["tolerance"],
        record.get("device"),
        record.get("deviation"),
        record.get("error"),
    )
