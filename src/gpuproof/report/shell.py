"""Writes a page as one HTML file that opens without a network.

All text is data: it is put into the document by `report.js` as text nodes, or escaped here. The Content Security Policy
permits the scripts and the style sheet of this file by their hashes, and no request at all.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from gpuproof.report.charts import Heatmap
from gpuproof.report.page import Page, page_json
from gpuproof.util.csv_table import read_rows

_SCRIPTS = ("format.js", "theme.js", "marks.js", "charts.js", "figure.js", "report.js")

ASSETS = Path(__file__).parent / "assets"
VENDOR = ASSETS / "vendor"


class Library(NamedTuple):
    """A library in `assets/vendor`, as its package has it."""

    package: str
    version: str
    license: str
    file: str
    license_file: str
    sha256: str


@cache
def libraries() -> tuple[Library, ...]:
    """The libraries that pages use, in the order in which they are loaded."""
    return tuple(Library(**row) for row in read_rows(VENDOR / "libraries.csv"))


def scripts(*, has_heatmap: bool = True) -> list[str]:
    """The text of each script that a page needs, in order; the last one defines `gpuproofReport`."""
    names = [library.file for library in libraries() if has_heatmap or "matrix" not in library.file]
    files = [*(VENDOR / name for name in names), *(ASSETS / name for name in _SCRIPTS)]
    return [_without_source_map(file.read_text(encoding="utf-8")) for file in files]


def style_sheet() -> str:
    """The text of the style sheet."""
    return (ASSETS / "report.css").read_text(encoding="utf-8")


def json_for_script(value: Any) -> str:
    """JSON that can stand in a `<script>` element: no `<`, `>` or `&`, which could end it or begin a comment."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    escapes = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}
    for character, escape in escapes.items():
        text = text.replace(character, escape)
    # A lone surrogate, as of a file name that is not UTF-8, cannot be written to a file.
    return text.encode("utf-8", "replace").decode()


def render(page: Page) -> str:
    """The page as one HTML document."""
    code = [*scripts(has_heatmap=any(isinstance(chart, Heatmap) for chart in page.charts)), _START]
    style = style_sheet()
    policy = (
        f"default-src 'none'; script-src {' '.join(map(_hash, code))}; style-src {_hash(style)}; "
        "img-src data: blob:; base-uri 'none'; form-action 'none'"
    )
    status = f" ({page.status.word})" if page.status else ""
    elements = "".join(f"<script>{text}</script>\n" for text in code)
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f"<title>{_escape(page.title)}{_escape(status)}</title>\n<style>{style}</style>\n</head>\n<body>\n"
        '<div id="report"></div>\n'
        f"<noscript><h1>{_escape(page.title)}{_escape(status)}</h1><p>{_escape(page.subtitle)}</p>"
        "<p>The charts and tables of this page need JavaScript.</p></noscript>\n"
        f'<script type="application/json" id="data">{json_for_script(page_json(page))}</script>\n'
        f"{elements}</body>\n</html>\n"
    )


_START = """gpuproofReport.show(document.getElementById("report"), JSON.parse(document.getElementById("data").textContent));"""


def _without_source_map(text: str) -> str:
    """The text without the comment that makes developer tools look for a file next to the page."""
    return "\n".join(line for line in text.split("\n") if not line.startswith("//# sourceMappingURL="))


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


def _escape(text: str) -> str:
    return html.escape(text.encode("utf-8", "replace").decode())
