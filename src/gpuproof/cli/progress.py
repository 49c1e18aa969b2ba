"""The progress of a submission on the console, in one line that is replaced."""

from __future__ import annotations

from gpuproof.backends.interrupts import DeferredInterrupt
from gpuproof.cli.console import Console
from gpuproof.util.humanize import format_bytes


class ConsoleProgress:
    """Shows the progress of a submission; implements `gpuproof.backends.progress.SubmitProgress`."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self._interrupt = DeferredInterrupt()

    def step(self, text: str) -> None:
        """Show a step in the progress line."""
        self.console.progress(f"{text[:1].upper()}{text[1:]} …")

    def transfer(self, text: str, done: int, total: int) -> None:
        """Show the transferred bytes in the progress line."""
        if total:
            self.console.progress(f"{text} · {format_bytes(done)} of {format_bytes(total)}")

    def end_progress(self) -> None:
        """Remove the progress line."""
        self.console.end_progress()

    def report(self, label: str, text: str) -> None:
        """Print a line."""
        self.console.end_progress()
        self.console.label(label, text)

    def hold_interrupt(self) -> None:
        """Delay Ctrl-C and SIGTERM until `release_interrupt`."""
        self._interrupt.__enter__()

    def release_interrupt(self) -> None:
        """Let Ctrl-C and SIGTERM interrupt again.

        Raises:
            KeyboardInterrupt: one of them arrived in the meantime.
        """
        self._interrupt.release()
