"""The magics `%%gpu` and `%gpu`, and the events of a cell.

`%%gpu` is removed from the cell before IPython compiles it, and the events before and after the cell do the rest: so the cell runs as
it would without the magic, with its own tracebacks, `await`, history and results.
Sources: https://ipython.readthedocs.io/en/stable/config/inputtransforms.html, https://ipython.readthedocs.io/en/stable/config/callbacks.html
"""

from __future__ import annotations

import os
import re
import sys
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Callable, Protocol

from gpuproof.notebook.cell_report import CellReport
from gpuproof.notebook.kernels import connection_file, find_kernels, runtime_folders
from gpuproof.notebook.machine_report import MachineReport
from gpuproof.util.monitor_client import MonitorClient, MonitorLost
from gpuproof.watch.report import WatchReport
from gpuproof.watch.running.gpu_state import GpuMachine
from gpuproof.watch.running.process_facts import read_facts
from gpuproof.watch.settings import WatchSettings

SHORTEST_CELL_S = 1.0
"""With `%gpu watch on`, cells that took less show nothing."""
USAGE = "usage: %gpu, %gpu watch on, %gpu watch off; or %%gpu as the first line of a cell"
_NAME = "gpu"
_MAGIC_LINE = re.compile(r"%%gpu[ \t]*$")
_OTHER_MAGIC_LINE = re.compile(r"%%\w")
_REMOVED = "# %%gpu\n"
"""Keeps the lines of the cell where they are, for tracebacks."""
_LABEL = "cell"

Cost = Callable[[WatchReport], "float | None"]
"""The cost of the machine during a report in USD; `None` if it is unknown."""


_loaded: dict[int, GpuExtension] = {}
"""By the identity of their shells."""


def load(shell: Shell, cost: Cost | None = None) -> None:
    """Add the magics and the events to a shell, once.

    Args:
        cost: computes the cost of a report; `None` shows no costs.
    """
    if not _loaded:
        os.register_at_fork(after_in_child=_forget_connections)
    if id(shell) not in _loaded:
        _loaded[id(shell)] = GpuExtension(shell, cost)
        _loaded[id(shell)].load()


def unload(shell: Shell) -> None:
    """Remove the events from a shell, and end the monitor process."""
    extension = _loaded.pop(id(shell), None)
    if extension is not None:
        extension.unload()


def _forget_connections() -> None:
    """In a process that the kernel has forked: the monitor process ends with the kernel, not with the last such process."""
    for extension in _loaded.values():
        extension.disconnect()


class Shell(Protocol):
    """What the extension uses of `IPython.core.interactiveshell.InteractiveShell`."""

    events: Any
    display_pub: Any
    input_transformers_cleanup: list[Any]

    def register_magic_function(
        self, func: Any, magic_kind: str = "line", magic_name: str | None = None
    ) -> None:
        """Add a magic."""


