"""The open documents of an editor, checked as they are typed, and what was found in each."""

from __future__ import annotations

import json
import os
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from lsprotocol import types
from pygls.uris import to_fs_path
from pygls.workspace import TextDocument, Workspace

from gpuproof.cli.editors.features import Part, Positions
from gpuproof.errors import GPUproofError
from gpuproof.linter.baseline import compare
from gpuproof.linter.config import read_settings
from gpuproof.linter.engine import CheckOptions, check_paths
from gpuproof.linter.internal_errors import InternalError
from gpuproof.linter.project import Target
from gpuproof.linter.registry import Selection
from gpuproof.linter.rule import Hit

HASH_COMMENTS = (".py", ".pyi", ".tf", ".yaml", ".yml", ".txt", ".ipynb", ".sh")
"""Suffixes of files whose comments begin with `#`."""


@dataclass(frozen=True)
class Findings:
    """The result of a check of the open documents.

    Args:
        by_file: the findings of each open file, by absolute path.
        problems: why something was not checked, for the editor's log.
    """

    by_file: Mapping[Path, tuple[Hit, ...]] = field(default_factory=dict[Path, tuple[Hit, ...]])
    problems: tuple[str, ...] = ()
    internal_errors: tuple[InternalError, ...] = ()


@dataclass(frozen=True)
class Snapshot:
    """What an editor shows at one moment; safe to use in another thread.

    Args:
        texts: the text of each open file, by absolute path; that of a notebook as in its file.
        roots: the folders of the workspace.
    """

    texts: Mapping[Path, str]
    roots: tuple[Path, ...]

    @classmethod
    def of(cls, workspace: Workspace) -> Snapshot:
        """The documents and notebooks that are open."""
        texts: dict[Path, str] = {}
        for uri in open_files(workspace):
            if (path := path_of(uri)) is None:
                continue
            notebook = workspace.get_notebook_document(notebook_uri=uri)
            texts[path] = (
                workspace.get_text_document(uri).source
                if notebook is None
                else _notebook_text(notebook, workspace)
            )
        uris = [folder.uri for folder in workspace.folders.values()] or [workspace.root_uri or ""]
        folders = [path_of(uri) for uri in uris]
        return cls(texts, tuple(folder for folder in folders if folder is not None))

    def check(self) -> Findings:
        """Check the folders of the workspace that contain an open file, and the other open files by themselves.

        A finding may depend on a script and its launcher, so a whole folder is checked, as by `gpuproof check`.
        """
        by_root: dict[Path, list[Path]] = defaultdict(list)
        for path in self.texts:
            inside = [root for root in self.roots if path.is_relative_to(root)]
            by_root[max(inside, key=lambda root: len(root.parts)) if inside else path].append(path)
        found = [self._check_root(root) for root in by_root]
        return Findings(
            {path: hits for each in found for path, hits in each.by_file.items()},
            tuple(problem for each in found for problem in each.problems),
            tuple(error for each in found for error in each.internal_errors),
        )

    def _check_root(self, root: Path) -> Findings:
        if not root.exists():
            return Findings()  # a new file is checked when it is saved
        try:
            settings = read_settings(root)
            options = CheckOptions(Selection(), Target(None, settings.region), settings, texts=self.texts)
            report = check_paths([str(root)], options)
            hits = report.hits
            if settings.baseline is not None:
                hits = compare(settings.baseline, hits, report.paths).new
        except GPUproofError as error:
            return Findings(problems=(error.message,))
        by_file: dict[Path, list[Hit]] = defaultdict(list)
        for hit in hits:
            by_file[Path(os.path.abspath(hit.span.unit.path))].append(hit)  # noqa: PTH100  # links are kept
        return Findings(
            {
                path: tuple(by_file.get(path, ()))
                for path in self.texts
                if path == root or path.is_relative_to(root)
            },
            tuple(problem.message for problem in report.problems),
            report.internal_errors,
        )


def open_files(workspace: Workspace) -> list[str]:
    """The URIs of the open documents and notebooks, without the cells of notebooks."""
    notebooks = list(workspace.notebook_documents.values())
    cells = {cell.document for notebook in notebooks for cell in notebook.cells}
    documents = [document.uri for document in workspace.text_documents.values()]
    return [uri for uri in documents if uri not in cells] + [notebook.uri for notebook in notebooks]


def path_of(uri: str) -> Path | None:
    """The absolute path of a document; None if it is not a file, such as one that was never saved."""
    path = to_fs_path(uri) if uri.startswith("file:") else None
    return Path(path) if path else None


def positions_of(uri: str, workspace: Workspace) -> Positions:
    """Converts positions in a document or notebook."""
    notebook = workspace.get_notebook_document(notebook_uri=uri)
    if notebook is None:
        document = workspace.get_text_document(uri)
        return Positions({None: _part(document, Path(uri).suffix)}, workspace.position_codec)
    parts: dict[int | None, Part] = {
        number: _part(workspace.get_text_document(cell.document), ".ipynb")
        for number, cell in enumerate(notebook.cells, 1)
    }
    return Positions(parts, workspace.position_codec)


def _part(document: TextDocument, suffix: str) -> Part:
    return Part(document.uri, document.lines, suffix in HASH_COMMENTS)


def _notebook_text(notebook: types.NotebookDocument, workspace: Workspace) -> str:
    """The cells as in a file; only what the linter reads."""
    cells = [
        {
            "cell_type": "code" if cell.kind is types.NotebookCellKind.Code else "markdown",
            "source": workspace.get_text_document(cell.document).source,
        }
        for cell in notebook.cells
    ]
    return json.dumps({"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": cells})
