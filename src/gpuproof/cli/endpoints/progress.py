"""The progress of a deployment on the console: one line for each step, on standard error."""

from __future__ import annotations

from gpuproof.backends.sagemaker.endpoints.errors import DeploymentFailed
from gpuproof.cli.console import Console
from gpuproof.util.humanize import format_bytes

_MOST_EXPLANATIONS = 2


class DeploymentProgress:
    """A `SubmitProgress` that prints steps."""

    def __init__(self) -> None:
        self._console = Console()
        self._last = ""

    def step(self, text: str) -> None:
        """Print a step, unless it repeats the last one."""
        self._console.end_progress()
        if text != self._last:
            self._console.print(f"  {text}")
        self._last = text

    def transfer(self, text: str, done: int, total: int) -> None:
        """Show the transferred bytes in the progress line."""
        self._console.progress(f"  {format_bytes(done)} of {format_bytes(total)} · {text}")

    def report(self, label: str, text: str) -> None:
        """Print a message."""
        self._console.label(label, text)

    def note(self, text: str) -> None:
        """Print a note."""
        self._console.label("note", text)

    def hold_interrupt(self) -> None:
        """Nothing: a deployment may be interrupted at any time."""

    def label(self, label: str, text: str) -> None:
        """Print text with a label."""
        self._console.label(label, text)

    def failure(self, failed: DeploymentFailed) -> None:
        """Print the end of the container's log, and what explains it."""
        if failed.log:
            self._console.print("The end of the container's log:")
            for line in failed.log:
                self._console.print(f"  | {line}")
        for explanation in failed.explanations[:_MOST_EXPLANATIONS]:
            self._console.label(
                "cause",
                f"{explanation.cause}\n{explanation.remedy}" if explanation.remedy else explanation.cause,
            )
