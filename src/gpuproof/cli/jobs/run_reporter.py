"""What `gpuproof run` prints besides the output of the script, as text and as JSON."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpuproof.backends.api_call import format_calls
from gpuproof.cli.console import Console
from gpuproof.cli.progress import ConsoleProgress
from gpuproof.util.humanize import format_bytes, pluralize

if TYPE_CHECKING:
    from gpuproof.app.run import RunResult
    from gpuproof.backends.base import Plan, Run
    from gpuproof.backends.cheapest.candidate import Candidate
    from gpuproof.backends.cheapest.choose import Choice
    from gpuproof.backends.record import RunRecord

_MOST_FILES = 200


class RunReporter(ConsoleProgress):
    """Reports to the console; implements `gpuproof.app.reporter.Reporter`.

    Args:
        as_json: print results as JSON to standard output; all else goes to standard error.
    """

    def __init__(self, *, as_json: bool) -> None:
        super().__init__(Console(output=sys.stderr.buffer if as_json else None))
        self._as_json = as_json
        self._choice: Choice | None = None
        self._last: Run | None = None

    def chosen(self, choice: Choice) -> None:
        """Print which backend was chosen, and the others."""
        self._choice = choice
        self.console.label("choice", choice.text)

    def prepared(self, plan: Plan, *, is_remote: bool) -> None:  # noqa: ARG002 - the plan contains its warnings
        """Print the plan, if the id of the run is known already."""
        if plan.run_id is not None:
            self._introduce(plan.run_id, plan)

    def detached(self, run: Run, plan: Plan) -> None:
        """Print how to continue with a run that is not followed."""
        self._introduce_run(run, plan)
        if self._as_json:
            document = {"version": 1, "id": run.id, run.address_label: run.address, "max_usd": plan.max_usd}
            if run.instance_type is not None:
                document["instance_type"] = run.instance_type
            self._print_json(document)
            return
        if run.is_remote:
            self.console.label(run.address_label, run.address)
        self.console.label("", f"running in the background; follow with: gpuproof logs -f {run.cli_name}")
        for note in plan.detach_notes(run):
            self.console.label("note", note)

    def follow(self, run: Run, plan: Plan) -> int:
        """Show a run until it has ended. Ctrl-C leaves a machine on EC2 running."""
        # Imported here so that a local run's agent starts at the same time.
        from gpuproof.cli.follow import follow_run

        self._last = run

        def show_first() -> None:
            self.release_interrupt()
            self._introduce_run(run, plan)

        if plan.job.kind == "machine":
            from gpuproof.cli.jobs.sessions.machine import follow_machine  # most jobs have a script

            return follow_machine(run, plan, self.console, first=show_first, end=_show_end)
        return follow_run(run, self.console, first=show_first, end=_show_end)

    def delivered(self, paths: Sequence[Path]) -> None:
        """Print where results were copied to."""
        for path in paths:
            self.console.label("here", str(path))

    def ended(self, result: RunResult) -> int:
        """Print what became of the job; returns the exit code."""
        run, plan = result.run, result.plan
        if run is None:
            self._show_dry_run(plan, result.choice)
        elif self._last is not None and (run.record.has_ended or plan.job.kind != "machine"):
            self._print_final(run)
            self._show_outcome(run)
        return result.exit_code

    def failed(self, error: Exception) -> None:
        """Print the JSON document of a job that no backend or no instance type could run."""
        from gpuproof.backends.cheapest.choose import NowhereToRun
        from gpuproof.backends.errors import NoCapacity

        self.end_progress()
        if not self._as_json or not isinstance(error, NoCapacity | NowhereToRun):
            return
        document: dict[str, Any] = {"version": 1, "run": None, "verdict": None, "explanations": []}
        code = int(error.exit_code)
        if isinstance(error, NowhereToRun):
            candidates = _documents(error.candidates)
            print(json.dumps(document | {"exit_code": code, "candidates": candidates}, indent=2))
            return
        if self._last is not None:
            from gpuproof.cli.follow import final_document  # imported late: a run's plan does without it

            document = json.loads(final_document(self._last))
        self._print_json(
            document | {"exit_code": code, "tried": [attempt.to_json() for attempt in error.tried]}
        )

    def _introduce(self, run_id: str, plan: Plan) -> None:
        self.console.label("run", run_id)
        self._show_plan(plan)

    def _introduce_run(self, run: Run, plan: Plan) -> None:
        """Print the id of a run, unless it was printed before, and the plan if it was not shown before the submission."""
        if plan.run_id is None:
            self._introduce(run.id, plan)
        elif run.id != plan.run_id:
            self.console.label("run", run.id)

    def _show_plan(self, plan: Plan) -> None:
        for label, text in plan.describe():
            self.console.label(label, text)

    def _show_dry_run(self, plan: Plan, choice: Choice | None) -> None:
        """Print a plan, its files and its API calls; and what was compared, if the backend was chosen."""
        if self._as_json:
            from gpuproof.backends.aws.unknown_account import with_placeholders  # only for dry runs

            self._choice = choice
            self._print_json(with_placeholders(plan.document()))
            return
        console = self.console
        console.label("dry run", f"of '{plan.job.name}': nothing was created")
        if choice is not None:
            self.chosen(choice)
        self._show_plan(plan)
        files = plan.files()
        console.print()
        console.print(f"{pluralize(len(files), 'source file')}:")
        for name, size in files[:_MOST_FILES]:
            console.print(f"{format_bytes(size):>10}  {name}")
        if len(files) > _MOST_FILES:
            console.print(f"{'':>10}  and {len(files) - _MOST_FILES:,} more: --format json lists all")
        calls = plan.calls()
        if not calls:
            return
        console.print()
        console.print(f"{pluralize(len(calls), 'API call')}:")
        for title, request in format_calls(calls):
            console.print()
            console.label("call", title)
            console.print(request)

    def _print_final(self, run: Run) -> None:
        if self._as_json:
            from gpuproof.cli.follow import final_document

            self._print_json(json.loads(final_document(run)))

    def _show_outcome(self, run: Run) -> None:
        from gpuproof.cli.follow import show_outcome

        if run.record.has_ended and not run.lacked_capacity:
            show_outcome(run, run.record, self.console)

    def _print_json(self, document: Mapping[str, Any]) -> None:
        """Print a document, with the backends that were compared if one was chosen."""
        if self._choice is not None:
            document = {**document, "candidates": _documents(self._choice.candidates)}
        print(json.dumps(document, indent=2, default=str))


def _documents(candidates: Sequence[Candidate]) -> list[dict[str, Any]]:
    return [candidate.to_json() for candidate in candidates]


def _show_end(run: Run, record: RunRecord, console: Console) -> None:
    """Print the end of a run; only its status if it lacked capacity, so that another one may follow."""
    from gpuproof.cli.follow import show_end, show_status

    if run.lacked_capacity:
        show_status(record, console)
    else:
        show_end(run, record, console)
