"""The HTML documents of the dashboard: frames that `assets/dashboard.js` fills from JSON, and the scripts and style sheets."""

from __future__ import annotations

from functools import cache
from html import escape
from pathlib import Path

from gpuproof.report import scripts, style_sheet

ASSETS = Path(__file__).parent / "assets"
_PAGES = {"runs": ("Runs", "/"), "costs": ("Costs", "/costs"), "plans": ("Plans", "/plans")}


def frame_document(page: str, *, form_key: str, allow_stop: bool) -> str:
    """The document of a page without its content.

    Args:
        page: `runs`, `run`, `compare`, `costs` or `plans`.
        form_key: what the page sends with a request that changes something.
    """
    links = "".join(
        f'<li><a href="{path}"{" aria-current=page" if name == page else ""}>{title}</a></li>'
        for name, (title, path) in _PAGES.items()
    )
    stop = f' data-form-key="{escape(form_key)}"' if allow_stop else ""
    return _document(
        "GPUproof",
        f'<body data-page="{page}"{stop}>\n'
        f'<nav id="dashboard" aria-label="Dashboard"><ul><li><strong>GPUproof</strong></li>{links}</ul></nav>\n'
        '<section id="controls" aria-label="Options" hidden></section>\n'
        '<p id="state" role="status">Loading …</p>\n'
        '<div id="report"></div>\n'
        "<noscript><p>The dashboard needs JavaScript.</p></noscript>\n"
        '<script src="/assets/report.js"></script>\n<script src="/assets/runs.js"></script>\n'
        '<script src="/assets/dashboard.js"></script>\n</body>',
        '<link rel="stylesheet" href="/assets/report.css">\n<link rel="stylesheet" href="/assets/dashboard.css">\n',
    )


def refused_document(reason: str) -> str:
    """The document of a refused request."""
    return _document(
        "Not admitted",
        f"<body><main><h1>Not admitted</h1><p>{escape(reason)}</p>"
        "<p>Open the address that <code>gpuproof dashboard</code> printed, with its token. If you just did, "
        '<a href="/">continue</a>.</p></main></body>',
    )


@cache
def asset(name: str) -> tuple[str, str] | None:
    """The text and the media type of a script or a style sheet; None if there is none of this name."""
    match name:
        case "report.js":
            # In strict mode, which the first file begins, or not: the libraries are written for both.
            return ";\n".join(scripts()), "text/javascript"
        case "report.css":
            return style_sheet(), "text/css"
        case "runs.js" | "dashboard.js":
            return (ASSETS / name).read_text(encoding="utf-8"), "text/javascript"
        case "dashboard.css":
            return (ASSETS / name).read_text(encoding="utf-8"), "text/css"
        case _:
            return None


def _document(title: str, body: str, head: str = "") -> str:
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f'<title>{title}</title>\n<link rel="icon" href="data:,">\n{head}</head>\n{body}\n</html>\n'
    )
