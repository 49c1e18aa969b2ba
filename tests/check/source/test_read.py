"""Files that are no source, in every way that a file can be that."""

import json
import os
from pathlib import Path

import pytest

from gpuproof.jobs.load import FILE_NAMES
from gpuproof.linter.engine import check_paths
from gpuproof.linter.source.decode import decode
from gpuproof.linter.source.read import JOB_FILE_NAMES, read_file
from support.check_helpers import check_here


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("a.py", b"x = (\n", "never closed"),
        ("a.py", b'print "hello"\n', "Python 2"),
        ("a.py", bytes(range(256)) * 9, "binary"),
        ("a.py", b"x = 1\n" * 3000 + b"\0", "binary"),
        ("a.py", "s = 'caf\xe9'\n".encode("latin-1"), "not UTF-8"),
        ("a.py", b"# coding: klingon\n", "encoding"),
        ("a.py", b"x = " + b"-" * 100_000 + b"1", "nested too deeply"),
        ("a.py", b"if x:\n\ty = 1\n        z = 2\n", "tabs"),
        ("a.ipynb", b"", "empty"),
        ("a.ipynb", b"{}", "no cells"),
        ("gpuproof.yaml", b"jobs: [1\n", "YAML"),
    ],
)
def test_a_bad_file_is_one_finding(here: Path, name: str, content: bytes, expected: str) -> None:
    (here / name).write_bytes(content)
    (hit,) = check_here().hits
    assert hit.code == "E901"
    assert expected in hit.finding.message


def test_a_shell_command_in_a_cell_is_named(here: Path) -> None:
    cells = ["curl -O https://example.com/data.tar\n", "print('a\\n print b')\n", "raise error, 1\n"]
    notebook = {"cells": [{"cell_type": "code", "source": source} for source in cells]}
    (here / "a.ipynb").write_text(json.dumps(notebook))
    shell, old = check_here().hits
    assert "`curl` is a shell command, which needs `!` before it" in shell.finding.message
    assert (old.cell, "Python 2" in old.finding.message) == (3, True)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("stack.ts", "const x: number = 1;\n"),
        ("main.go", "package main\n"),
        ("setup.cfg", "[metadata]\nname = x\n"),
        ("run.ps1", "Write-Host 1\n"),
        ("notes.rst", "Notes\n=====\n"),
    ],
)
def test_a_named_file_of_another_type_is_not_read_as_python(here: Path, name: str, content: str) -> None:
    (here / name).write_text(content)
    report = check_paths([name])
    assert (report.hits, report.files, report.unsupported) == ((), 0, (name,))


@pytest.mark.parametrize("name", ["train", "serve.cgi", "train.py", "types.pyi"])
def test_a_named_python_program_is_checked_whatever_its_suffix(here: Path, name: str) -> None:
    (here / name).write_text("#!/usr/bin/env python3\nx = (\n")
    assert [hit.code for hit in check_paths([name]).hits] == ["E901"]


def test_a_file_of_many_megabytes_is_a_note(here: Path) -> None:
    with (here / "big.py").open("wb") as file:
        file.truncate(50_000_000)
    report = check_here()
    assert "50 MB" in report.hits[0].finding.message
    assert not report.failed


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read_is_a_note(here: Path) -> None:
    (here / "a.py").write_text("x = 1")
    (here / "a.py").chmod(0)
    assert "permission" in check_here().hits[0].finding.message


def test_links_in_a_circle_and_links_to_nothing_end(here: Path) -> None:
    (here / "loop").symlink_to(".")
    (here / "self.py").symlink_to("self.py")
    (here / "self").symlink_to("self")
    (here / "dangling.py").symlink_to("nothing.py")
    (here / "good.py").write_text("x = 1")
    report = check_here()
    assert {hit.span.unit.path for hit in report.hits} == {"self.py", "dangling.py"}
    assert report.files == 3


def test_a_folder_and_a_pipe_named_like_source_are_skipped(here: Path) -> None:
    (here / "folder.py").mkdir()
    os.mkfifo(here / "pipe.py")
    (hit,) = check_here().hits
    assert "not a regular file" in hit.finding.message


@pytest.mark.parametrize(
    ("raw", "text", "encoding"),
    [
        (b"x = 1\r\ny = 2\r\n", "x = 1\ny = 2\n", "utf-8"),
        (b"x = 1\ry = 2", "x = 1\ny = 2", "utf-8"),
        (b"\xef\xbb\xbfx = 1", "x = 1", "utf-8"),
        ("# coding: latin-1\ns = 'é'".encode("latin-1"), "# coding: latin-1\ns = 'é'", "iso-8859-1"),
        (b"", "", "utf-8"),
    ],
)
def test_encodings_and_line_ends(raw: bytes, text: str, encoding: str) -> None:
    assert decode(raw) == (text, encoding)


def test_a_jinja_template_is_not_parsed_as_python(here: Path) -> None:
    (here / "a.py").write_text("import {{ name }}\n")
    assert check_here().hits == ()


def test_the_names_of_descriptions_are_those_that_run_takes() -> None:
    assert JOB_FILE_NAMES == FILE_NAMES


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("compose.yaml", "services: {}\n", "compose"),
        ("job.yaml", "apiVersion: batch/v1\nkind: Job\nspec: {containers: []}\n", "kubernetes"),
        ("dockerfile_parser.py", "x = 1\n", "python"),
        ("Dockerfile.gpu", "FROM scratch\n", "dockerfile"),
        ("stack.ts", "import { Stack } from 'aws-cdk-lib';\n", "typescript"),
        ("train", "#!/bin/bash\necho\n", "shell"),
    ],
)
def test_a_file_is_read_by_its_kind(here: Path, name: str, content: str, expected: str) -> None:
    (here / name).write_text(content)
    assert [unit.kind for unit in read_file(name)] == [expected]


def test_a_template_of_helm_is_no_manifest(here: Path) -> None:
    (here / "job.yaml").write_text("apiVersion: v1\nkind: Pod\nmetadata:\n  name: {{ .Values.name }}\n")
    assert read_file("job.yaml") == []
