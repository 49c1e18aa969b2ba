"""Output of `gpuproof run` besides that of the script: the plan, the progress of a submission, and its end."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from gpuproof.backends.api_call import format_calls
from gpuproof.backends.interrupts import DeferredInterrupt
from gpuproof.cli.jobs.cheapest import show_choice, with_candidates
from gpuproof.util.humanize import format_bytes, pluralize

if TYPE_CHECKING:
    from gpuproof.backends.base import Plan, Run
    from gpuproof.backends.cheapest.choose import Choice
    from gpuproof.backends.errors import NoCapacity
    from gpuproof.terminal.console import Console


_MOST_FILES = 200


def show_plan(plan: Plan, console: Console) -> None:
    """Print a plan."""
    for label, text in plan.describe():
        console.label(label, text)


def show_dry_run(plan: Plan, console: Console, *, as_json: bool, choice: Choice | None = None) -> None:
    """Print a plan and its API calls, as text or as JSON; and what was compared, if the backend was chosen."""
    if as_json:
        print(with_candidates(json.dumps(plan.document(), indent=2, default=str), choice))
        return
    console.label("dry run", f"of '{plan.job.name}': nothing was created")
    if choice is not None:
        show_choice(choice, console)
    show_plan(plan, console)
    _show_files(plan, console)
    calls = plan.calls()
    if not calls:
        return
    console.print()
    console.print(f"{pluralize(len(calls), 'API call')}:")
    for title, request in format_calls(calls):
        console.print()
        console.label("call", title)
        console.print(request)


def _show_files(plan: Plan, console: Console) -> None:
    files = plan.files()
    console.print()
    console.print(f"{pluralize(len(files), 'source file')}:")
    for name, size in files[:_MOST_FILES]:
        console.print(f"{format_bytes(size):>10}  {name}")
    if len(files) > _MOST_FILES:
        console.print(f"{'':>10}  and {len(files) - _MOST_FILES:,} more: --format json lists all")


def show_detached(
    run: Run, plan: Plan, console: Console, *, as_json: bool, choice: Choice | None = None
) -> None:
    """Print how to continue with a run that is not followed."""
    if as_json:
        document = {"version": 1, "id": run.id, run.address_label: run.address}
        if run.instance_type is not None:
            document["instance_type"] = run.instance_type
        print(with_candidates(json.dumps(document, indent=2), choice))
        return
    if run.is_remote:
        console.label(run.address_label, run.address)
    console.label("", f"running in the background; follow with: gpuproof logs -f {run.cli_name}")
    for note in plan.detach_notes(run):
        console.label("note", note)


def no_capacity_document(error: NoCapacity, last: Run | None) -> str:
    """The JSON document of a job for which no instance type was available.

    Args:
        last: the last run that was started, if any.
    """
    document: dict[str, Any] = {"version": 1, "run": None, "verdict": None, "explanations": []}
    if last is not None:
        from gpuproof.cli.follow import final_document  # imported late: a run's plan does without it

        document = json.loads(final_document(last))
    tried = [one.to_json() for one in error.tried]
    return json.dumps(document | {"exit_code": int(error.exit_code), "tried": tried}, indent=2)


class ConsoleProgress:
    """Shows the progress of a submission; implements `gpuproof.backends.progress.SubmitProgress`.

    Args:
        console: where to show it.
    """

    def __init__(self, console: Console) -> None:
        self._console = console
        self._interrupt = DeferredInterrupt()

    def step(self, text: str) -> None:
        """Show a step in the progress line."""
        self._console.progress(f"{text[:1].upper()}{text[1:]} …")

    def transfer(self, text: str, done: int, total: int) -> None:
        """Show the transferred bytes in the progress line."""
        if total:
            self._console.progress(f"{text} · {format_bytes(done)} of {format_bytes(total)}")

    def report(self, label: str, text: str) -> None:
        """Print a line."""
        self._console.end_progress()
        self._console.label(label, text)

    def hold_interrupt(self) -> None:
        """Delay Ctrl-C until `release_interrupt`."""
        self._interrupt.__enter__()

    def release_interrupt(self) -> None:
        """Let Ctrl-C interrupt again.

        Raises:
            KeyboardInterrupt: Ctrl-C was pressed in the meantime.
        """
        self._interrupt.release()
