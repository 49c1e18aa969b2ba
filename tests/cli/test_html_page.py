"""Where --html may write, and what it writes."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from gpuproof.cli.html_page import check_html_flag, page_footer, write_page
from gpuproof.errors import UsageError
from gpuproof.report import Page


def given(html: str | Path | None, kind: str = "text") -> argparse.Namespace:
    return argparse.Namespace(html=None if html is None else str(html), format=kind)


def test_what_cannot_be_written_is_refused_before_any_work(tmp_path: Path) -> None:
    for html, said in ((tmp_path, "is a folder"), (tmp_path / "none" / "plan.html", "there is no folder")):
        with pytest.raises(UsageError, match=said):
            check_html_flag(given(html))
    with pytest.raises(UsageError, match="both be written to standard output"):
        check_html_flag(given("-", "json"))
    for html in (None, "-", tmp_path / "plan.html"):
        check_html_flag(given(html))


def test_the_page_replaces_a_file_and_is_written_into_a_pipe(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "plan.html"
    file.write_text("old")
    write_page(given(file), Page("Plan of train.py", footer=page_footer()))
    assert "Plan of train.py" in file.read_text(encoding="utf-8")
    assert f"page written to {file}" in capsys.readouterr().err
    write_page(given("/dev/null"), Page("Plan"))
    assert Path("/dev/null").is_char_device()
    write_page(given("-"), Page("Plan of train.py"))
    assert capsys.readouterr().out.startswith("<!doctype html>")
