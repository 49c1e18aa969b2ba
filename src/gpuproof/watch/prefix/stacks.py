"""Prints where the Python processes of a command are that makes no progress, before it is ended."""

from __future__ import annotations

import os
import threading
from pathlib import Path

from gpuproof.agent.output import Sink
from gpuproof.agent.stall.watch import print_stack_traces


class StackTraces:
    """The stack traces, printed by a thread: meanwhile, the command's output has to be relayed.

    Args:
        root: the process whose descendants are the command's.
        python: the command's interpreter, next to which py-spy may be installed; empty if unknown.
    """

    def __init__(self, root: int, python: str) -> None:
        self._readable, self._writable = os.pipe()
        self._tools = [Path(python).parent] if python else []
        threading.Thread(target=self._run, args=(root,), name="gpuproof-stacks", daemon=True).start()

    def fileno(self) -> int:
        """File descriptor that becomes readable when there is text, and when it is complete."""
        return self._readable

    def read(self) -> bytes:
        """The next part of the text, for which it waits; empty if it is complete."""
        return os.read(self._readable, 1 << 16)

    def _run(self, root: int) -> None:
        sink = Sink(lambda: self._writable)
        try:
            print_stack_traces(root, sink, self._tools)
        finally:
            # Every thread of this process has the pipe; only this descriptor keeps it open.
            os.close(self._writable)
