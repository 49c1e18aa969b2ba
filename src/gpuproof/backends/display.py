"""Text and HTML forms of runs and plans, for the Python prompt and for notebooks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from gpuproof.backends.outcome import ARGUMENT, outcome_text
from gpuproof.errors import GPUproofError
from gpuproof.util.humanize import format_bytes, format_duration, pluralize

if TYPE_CHECKING:
    from gpuproof.backends.base import Plan, Run
    from gpuproof.backends.record import RunRecord
    from gpuproof.terminal.table import Block

# `gpuproof.terminal.html` is imported where a notebook needs it: commands start faster without it.


class DisplayedRun:
    """Text and HTML forms of a run. `repr` makes no requests."""

    id: str

    def known_record(self) -> RunRecord | None:
        """The last known record; makes no requests."""
        raise NotImplementedError

    def __repr__(self) -> str:
        record = self.known_record()
        state = "" if record is None else f": {_state(record)}"
        return f"<{type(self).__name__} {self.id}{state}>"

    def _repr_html_(self: Run) -> str:
        return run_html(self)


class DisplayedPlan:
    """Text and HTML forms of a plan."""

    def __repr__(self: Plan) -> str:
        files = self.files()
        size = format_bytes(sum(size for _, size in files))
        return f"<{type(self).__name__} of '{self.job.name}': {pluralize(len(files), 'source file')}, {size}>"

    def __str__(self: Plan) -> str:
        return "\n".join(f"{label:<10} {_indent(text)}" for label, text in self.describe())

    def _repr_html_(self: Plan) -> str:
        return plan_html(self)


class Displayed:
    """Text and HTML forms of a result that describes itself."""

    @property
    def title(self) -> str:
        """What it is, in a few words."""
        raise NotImplementedError

    def describe(self) -> list[tuple[str, str]]:
        """Labels and texts."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.title}>"

    def __str__(self) -> str:
        return "\n".join(f"{label:<10} {_indent(text)}" for label, text in self.describe())

    def _repr_html_(self) -> str:
        from gpuproof.terminal.html import labelled_html

        return labelled_html(self.title, self.describe())


class Printed:
    """Text and HTML forms of a result whose text is what the command prints."""

    def blocks(self) -> Iterable[Block]:
        """The result as paragraphs and tables."""
        raise NotImplementedError

    @property
    def title(self) -> str:
        """What it is, in a few words."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.title}>"

    def __str__(self) -> str:
        from gpuproof.terminal.table import render_blocks

        return render_blocks(self.blocks())

    def _repr_html_(self) -> str:
        from gpuproof.terminal.html import blocks_html

        return blocks_html(self.blocks())


def run_html(run: Run) -> str:
    """A run as an HTML table: its state, verdict, cost, results and where it is."""
    from gpuproof.terminal.html import blocks_html, labelled_html

    try:
        record, verdict, artifacts = run.record, run.verdict, run.artifacts()
    except GPUproofError as error:
        return labelled_html(run.id, [("error", error.message)])
    rows = [("status", record.status if record.has_ended else f"{record.secondary_status} …")]
    if record.reason:
        rows.append(("reason", record.reason))
    if (took := record.seconds(record.ended or record.created)) is not None and record.has_ended:
        rows.append(("time", format_duration(took)))
    if record.instance_type:
        rows.append(("instance", f"{record.instance_count} x {record.instance_type}"))
    if record.cost is not None:
        rows.append(("cost", record.cost_text))
    rows += [("note", note) for note in record.notes]
    rows += [("artifact", artifact.location) for artifact in artifacts]
    rows.append((run.address_label, run.address))
    if record.has_ended and (text := outcome_text(record, verdict, ARGUMENT)) is not None:
        rows.append(("outcome", text))
    if verdict is None:
        return labelled_html(run.id, rows)
    from gpuproof.backends.advice.lost_cost import with_lost_cost
    from gpuproof.terminal.verdict import paragraphs_and_table

    paragraphs, table = paragraphs_and_table(with_lost_cost(verdict, record))
    return labelled_html(run.id, [*rows, *paragraphs]) + blocks_html([] if table is None else [table])


def plan_html(plan: Plan) -> str:
    """A plan as an HTML table, with its files and API calls below."""
    from gpuproof.terminal.html import folded_html, labelled_html

    files = [f"{format_bytes(size):>10}  {name}" for name, size in plan.files()]
    calls = [f"{call.service} {call.operation}: {call.what}" for call in plan.calls()]
    return (
        labelled_html(f"Plan of '{plan.job.name}'", plan.describe())
        + folded_html(pluralize(len(files), "source file"), files)
        + (folded_html(pluralize(len(calls), "API call"), calls) if calls else "")
    )


def _state(record: RunRecord) -> str:
    if not record.has_ended:
        return record.secondary_status or record.status
    return record.status if record.verdict is None else f"{record.status}, GPU {record.verdict_text}"


def _indent(text: str) -> str:
    return text.replace("\n", "\n" + " " * 11)
