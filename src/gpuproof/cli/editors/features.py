"""Diagnostics, quick fixes and hovers of the language server, from findings; positions are those of the client."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from lsprotocol import types
from pygls.workspace import PositionCodec

from gpuproof.catalogue.catalogue import Catalogue
from gpuproof.findings import Severity
from gpuproof.linter.docs.pages import render_page
from gpuproof.linter.fixing.apply import select_fixes
from gpuproof.linter.registry import find_rule
from gpuproof.linter.rule import Hit
from gpuproof.linter.source.edit import Fix
from gpuproof.linter.source.span import Span

SOURCE = "gpuproof"
PAGES = "https://github.com/gpuproof/gpuproof/blob/main/docs/rules"
_SEVERITIES = {
    Severity.ERROR: types.DiagnosticSeverity.Error,
    Severity.WARNING: types.DiagnosticSeverity.Warning,
    Severity.NOTE: types.DiagnosticSeverity.Information,
}
_INSTANCE_TYPE = re.compile(
    r"\b(?:ml\.)?[a-z][a-z0-9-]*\d[a-z0-9-]*\.(?:\d*x?large|metal[\w-]*|medium|small|micro|nano)\b"
)


class Part(NamedTuple):
    """A text document: a whole file, or a cell of a notebook.

    Attributes:
        lines: its lines, with line breaks.
        has_comments: whether its language has comments that begin with `#`.
    """

    uri: str
    lines: Sequence[str]
    has_comments: bool


class Positions:
    """Converts positions of a file into those of the client.

    Args:
        parts: the file's text documents, by cell from 1; by None if it is no notebook.
        codec: the client's encoding of positions: UTF-16 unless it asked for another one.
    """

    def __init__(self, parts: Mapping[int | None, Part], codec: PositionCodec) -> None:
        self.parts = parts
        self._codec = codec

    def part(self, span: Span) -> Part:
        """The text document that contains a span."""
        return self.parts[span.unit.file_position(span.line, span.column)[0]]

    def range(self, span: Span) -> types.Range:
        """The range of a span in its text document."""
        cell, line, column = span.unit.file_position(span.line, span.column)
        end_cell, end_line, end_column = span.unit.file_position(span.end_line, span.end_column)
        if end_cell != cell:
            end_line, end_column = line, column + 1
        range_ = types.Range(
            types.Position(line - 1, column - 1), types.Position(end_line - 1, end_column - 1)
        )
        return self._codec.range_to_client_units(list(self.part(span).lines), range_)

    def end_of_line(self, span: Span) -> types.Range:
        """The empty range at the end of the first line of a span."""
        line = self.range(span).start.line
        lines = self.part(span).lines
        text = lines[line].rstrip("\r\n") if line < len(lines) else ""
        end = types.Position(line, self._codec.client_num_units(text))
        return types.Range(end, end)


def diagnostic(hit: Hit, positions: Positions) -> types.Diagnostic:
    """A finding as a diagnostic, with a link to its rule's page."""
    finding = hit.finding
    remedy = [finding.remedy] if finding.remedy else []
    return types.Diagnostic(
        positions.range(hit.span),
        "\n".join([finding.message, *finding.evidence, *remedy]),
        _SEVERITIES[finding.severity],
        code=hit.code,
        code_description=types.CodeDescription(f"{PAGES}/{hit.code}.md"),
        source=SOURCE,
    )


def quick_fixes(hit: Hit, positions: Positions) -> Iterator[types.CodeAction]:
    """The fix of a finding, if it has one, and a comment that suppresses the finding."""
    found = [diagnostic(hit, positions)]
    kind = types.CodeActionKind.QuickFix
    if hit.fix is not None:
        edit = workspace_edit([hit.fix], positions)
        yield types.CodeAction(hit.fix.title, kind, found, is_preferred=hit.fix.safe, edit=edit)
    part = positions.part(hit.span)
    # A comment inside of a text, or after a line that continues, would change the program.
    if part.has_comments and not hit.span.text.rstrip().endswith(("\\", '"""', "'''")):
        comment = types.TextEdit(positions.end_of_line(hit.span), f"  # gpuproof: ignore[{hit.code}]")
        edit = types.WorkspaceEdit({part.uri: [comment]})
        yield types.CodeAction(f"Suppress {hit.code} on this line", kind, found, edit=edit)


def fix_all(hits: Iterable[Hit], positions: Positions) -> types.CodeAction | None:
    """All safe fixes together; None if there is none."""
    selected = [hit.fix for hit, _ in select_fixes(list(hits), unsafe=False) if hit.fix is not None]
    if not selected:
        return None
    edit = workspace_edit(selected, positions)
    return types.CodeAction("Fix all of gpuproof", types.CodeActionKind.SourceFixAll, edit=edit)


def workspace_edit(fixes: Iterable[Fix], positions: Positions) -> types.WorkspaceEdit:
    """The edits of some fixes."""
    changes: dict[str, list[types.TextEdit]] = defaultdict(list)
    for fix in fixes:
        for edit in fix.edits:
            changes[positions.part(edit.span).uri].append(
                types.TextEdit(positions.range(edit.span), edit.text)
            )
    return types.WorkspaceEdit(changes)


def hover_of_rule(hits: Sequence[Hit]) -> str | None:
    """The pages of the rules of some findings, as Markdown."""
    rules = [find_rule(code) for code in dict.fromkeys(hit.code for hit in hits)]
    return "\n\n---\n\n".join(render_page(rule) for rule in rules if rule is not None) or None


def instance_type_at(line: str, column: int) -> re.Match[str] | None:
    """The instance type in a line of text at a column, from 0."""
    return next(
        (match for match in _INSTANCE_TYPE.finditer(line) if match.start() <= column <= match.end()), None
    )


def hover_of_instance(name: str, region: str) -> str | None:
    """What an instance type has and costs, as Markdown; None if it is unknown."""
    catalogue = Catalogue.load()
    instance = catalogue.instance(name)
    if instance is None:
        return None
    price = catalogue.price(name, region)
    if instance.gpu_count:
        memory = f"{instance.gpu_memory / 2**30:.0f} GiB each"
        gpus = f"{instance.gpu_count} x {instance.gpu_model}, {memory}"
    else:
        gpus = "no GPU" if instance.accelerator == "none" else f"no GPU, but {instance.accelerator}"
    host = [
        f"{instance.vcpus} vCPUs" if instance.vcpus else "",
        f"{instance.memory / 2**30:.0f} GiB" if instance.memory else "",
    ]
    cost = (
        f"${price.usd_per_hour:.2f} an hour in {region}"
        if price is not None
        else f"price in {region} unknown"
    )
    parts = [gpus, *filter(None, host), cost]
    retired = "\n\nIt is retired." if instance.status == "retired" else ""
    return f"**{name}**: {', '.join(parts)}{retired}"
