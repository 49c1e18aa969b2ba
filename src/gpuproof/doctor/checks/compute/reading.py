"""Results of the probes that compute on the GPU."""

from __future__ import annotations

from dataclasses import dataclass

from gpuproof.gpu.probe_process import Answer, Record


@dataclass(frozen=True)
class Operation:
    """One operation on one GPU.

    Args:
        name: `matmul`, `convolution`, `tf.function`.
        dtype: such as `bfloat16`.
        deviation: largest difference from the CPU's result, as a share of the largest value of the result; `None`
            without a result.
        tolerance: largest deviation that counts as correct.
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
        """Whether the result matches the CPU's; NaN does not."""
        return self.deviation is not None and self.deviation <= self.tolerance


@dataclass(frozen=True)
class ComputeReading:
    """Result of one probe.

    Args:
        subject: what computed: `PyTorch 2.11.0`, or `A CUDA kernel`.
        operations: all operations.
        memory_growth: result of TensorFlow's memory growth; `None` if not tested.
        hung: whether it was killed at the timeout.
        names: the GPUs' names, by index.
    """

    subject: str
    operations: tuple[Operation, ...] = ()
    memory_growth: Record | None = None
    problem: str | None = None
    hung: bool = False
    step: str | None = None
    names: tuple[str, ...] = ()
    error: str = ""

    def name_of(self, gpu: int) -> str | None:
        """Name of a GPU."""
        return self.names[gpu] if gpu < len(self.names) else None


def parse_answer(subject: str, answer: Answer, names: tuple[str, ...]) -> ComputeReading:
    """Parse a probe's records."""
    problem = answer.problem or (None if answer.one("done") else "ended early")
    return ComputeReading(
        subject,
        tuple(_parse_operation(record) for record in answer.of("work")),
        answer.one("growth"),
        problem,
        answer.hung,
        answer.step,
        names,
        answer.error,
    )


def _parse_operation(record: Record) -> Operation:
    return Operation(
        record["gpu"],
        record["name"],
        record["dtype"],
        record["tolerance"],
        record.get("device"),
        record.get("deviation"),
        record.get("error"),
    )
