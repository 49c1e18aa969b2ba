"""The state of this machine's GPUs, and what holds their memory, as HTML and as text."""

from __future__ import annotations

import html
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import PurePath

from gpuproof.notebook.kernels import Kernel
from gpuproof.terminal.html import table_html
from gpuproof.terminal.table import Table, render_table
from gpuproof.util.humanize import format_bytes
from gpuproof.watch.running.gpu_state import GpuHolder, GpuMachine, GpuState

_LONGEST_COMMAND = 60
_IDLE_SHARE = 0.05
"""Of a GPU's memory, which the driver itself may take."""


@dataclass(frozen=True)
class MachineReport:
    """The GPUs of this machine; notebooks show it as HTML, terminals as text.

    Args:
        kernels: of the processes that hold memory.
        own_pid: of the kernel in which the report is shown.
    """

    machine: GpuMachine
    kernels: Mapping[int, Kernel] = field(default_factory=dict)
    own_pid: int = 0

    def mimebundle(self) -> dict[str, str]:
        """The texts of the report by MIME type."""
        return {"text/plain": self.text(), "text/html": self.html()}

    def text(self) -> str:
        """The report as text."""
        if not self.machine.gpus:
            return f"GPUproof: this machine has no usable GPU: {self.machine.problem}."
        tables = [render_table(table.headers, table.rows, table.right) for table in self._tables()]
        return "\n\n".join([*tables, *self._notes()])

    def html(self) -> str:
        """The report as HTML, without scripts, style sheets or anything from elsewhere."""
        if not self.machine.gpus:
            return f'<div style="opacity:0.8">{html.escape(self.text())}</div>'
        notes = "".join(f'<div style="opacity:0.8">{html.escape(note)}</div>' for note in self._notes())
        return "".join(table_html(table) for table in self._tables()) + notes

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:  # noqa: ARG002 - IPython's arguments
        return self.mimebundle()

    def _tables(self) -> list[Table]:
        gpus = Table(
            ("GPU", "utilization", "memory in use", "power"),
            tuple(_gpu_row(gpu) for gpu in self.machine.gpus),
            right=(1, 2, 3),
        )
        rows = tuple(
            (self._owner(holder), str(gpu.index), _bytes(holder.memory), str(holder.pid))
            for gpu in self.machine.gpus
            for holder in sorted(gpu.holders or (), key=lambda holder: -(holder.memory or 0))
        )
        if not rows:
            return [gpus]
        return [gpus, Table(("memory is held by", "GPU", "memory", "process"), rows, right=(1, 2, 3))]

    def _owner(self, holder: GpuHolder) -> str:
        """The notebook of a process, or its command."""
        kernel = self.kernels.get(holder.pid)
        if kernel is None:
            if not holder.command:
                return "a process that is not visible here"
            return _shortened(_command(holder.command))
        if kernel.pid == self.own_pid:
            name = f"{kernel.notebook} (this notebook)" if kernel.notebook else "this notebook"
        else:
            name = kernel.notebook or f"kernel {kernel.id}"
        return name if holder.pid == kernel.pid else f"{name}: {_shortened(_command(holder.command))}"

    def _notes(self) -> list[str]:
        unlisted = [gpu for gpu in self.machine.gpus if not gpu.holders and (gpu.memory_used or 0) > 0]
        notes = [f"GPU {gpu.index} cannot be read: {gpu.error}." for gpu in self.machine.gpus if gpu.error]
        if unlisted and any(_is_held(gpu) for gpu in unlisted):
            notes.append(
                "The driver lists no process for this memory, as in a container: it cannot be said what holds it."
            )
        elif not any(gpu.holders for gpu in self.machine.gpus) and not notes:
            notes.append("No process holds memory on a GPU.")
        return notes


def _is_held(gpu: GpuState) -> bool:
    return bool(gpu.memory_total) and (gpu.memory_used or 0) > _IDLE_SHARE * (gpu.memory_total or 0)


def _gpu_row(gpu: GpuState) -> tuple[str, ...]:
    name = f"{gpu.index} {gpu.name}" if gpu.name else str(gpu.index)
    used, total = _bytes(gpu.memory_used), _bytes(gpu.memory_total)
    return (
        name,
        "-" if gpu.utilization is None else f"{gpu.utilization}%",
        f"{used} of {total}" if gpu.memory_total else used,
        "-" if gpu.power_w is None else f"{gpu.power_w:.0f} W",
    )


def _command(words: tuple[str, ...]) -> str:
    """`python train.py --epochs 3`: the program without its folder."""
    if not words:
        return "a process"
    return " ".join([PurePath(words[0]).name, *words[1:]])


def _shortened(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= _LONGEST_COMMAND else f"{text[: _LONGEST_COMMAND - 1]}…"


def _bytes(count: int | None) -> str:
    return "-" if count is None else format_bytes(count)
