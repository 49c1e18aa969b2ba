"""The pictures of README and docs: a terminal's screens, as browsers draw them."""

from __future__ import annotations

import re
from html import unescape
from pathlib import Path

import pytest

from support.browser import browser_page

DOCS = Path(__file__).parents[2] / "docs"
TERMINALS = ("check", "plan", "verdict")


def text_of(name: str) -> str:
    """What a picture's terminal shows."""
    words = re.findall(r"<text[^>]*>([^<]*)", (DOCS / f"{name}.svg").read_text())
    return unescape(" ".join(words))


def test_the_picture_of_partly_used_gpus_shows_a_failure() -> None:
    text = " ".join(text_of("verdict").split())
    assert "partly used: 1 of 4 GPUs worked" in text
    assert "FAILED: 3 of 4 requested GPUs did no work (exit code 4;" in text
    assert re.search(r"echo \$\? 4$", text)


@pytest.mark.slow
@pytest.mark.journey
@pytest.mark.parametrize("name", TERMINALS)
def test_a_browser_keeps_the_columns_of_a_terminal(name: str, tmp_path: Path) -> None:
    with browser_page(tmp_path) as page:
        page.open((DOCS / f"{name}.svg").as_uri())
        page.wait_for("document.readyState === 'complete'", "the picture does not load")
        spaces = page.evaluate(
            """[...document.querySelectorAll(".NAME-matrix text")]
            .map(text => [getComputedStyle(text).whiteSpace, text.getNumberOfChars() === text.textContent.length])""".replace(
                "NAME", name
            )
        )
    assert len(spaces) > 10
    assert {tuple(space) for space in spaces} == {("pre", True)}
