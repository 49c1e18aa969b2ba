"""Collects the pages of the site and writes them into a folder of sources, with the navigation."""

from __future__ import annotations

import posixpath
import re
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path

from site_source.autolink import link_codes
from site_source.commands import command_anchors, command_pages
from site_source.doctor_codes import doctor_pages
from site_source.errors import error_pages
from site_source.instance_table import catalogue_page
from site_source.job_keys import job_keys_page
from site_source.links import REPOSITORY, Links
from site_source.pages import ROOT, Page, filterable
from site_source.python_api import api_pages

PROJECT = {
    "ARCHITECTURE.md": "project/architecture.md",
    "CHANGELOG.md": "project/changelog.md",
    "CODE_OF_CONDUCT.md": "project/code-of-conduct.md",
    "CONTRIBUTING.md": "project/contributing.md",
    "SECURITY.md": "project/security.md",
}
"""Where the pages at the root of the repository are on the site."""

RENAMED = {
    "docs/README.md": "contents.md",
    "docs/cli.md": "cli/index.md",
    "docs/rules/README.md": "rules/index.md",
}
"""Pages of `docs/` with another path on the site; `docs/cli.md` has its pages from the parsers."""

FILES = (
    *(file.relative_to(ROOT).as_posix() for file in sorted((ROOT / "docs").glob("*.[sp][vn]g"))),
    "docs/gpuproof.schema.json",
    "docs/verdict.schema.json",
    "llms.txt",
)
"""Files that are copied as they are, to the root of the site."""


def stage(folder: Path) -> list[Page]:
    """Write all sources into a folder, which is removed first.

    Returns:
        The pages.
    """
    pages = list(all_pages())
    staged = {page.source: page.path for page in pages if page.source}
    staged |= {f"docs/{page.path}": page.path for page in pages if not page.source}
    staged |= {name: posixpath.basename(name) for name in FILES}
    staged["docs/cli.md"] = "cli/index.md"
    links = Links(ROOT, staged, command_anchors())
    codes = code_pages(pages)
    shutil.rmtree(folder, ignore_errors=True)
    for page in pages:
        source = page.source or f"docs/{posixpath.basename(page.path)}"
        text = link_codes(links.rewrite(page.text, source, page.path), codes, page.path)
        _write(folder / page.path, page, text)
    for name in FILES:
        shutil.copy(ROOT / name, folder / posixpath.basename(name))
    shutil.copytree(ROOT / "site" / "assets", folder / "assets")
    return pages


def all_pages() -> Iterator[Page]:
    """Every page of the site."""
    yield home_page()
    yield from written_pages()
    yield from command_pages()
    yield from doctor_pages()
    yield from error_pages()
    yield from api_pages()
    yield job_keys_page()
    yield catalogue_page()


def with_list(text: str, path: str) -> str:
    """A page of a rule with a link to the list of rules, and the list with a filter."""
    if path == "rules/index.md":
        return re.sub(
            r"(?:^\|.*\n)+",
            lambda found: filterable(found[0], "Filter rules"),
            text,
            count=1,
            flags=re.MULTILINE,
        )
    if path.startswith("rules/"):
        return re.sub(r"^\*(.+)\*$", r"*\1* · [All rules](README.md)", text, count=1, flags=re.MULTILINE)
    return text


def home_page() -> Page:
    """The home page, whose examples are blocks of other pages, which tests run."""
    text = (ROOT / "site" / "index.md").read_text(encoding="utf-8")
    text = re.sub(r"<!-- block: (\S+): (.+?) -->", lambda wanted: console_block(wanted[1], wanted[2]), text)
    return Page("index.md", text, hide=("navigation", "toc"))


def console_block(file: str, command: str) -> str:
    """The first console block of a page that begins with a command.

    Raises:
        LookupError: the page has no such block.
    """
    page = (ROOT / file).read_text(encoding="utf-8")
    for block in re.findall(r"^```console\n.*?^```", page, re.MULTILINE | re.DOTALL):
        if block.startswith(f"```console\n$ {command}"):
            return block
    raise LookupError(f"{file} has no console block that begins with: {command}")


def written_pages() -> Iterator[Page]:
    """The pages of `docs/` and those at the root of the repository."""
    for file in sorted((ROOT / "docs").rglob("*.md")):
        source = file.relative_to(ROOT).as_posix()
        if source != "docs/cli.md":
            path = RENAMED.get(source, source.removeprefix("docs/"))
            yield Page(path, with_list(file.read_text(encoding="utf-8"), path), source)
    for source, path in PROJECT.items():
        yield Page(path, (ROOT / source).read_text(encoding="utf-8"), source)


def code_pages(pages: Iterable[Page]) -> dict[str, str]:
    """The page of each rule, code of `doctor` and error of `explain`."""
    paths = [page.path for page in pages if page.path.startswith(("rules/", "doctor/", "errors/"))]
    tables = ("rules/index.md", "doctor/codes.md", "errors/index.md")
    return {posixpath.basename(path).removesuffix(".md"): path for path in paths if path not in tables}


def _write(file: Path, page: Page, text: str) -> None:
    head = [f"  - {part}" for part in page.hide]
    front = ["hide:", *head] if head else []
    if page.source:
        front.append(f"edit: {REPOSITORY}/edit/main/{page.source}")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("\n".join(["---", *front, "---", "", text]) if front else text, encoding="utf-8")
