"""What is wrong in the articles' code blocks is found before anything runs, and docs/articles.md says so."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

from support.article_blocks import BLOCKS, ROOT, Block, all_blocks, copy_block, findings
from support.cli_sandbox import CliSandbox

pytestmark = pytest.mark.slow

ALL = pytest.mark.parametrize("block", all_blocks(), ids=lambda block: block.folder)


@ALL
def test_check_finds_what_is_wrong(block: Block) -> None:
    assert sorted({finding["code"] for finding in findings(block)}) == sorted(block.found)


@pytest.mark.parametrize("mended", sorted(BLOCKS.glob("*/*/mended")), ids=lambda path: path.parent.name)
def test_check_finds_nothing_in_what_is_mended(sandbox: CliSandbox, mended: Path) -> None:
    for path in mended.rglob("*"):
        if path.is_file():
            sandbox.write(str(path.relative_to(mended)), path.read_text())
    done = sandbox.gpuproof("check", ".")
    assert done.returncode == 0, done.stdout
    assert "no issues found" in done.stdout


@pytest.mark.parametrize(
    ("folder", "job"),
    [
        ("aws_cuda_tensorflow/cuda_kernel", ("kernel.py", "--instance-type", "ml.g4dn.xlarge")),
        ("aws_cuda_tensorflow/mirrored", ()),
        ("keras_sagemaker/mirrored", ()),
    ],
)
def test_a_job_with_errors_is_refused_before_it_starts(
    sandbox: CliSandbox, folder: str, job: tuple[str, ...]
) -> None:
    sandbox.project.rmdir()
    copy_block(folder, sandbox.project)
    done = sandbox.gpuproof("run", *job)
    assert done.returncode == 1, done.stderr
    assert "was not started" in done.stderr
    assert not list(sandbox.home.rglob("run.json"))


@ALL
def test_the_test_that_the_page_names_is_there(block: Block) -> None:
    file, _, name = block.test.partition("::")
    assert f"def {name}(" in (ROOT / file).read_text()


def test_the_page_is_current(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    page = importlib.import_module("build_articles").page()
    assert (ROOT / "docs" / "articles.md").read_text() == page, "python tools/build_articles.py"
