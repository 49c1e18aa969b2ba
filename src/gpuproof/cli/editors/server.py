"""The language server: diagnostics while typing, quick fixes, and hovers with a rule's page or an instance type's price."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

from lsprotocol import types
from pygls.lsp.server import LanguageServer

from gpuproof.cli.editors.documents import Findings, Snapshot, open_files, path_of, positions_of
from gpuproof.cli.editors.features import (
    SOURCE,
    diagnostic,
    fix_all,
    hover_of_instance,
    hover_of_rule,
    instance_type_at,
    quick_fixes,
)
from gpuproof.errors import UsageError
from gpuproof.linter.config import read_settings
from gpuproof.linter.rule import Hit
from gpuproof.version import __version__

MIN_PAUSE_SECONDS = 0.2
"""Typing must pause for as long as the last check took, and at least so long, before the next check starts."""
_ACTIONS = [types.CodeActionKind.QuickFix, types.CodeActionKind.SourceFixAll]
_CHECK_AT_ONCE = (
    types.TEXT_DOCUMENT_DID_OPEN,
    types.TEXT_DOCUMENT_DID_SAVE,
    types.TEXT_DOCUMENT_DID_CLOSE,
    types.NOTEBOOK_DOCUMENT_DID_OPEN,
    types.NOTEBOOK_DOCUMENT_DID_SAVE,
    types.NOTEBOOK_DOCUMENT_DID_CLOSE,
    types.WORKSPACE_DID_CHANGE_WATCHED_FILES,
    types.WORKSPACE_DID_CHANGE_WORKSPACE_FOLDERS,
)
_NOTEBOOKS = types.NotebookDocumentSyncOptions(
    [types.NotebookDocumentFilterWithNotebook("jupyter-notebook", [types.NotebookCellLanguage("python")])],
    save=True,
)


class CheckServer(LanguageServer):
    """The server; one check runs at a time, in a thread, always of the newest texts."""

    def __init__(self) -> None:
        """Create the server, which does not listen yet."""
        super().__init__("gpuproof", __version__, notebook_document_sync=_NOTEBOOKS)
        self.findings = Findings()
        self._changed_at = 0.0
        self._last_seconds = 0.0
        self._task: asyncio.Task[None] | None = None
        self._published: set[str] = set()

    def changed(self, *, pause: bool = True) -> None:
        """Check soon: after a pause in typing, or at once."""
        self._changed_at = time.monotonic() if pause else 0.0
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._check())
            self._task.add_done_callback(self._log_failure)

    def hits_of(self, uri: str) -> tuple[Hit, ...]:
        """The findings in a document, or in the notebook of a cell."""
        notebook = self.workspace.get_notebook_document(cell_uri=uri)
        path = path_of(notebook.uri if notebook is not None else uri)
        return self.findings.by_file.get(path, ()) if path is not None else ()

    async def _check(self) -> None:
        while True:
            await self._pause()
            started = time.monotonic()
            snapshot = Snapshot.of(self.workspace)
            findings = await asyncio.get_running_loop().run_in_executor(self.thread_pool, snapshot.check)
            self._last_seconds = time.monotonic() - started
            # What was found in a text that has changed meanwhile has other positions by now.
            if Snapshot.of(self.workspace) == snapshot:
                self.findings = findings
                self._publish(snapshot)
                return

    async def _pause(self) -> None:
        while True:
            rest = self._changed_at + max(MIN_PAUSE_SECONDS, self._last_seconds) - time.monotonic()
            if rest <= 0:
                return
            await asyncio.sleep(rest)

    def _publish(self, snapshot: Snapshot) -> None:
        diagnostics: dict[str, list[types.Diagnostic]] = {uri: [] for uri in self._published}
        for uri in open_files(self.workspace):
            path = path_of(uri)
            if path is None or path not in snapshot.texts:
                continue
            positions = positions_of(uri, self.workspace)
            diagnostics |= {part.uri: [] for part in positions.parts.values()}
            for hit in self.findings.by_file.get(path, ()):
                diagnostics[positions.part(hit.span).uri].append(diagnostic(hit, positions))
        for uri, found in diagnostics.items():
            self.text_document_publish_diagnostics(types.PublishDiagnosticsParams(uri, found))
        self._published = {uri for uri, found in diagnostics.items() if found}
        for problem in self.findings.problems:
            self._log(types.MessageType.Warning, problem)
        for error in self.findings.internal_errors:
            self._log(types.MessageType.Error, f"{error.file}: {error.message}. {error.remedy}")

    def _log(self, kind: types.MessageType, text: str) -> None:
        self.window_log_message(types.LogMessageParams(kind, f"{SOURCE}: {text}"))

    def _log_failure(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self._log(types.MessageType.Error, f"the check failed: {error!r}")


def create_server() -> CheckServer:
    """The server with its features."""
    server = CheckServer()
    for event in _CHECK_AT_ONCE:
        server.feature(event)(_check_at_once)
    for event in (types.TEXT_DOCUMENT_DID_CHANGE, types.NOTEBOOK_DOCUMENT_DID_CHANGE):
        server.feature(event)(_check_after_pause)
    server.feature(types.TEXT_DOCUMENT_HOVER)(_hover)
    server.feature(types.TEXT_DOCUMENT_CODE_ACTION, types.CodeActionOptions(_ACTIONS))(_code_actions)
    return server


def serve() -> None:
    """Serve a client on standard input and output until it exits."""
    create_server().start_io()


async def _check_at_once(server: CheckServer, _: Any) -> None:
    server.changed(pause=False)


async def _check_after_pause(server: CheckServer, _: Any) -> None:
    server.changed()


def _hover(server: CheckServer, parameters: types.HoverParams) -> types.Hover | None:
    """The price of the instance type under the cursor, and the pages of the rules with a finding there."""
    uri = parameters.text_document.uri
    if uri not in server.workspace.text_documents:
        return None  # it was never opened, and may not exist
    document = server.workspace.get_text_document(uri)
    position = server.workspace.position_codec.position_from_client_units(document.lines, parameters.position)
    texts: list[str] = []
    line = document.lines[position.line] if position.line < len(document.lines) else ""
    if (match := instance_type_at(line, position.character)) is not None:
        texts.append(hover_of_instance(match.group(), _region(path_of(uri))) or "")
    hits = [hit for hit in server.hits_of(uri) if _is_at(server, hit, uri, parameters.position)]
    texts.append(hover_of_rule(hits) or "")
    text = "\n\n---\n\n".join(filter(None, texts))
    return types.Hover(types.MarkupContent(types.MarkupKind.Markdown, text)) if text else None


def _is_at(server: CheckServer, hit: Hit, uri: str, position: types.Position) -> bool:
    positions = positions_of(_file_of(server, uri), server.workspace)
    range_ = positions.range(hit.span)
    return positions.part(hit.span).uri == uri and range_.start <= position <= range_.end


def _code_actions(server: CheckServer, parameters: types.CodeActionParams) -> list[types.CodeAction]:
    uri, asked = parameters.text_document.uri, parameters.range
    if uri not in server.workspace.text_documents:
        return []
    positions = positions_of(_file_of(server, uri), server.workspace)
    wanted = parameters.context.only or _ACTIONS
    actions: list[types.CodeAction] = []
    hits = [hit for hit in server.hits_of(uri) if positions.part(hit.span).uri == uri]
    if types.CodeActionKind.QuickFix in wanted:
        for hit in hits:
            range_ = positions.range(hit.span)
            if range_.start <= asked.end and asked.start <= range_.end:
                actions += quick_fixes(hit, positions)
    is_asked = any(
        kind in (types.CodeActionKind.Source, types.CodeActionKind.SourceFixAll) for kind in wanted
    )
    if is_asked and (action := fix_all(hits, positions)) is not None:
        actions.append(action)
    return actions


def _file_of(server: CheckServer, uri: str) -> str:
    """The notebook of a cell; the document itself otherwise."""
    notebook = server.workspace.get_notebook_document(cell_uri=uri)
    return notebook.uri if notebook is not None else uri


def _region(path: Path | None) -> str:
    """The region whose prices are shown: that of the file's settings."""
    try:
        return (read_settings(path.parent).region if path is not None else None) or "us-east-1"
    except UsageError:
        return "us-east-1"
