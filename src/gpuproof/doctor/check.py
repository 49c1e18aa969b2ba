"""`Check`, one check of the machine, and `Layer`, the layers of the GPU stack."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Generic, TypeVar

from gpuproof.doctor.machine import Machine
from gpuproof.findings import Finding

Reading = TypeVar("Reading")

NO_GPU = "D101"
"""Code of the finding that the machine has no GPU: not a fault, so the exit code is UNDECIDED."""


class Layer(IntEnum):
    """Layers 1 to 5 depend on each other: above a layer that failed nothing runs, since its result would be a guess."""

    HARDWARE = 1
    """PCI devices and device files."""
    DRIVER = 2
    """Kernel module, NVML, `cuInit`."""
    LIBRARIES = 3
    """CUDA, cuDNN and related libraries, each loaded with `dlopen`."""
    FRAMEWORK = 4
    """TensorFlow and PyTorch builds against GPU and driver."""
    COMPUTE = 5
    """Real work on every GPU."""
    ENVIRONMENT = 6
    """What slows or kills jobs on a healthy stack; always runs."""
    CLOUD = 7
    """What the instance type should have and the account allows; always runs."""

    @property
    def stacked(self) -> bool:
        """Whether the layer depends on the layers below it."""
        return self <= Layer.COMPUTE

    @property
    def label(self) -> str:
        """Name in text for people, such as `environment`."""
        return self.name.lower()

    @property
    def key(self) -> str:
        """Name in the JSON and JUnit formats, where the environment is called `surroundings`."""
        return "surroundings" if self is Layer.ENVIRONMENT else self.label


def _no_summary(reading: Any) -> str | None:  # noqa: ARG001
    return None


@dataclass(frozen=True)
class Check(Generic[Reading]):
    """One check of the machine.

    Args:
        name: what it checks, such as `kernel module`.
        read: touches the machine and returns a reading; `None` if there is nothing to check. Never raises because of
            the machine's state.
        evaluate: pure; turns a reading into findings, none if everything is fine or nothing is certain. A finding of
            severity error in the layers up to COMPUTE fails the layer.
        quick: whether `gpuproof doctor --quick` runs it (takes less than some tens of milliseconds, imports no framework).
        blocking: whether an error makes the layers above pointless; not for an error that concerns only some jobs.
        summarize: pure; returns a few words about a healthy layer, such as `driver 580.95.05`, or `None`.
    """

    name: str
    layer: Layer
    read: Callable[[Machine], Reading | None]
    evaluate: Callable[[Reading], Iterable[Finding]]
    quick: bool = True
    summarize: Callable[[Reading], str | None] = _no_summary
    blocking: bool = True
