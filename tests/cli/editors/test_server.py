"""`gpuproof check --lsp` as a process, with a real client of the Language Server Protocol."""

import asyncio
import subprocess
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from lsprotocol import types
from pygls.lsp.client import LanguageClient

from support.check_helpers import write_files

pytestmark = pytest.mark.slow
LAUNCH = """from sagemaker.pytorch import PyTorch

PyTorch(entry_point="train.py", instance_count=1, instance_type="ml.g5.12xlarge").fit()
"""
TRAIN = """import torch

model = torch.nn.Linear(8, 1).cuda()
model(torch.rand(4, 8).cuda()).sum().backward()
"""
FLAGS = """import argparse

parser = argparse.ArgumentParser()
parser.add_argument("--größe😀", type=bool)
"""
SETTINGS = '[tool.gpuproof.check]\nselect = ["DS101"]\n'
Files = dict[str, str]


class Editor:
    """An editor that shows files of a folder."""

    def __init__(self, client: LanguageClient, folder: Path) -> None:
        self.client = client
        self.folder = folder
        self.diagnostics: dict[str, list[types.Diagnostic]] = {}
        self._news = asyncio.Event()

        def receive(parameters: types.PublishDiagnosticsParams) -> None:
            self.diagnostics[parameters.uri] = list(parameters.diagnostics)
            self._news.set()

        client.feature(types.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)(receive)

    def uri(self, name: str) -> str:
        return (self.folder / name).as_uri()

    def open(self, name: str, text: str | None = None) -> None:
        text = (self.folder / name).read_text() if text is None else text
        document = types.TextDocumentItem(self.uri(name), types.LanguageKind.Python, 1, text)
        self.client.text_document_did_open(types.DidOpenTextDocumentParams(document))

    def type(self, name: str, text: str) -> None:
        """Replace the whole text of a document."""
        document = types.VersionedTextDocumentIdentifier(2, self.uri(name))
        change = types.TextDocumentContentChangeWholeDocument(text)
        self.client.text_document_did_change(types.DidChangeTextDocumentParams(document, [change]))

    async def codes(self, uri: str, wanted: list[str]) -> list[types.Diagnostic]:
        """Wait until a document has exactly these findings."""
        while uri not in self.diagnostics or [found.code for found in self.diagnostics[uri]] != wanted:
            self._news.clear()
            await self._news.wait()
        return self.diagnostics[uri]

    async def hover(self, uri: str, line: int, character: int) -> str:
        document = types.TextDocumentIdentifier(uri)
        found = await self.client.text_document_hover_async(
            types.HoverParams(document, types.Position(line, character))
        )
        return found.contents.value if found is not None else ""  # type: ignore[union-attr]

    async def actions(self, uri: str, line: int, *only: str) -> dict[str, types.CodeAction]:
        where = types.Range(types.Position(line, 0), types.Position(line, 1000))
        found = await self.client.text_document_code_action_async(
            types.CodeActionParams(
                types.TextDocumentIdentifier(uri), where, types.CodeActionContext([], only=list(only) or None)
            )
        )
        return {action.title: action for action in found or () if isinstance(action, types.CodeAction)}


@asynccontextmanager
async def editor(folder: Path, *, has_folders: bool = True) -> AsyncGenerator[Editor]:
    client = LanguageClient("test", "1")
    await client.start_io(sys.executable, "-m", "gpuproof", "check", "--lsp")
    try:
        shown = Editor(client, folder)
        notebooks = types.NotebookDocumentClientCapabilities(types.NotebookDocumentSyncClientCapabilities())
        workspace = [types.WorkspaceFolder(folder.as_uri(), "project")]
        await client.initialize_async(
            types.InitializeParams(
                types.ClientCapabilities(notebook_document=notebooks),
                root_uri=folder.as_uri(),
                workspace_folders=workspace if has_folders else None,
            )
        )
        client.initialized(types.InitializedParams())
        async with asyncio.timeout(120):
            yield shown
    finally:
        await client.shutdown_async(None)
        client.exit(None)
        await client.stop()


def in_editor(folder: Path, files: Files, use: Callable[[Editor], Awaitable[Any]]) -> None:
    write_files(folder, files)

    async def session() -> None:
        async with editor(folder) as shown:
            await use(shown)

    asyncio.run(session())


def test_findings_follow_the_text_that_is_typed_not_the_file(tmp_path: Path) -> None:
    async def use(shown: Editor) -> None:
        shown.open("a.py")
        await shown.codes(shown.uri("a.py"), [])
        shown.type("a.py", "x = (\n")
        await shown.codes(shown.uri("a.py"), ["E901"])
        shown.type("a.py", "x = 1\n")
        await shown.codes(shown.uri("a.py"), [])

    in_editor(tmp_path, {"a.py": "x = 1\n"}, use)
    assert (tmp_path / "a.py").read_text() == "x = 1\n"


def test_a_script_and_its_launcher_are_checked_together(tmp_path: Path) -> None:
    async def use(shown: Editor) -> None:
        shown.open("launch.py")
        (found,) = await shown.codes(shown.uri("launch.py"), ["DS101"])
        assert "nothing in `train.py` uses more than one" in found.message
        assert found.severity is types.DiagnosticSeverity.Error
        shown.open(
            "train.py",
            TRAIN.replace("model = ", "model = torch.nn.DataParallel(").replace(".cuda()\n", ".cuda())\n", 1),
        )
        await shown.codes(shown.uri("launch.py"), [])

    in_editor(tmp_path, {"launch.py": LAUNCH, "train.py": TRAIN, "pyproject.toml": SETTINGS}, use)


