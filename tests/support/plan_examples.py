"""Traces and GPUs for the tests, small enough to compute by hand."""

from __future__ import annotations

from gpuproof.catalogue import Catalogue
from gpuproof.catalogue.model import Gpu
from gpuproof.trace.document import CATEGORIES, Input, Memory, Operator, Trace

MIB = 1 << 20
GIB = 1 << 30


def gpu(name: str) -> Gpu:
    """A GPU of the catalogue."""
    return Catalogue.load().tables.gpus[name]


def gpus() -> list[str]:
    """The names of all NVIDIA GPUs of the catalogue."""
    return [name for name, row in Catalogue.load().tables.gpus.items() if row.vendor == "NVIDIA"]


def blocks(**sizes: int) -> list[tuple[int, int]]:
    """One block of each category."""
    return [(size, CATEGORIES.index(name)) for name, size in sizes.items()]


def training(
    batch: int, *, parameters: int = 1_000_000, host_s: float | None = None, workers: int = 0
) -> Trace:
    """Two steps of a matrix product with its gradient and SGD with momentum; sizes are those of its batch."""
    weight, output = 4 * parameters, 4 * MIB * batch
    memory = Memory(
        blocks(parameter=weight, input=MIB * batch, activation=output, gradient=weight, optimizer=weight),
        # parameter; input, activation, gradient; the activation is freed; the optimizer's state; the end of the step.
        [1, 2, 3, 4, -3, 5, -2, 0, -4, 4],
    )
    memory.blocks.extend(blocks(input=MIB * batch, activation=output))
    memory.events.extend([6, 7, -7, -6, 0])
    operators = [
        Operator(
            "aten.mm",
            "gemm",
            "float32",
            "forward",
            2.0 * batch * parameters,
            4.0 * (parameters + batch * 2000),
            1,
            ((batch, 1000), (1000, 1000)),
            1,
            (1, batch, 1000, 1000),
        ),
        Operator(
            "aten.mm",
            "gemm",
            "float32",
            "backward",
            4.0 * batch * parameters,
            8.0 * (parameters + batch * 2000),
            2,
            ((batch, 1000), (1000, 1000)),
            1,
            (1, batch, 1000, 1000),
        ),
        Operator(
            "aten.relu",
            "elementwise",
            "float32",
            "forward",
            1000.0 * batch,
            8000.0 * batch,
            1,
            ((batch, 1000),),
            1,
        ),
        Operator(
            "aten._foreach_add_",
            "optimizer",
            "float32",
            "optimizer",
            2.0 * parameters,
            12.0 * parameters,
            1,
            ((1000, 1000),),
            1,
        ),
    ]
    return Trace(
        framework="torch",
        framework_version="2.13.0",
        mode="training",
        steps=2,
        operators=operators,
        memory=memory,
        host_operators=10,
        parameters=parameters,
        trainable=parameters,
        model_bytes=weight,
        optimizer="SGD",
        input=Input(samples=batch, host_s=host_s, workers=workers, steps_per_epoch=100, bytes=MIB * batch),
    )
