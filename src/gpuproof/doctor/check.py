"""What a check is."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Generic, TypeVar

from gpuproof.doctor.machine import Machine
from gpuproof.findings import Finding

Reading = TypeVar("Reading")


class Layer(IntEnum):
    """What stands on what. Nothing is asked above a layer that is broken: its answer would be a guess."""

    HARDWARE = 1
    """PCI devices and device files."""
    DRIVER = 2
    """Kernel module, NVML, `cuInit`."""
    LIBRARIES = 3
    """CUDA, cuDNN and the like, each by `dlopen`."""
    FRAMEWORK = 4
    """TensorFlow's and PyTorch's builds against GPU and driver."""
    COMPUTE = 5
    """Real work on every GPU."""
    SURROUNDINGS = 6
    """What makes jobs slow or die though the stack is sound; asked whatever is broken below."""
    CLOUD = 7
    """What the instance type promises, and what the account allows; asked whatever is broken below."""

    @property
    def stacked(self) -> bool:
        """Whether it stands on the layers below it."""
        return self <= Layer.COMPUTE


def _nothing(reading: Any) -> str | None:  # noqa: ARG001
    return None


@dataclass(frozen=True)
class Check(Generic[Reading]):
    """One check of the machine.

    Args:
        name: in words, such as `kernel module`.
        layer: what it belongs to.
        read: touches the machine and gives what it saw; `None` where there is nothing to look at. Never raises for
            what a broken machine does.
        evaluate: pure; turns a reading into findings, none where all is well or nothing is sure. A finding of severity
            error in the layers up to FRAMEWORK breaks the layer.
        quick: whether `gpuproof doctor --quick` does it too (under some tens of milliseconds, no framework).
        say: pure; what is worth saying of a sound layer, in a few words such as `driver 580.95.05`; `None` for nothing.
    """

    name: str
    layer: Layer
    read: Callable[[Machine], Reading | None]
    evaluate: Callable[[Reading], Iterable[Finding]]
    quick: bool = True
    say: Callable[[Reading], str | None] = _nothing