def test_a_hover_has_the_price_of_an_instance_and_the_page_of_a_rule(tmp_path: Path) -> None:
    async def use(shown: Editor) -> None:
        uri = shown.uri("launch.py")
        shown.open("launch.py")
        await shown.codes(uri, ["DS101"])
        text = await shown.hover(uri, 2, LAUNCH.splitlines()[2].index("g5.12"))
        assert text.startswith("**ml.g5.12xlarge**: 4 x A10G, ")
        assert "an hour in us-west-2" in text
        assert "# DS101: idle-gpus" in text
        assert await shown.hover(uri, 1, 0) == ""

    settings = SETTINGS + 'region = "us-west-2"\n'
    in_editor(tmp_path, {"launch.py": LAUNCH, "train.py": TRAIN, "pyproject.toml": settings}, use)


def test_an_editor_with_a_root_and_without_folders_has_the_whole_project(tmp_path: Path) -> None:
    write_files(tmp_path, {"launch.py": LAUNCH, "train.py": TRAIN, "pyproject.toml": SETTINGS})

    async def session() -> None:
        async with editor(tmp_path, has_folders=False) as shown:
            shown.open("new.py", "x = (\n")
            shown.open("train.py", TRAIN)
            shown.open("launch.py")
            await shown.codes(shown.uri("launch.py"), ["DS101"])
            assert await shown.hover(shown.uri("gone.py"), 99, 3) == ""
            assert await shown.actions(shown.uri("gone.py"), 0) == {}

    asyncio.run(session())


def test_the_server_ends_with_code_0_after_an_exit() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "gpuproof", "check", "--lsp"],
        input=b"".join(
            b"Content-Length: %d\r\n\r\n%b" % (len(body), body)
            for body in (
                b'{"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"processId": null, "capabilities": {}}}',
                b'{"jsonrpc": "2.0", "id": 2, "method": "shutdown"}',
                b'{"jsonrpc": "2.0", "method": "exit"}',
            )
        ),
        capture_output=True,
        timeout=300,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, b"")


def test_positions_and_fixes_count_utf16_code_units(tmp_path: Path) -> None:
    async def use(shown: Editor) -> None:
        uri = shown.uri("a.py")
        shown.open("a.py")
        (found,) = await shown.codes(uri, ["SM106"])
        line = FLAGS.splitlines()[3]
        # The emoji is one character of Python, and two code units of UTF-16.
        assert found.range.start.character == line.index("bool") + 1
        actions = await shown.actions(uri, 3)
        (fix,) = [action for action in actions.values() if action.is_preferred]
        assert fix.edit is not None
        assert fix.edit.changes is not None
        assert set(fix.edit.changes) == {uri}
        suppress = actions["Suppress SM106 on this line"].edit
        assert suppress is not None
        (comment,) = (suppress.changes or {})[uri]
        assert comment.range.start == types.Position(3, len(line) + 1)
        assert comment.new_text == "  # gpuproof: ignore[SM106]"
        assert list(await shown.actions(uri, 0, "source.fixAll")) == ["Fix all of gpuproof"]

    in_editor(tmp_path, {"a.py": FLAGS}, use)


def test_cells_of_a_notebook_have_their_own_findings(tmp_path: Path) -> None:
    async def use(shown: Editor) -> None:
        uri = shown.uri("nb.ipynb")
        texts = ["import argparse\nparser = argparse.ArgumentParser()\n", FLAGS.splitlines()[3]]
        cells = [f"vscode-notebook-cell:{uri}#{number}" for number in range(2)]
        kind = types.NotebookCellKind.Code
        notebook = types.NotebookDocument(
            uri, "jupyter-notebook", 1, [types.NotebookCell(kind, cell) for cell in cells]
        )
        documents = [
            types.TextDocumentItem(cell, types.LanguageKind.Python, 1, text)
            for cell, text in zip(cells, texts, strict=True)
        ]
        shown.client.notebook_document_did_open(types.DidOpenNotebookDocumentParams(notebook, documents))
        (found,) = await shown.codes(cells[1], ["SM106"])
        assert found.range.start.line == 0
        assert shown.diagnostics[cells[0]] == []

    in_editor(tmp_path, {"nb.ipynb": '{"cells": []}'}, use)


def test_the_settings_of_the_project_apply(tmp_path: Path) -> None:
    settings = '[tool.gpuproof.check]\nignore = ["SM106"]\n'

    async def use(shown: Editor) -> None:
        shown.open("a.py", FLAGS + "x = (\n")
        await shown.codes(shown.uri("a.py"), ["E901"])

    in_editor(tmp_path, {"a.py": "", "pyproject.toml": settings}, use)


def test_without_pygls_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from gpuproof.cli.main import main

    monkeypatch.setitem(sys.modules, "pygls", None)
    monkeypatch.setitem(sys.modules, "pygls.lsp.server", None)
    monkeypatch.delitem(sys.modules, "gpuproof.cli.editors.server", raising=False)
    monkeypatch.setitem(sys.modules, "lsprotocol", None)
    assert main(["check", "--lsp"]) == 2


@pytest.mark.parametrize("option", [["--select", "PT101"], ["--watch"], ["--instance-type", "ml.g5.xlarge"]])
def test_options_that_the_server_takes_from_the_settings_are_rejected(
    option: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    from gpuproof.cli.main import main

    assert main(["check", "--lsp", *option]) == 2
    assert f"--lsp cannot be combined with {option[0]}" in capsys.readouterr().err