class GpuExtension:
    """The extension in one IPython shell.

    Args:
        cost: computes the cost of a report; `None` shows no costs.
    """

    def __init__(self, shell: Shell, cost: Cost | None = None) -> None:
        self._shell = shell
        self._cost = cost
        self._client: MonitorClient | None = None
        self._watches_all = False
        self._cell: Any = None
        self._is_asked = False
        self._began = 0.0

    def load(self) -> None:
        """Add the magics and the events."""
        self._shell.register_magic_function(self.gpu, "line", _NAME)
        self._shell.register_magic_function(self.gpu_cell, "cell", _NAME)
        self._shell.input_transformers_cleanup.append(remove_magic)
        self._shell.events.register("pre_run_cell", self._before)
        self._shell.events.register("post_run_cell", self._after)

    def unload(self) -> None:
        """Remove the events and end the monitor process."""
        self._watches_all = False
        self._cell = None
        with suppress(ValueError):
            self._shell.input_transformers_cleanup.remove(remove_magic)
        for event, callback in (("pre_run_cell", self._before), ("post_run_cell", self._after)):
            with suppress(ValueError):
                self._shell.events.unregister(event, callback)
        self.disconnect()

    def disconnect(self) -> None:
        """Close this process's connection to the monitor process, which ends with the last one."""
        client, self._client = self._client, None
        if client is not None:
            client.close()

    def gpu(self, line: str) -> None:
        """Show this machine's GPUs and which notebooks hold their memory; `watch on` shows a report below each cell.

        %gpu             the GPUs, and what holds their memory
        %gpu watch on    a report below each cell that takes a second or more
        %gpu watch off   no more
        """
        words = line.split()
        if not words:
            self._show(MachineReport(*self._machine(), os.getpid()).mimebundle())
        elif words == ["watch", "on"]:
            self._watch_all()
        elif words == ["watch", "off"]:
            self._watches_all = False
            self._say("GPUproof no longer watches the cells of this notebook.")
        else:
            raise _usage_error(USAGE)

    def gpu_cell(self, line: str, cell: str) -> None:
        """Run the cell, and show below its output what the GPUs did meanwhile. Has to be the first line of its cell."""
        del line, cell
        # A cell that begins with it never arrives here: see `remove_magic`.
        raise _usage_error(USAGE)

    def _watch_all(self) -> None:
        machine, _ = self._machine()
        if not machine.gpus:
            self._say(f"GPUproof has nothing to watch: {machine.problem}.")
            return
        self._watches_all = True
        self._say(
            f"GPUproof shows what the GPUs did below each cell that takes {SHORTEST_CELL_S:.0f} s or more; "
            "%gpu watch off ends this."
        )

    def _before(self, info: Any) -> None:
        if threading.current_thread() is not threading.main_thread():
            return  # a subshell of the kernel, beside the cell that runs
        if self._cell is not None and not info.store_history:
            return  # a cell that the cell runs
        self._cell = None
        self._is_asked = has_magic(info.raw_cell)
        if not self._is_asked and not self._watches_all:
            return
        try:
            self._connected().begin(_LABEL, WatchSettings(require_gpu=False).to_json(), dict(os.environ))
        except MonitorLost as error:
            self.disconnect()
            self._say(f"GPUproof cannot watch this cell: {error}.")
            return
        except BaseException:
            self.disconnect()  # interrupted: an answer may be on its way
            raise
        self._cell, self._began = info, time.monotonic()

    def _after(self, result: Any) -> None:
        if self._cell is None or not _is_of(result, self._cell):
            return
        self._cell = None
        is_shown = self._is_asked or time.monotonic() - self._began >= SHORTEST_CELL_S
        try:
            document = self._ended(with_report=is_shown)
        except MonitorLost as error:
            self.disconnect()
            self._say(f"GPUproof has lost what this cell did: {error}.")
            return
        except BaseException:
            self.disconnect()
            raise
        if document is not None:
            report = WatchReport.from_json(document)
            cost = self._cost(report) if self._cost is not None else None
            self._show(CellReport(report, cost).mimebundle())

    def _ended(self, *, with_report: bool) -> dict[str, Any] | None:
        client = self._connected()
        if with_report:
            return client.end(_LABEL)["report"]
        client.drop(_LABEL)
        return None

    def _machine(self) -> tuple[GpuMachine, Mapping[int, Any]]:
        try:
            machine = GpuMachine.from_json(self._connected().gpus()["machine"])
        except MonitorLost as error:
            self.disconnect()
            return GpuMachine(problem=str(error)), {}
        except BaseException:
            self.disconnect()
            raise
        holders = {holder.pid for gpu in machine.gpus for holder in gpu.holders or ()}
        facts = read_facts(os.getpid())
        own = connection_file(facts.command) if facts is not None else None
        return machine, find_kernels(holders, os.getpid(), runtime_folders(own, os.environ))

    def _connected(self) -> MonitorClient:
        if self._client is None:
            self._client = MonitorClient()
        return self._client

    def _say(self, text: str) -> None:
        print(text, file=sys.stdout)

    def _show(self, bundle: Mapping[str, str]) -> None:
        self._shell.display_pub.publish(data=dict(bundle), metadata={})


def has_magic(cell: str) -> bool:
    """Whether `%%gpu` is among the cell magics at the top of a cell."""
    for line in cell.lstrip().splitlines():
        if _MAGIC_LINE.match(line):
            return True
        if not _OTHER_MAGIC_LINE.match(line):
            return False
    return False


def remove_magic(lines: list[str]) -> list[str]:
    """Replace `%%gpu` in the first line of a cell, so that what follows runs as it would without it.

    Another cell magic below it becomes the first line, where IPython looks for it.
    """
    if not lines or not _MAGIC_LINE.match(lines[0].rstrip("\n")):
        return lines
    rest = lines[1:]
    return rest if rest and _OTHER_MAGIC_LINE.match(rest[0]) else [_REMOVED, *rest]


# In a terminal, a cell that begins with a cell magic is complete after an empty line: IPython looks at the cell without this change.
remove_magic.has_side_effects = True  # pyright: ignore[reportFunctionMemberAccess]


def _is_of(result: Any, cell: Any) -> bool:
    """Whether a result is that of a cell; an interrupted one has no result, or another description of the cell."""
    info = getattr(result, "info", None)
    return info is None or info is cell or info.raw_cell == cell.raw_cell


def _usage_error(text: str) -> Exception:
    """What IPython shows in one line, without a traceback."""
    from IPython.core.error import UsageError  # IPython is there: it runs this

    return UsageError(text)
