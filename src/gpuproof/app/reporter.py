"""What a use case tells while it works: to the console, to a Python program, or to a notebook."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from gpuproof.backends.progress import SubmitProgress

if TYPE_CHECKING:
    from gpuproof.backends.base import Plan, Run
    from gpuproof.backends.cheapest.choose import Choice


class Reporter(SubmitProgress, Protocol):
    """Reports what happens from the checks before a run to its end.

    Labels of `report` are `error`, `warning`, `note`, and others for results.
    """

    def end_progress(self) -> None:
        """Nothing is in progress any more."""
        ...

    def release_interrupt(self) -> None:
        """Let Ctrl-C and SIGTERM interrupt again, which `hold_interrupt` delayed.

        Raises:
            KeyboardInterrupt: one of them arrived in the meantime.
        """
        ...

    def chosen(self, choice: Choice) -> None:
        """`cheapest` has chosen a backend."""
        ...

    def prepared(self, plan: Plan, *, is_remote: bool) -> None:
        """The plan will be submitted; `plan.run_id` is the id of its first run, if it is known already."""
        ...

    def detached(self, run: Run, plan: Plan) -> None:
        """A run was submitted, and is not waited for."""
        ...

    def follow(self, run: Run, plan: Plan) -> int:
        """Show a run until it has ended; returns its exit code, `ExitCode.INTERRUPTED` after Ctrl-C or SIGTERM.

        These stop the run. They may be raised instead, when it has stopped.
        """
        ...

    def delivered(self, paths: Sequence[Path]) -> None:
        """Results were copied to the local folders that the job names."""
        ...
