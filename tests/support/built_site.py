"""The HTML of the documentation site: its pages, their anchors, and what they link to."""

from __future__ import annotations

import html
import re
from functools import cached_property
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote, urljoin, urlsplit

_TAG = re.compile(r"<([a-z][a-z0-9]*)\s([^<>]*)>")
_ATTRIBUTE = re.compile(r"""([a-z-]+)=(?:"([^"]*)"|'([^']*)'|([^\s"'>]+))""")
_LOADS = {("script", "src"), ("img", "src"), ("link", "href"), ("iframe", "src")}
_RELATIONS_NOT_LOADED = {"canonical", "alternate", "next", "prev", "edit"}


class Reference(NamedTuple):
    """A link, or a file that a page loads."""

    tag: str
    target: str
    is_loaded: bool


class HtmlPage:
    """One page.

    Args:
        path: below the site, such as `cli/run/index.html`.
    """

    def __init__(self, site: Path, path: str) -> None:
        self.path = path
        self.text = (site / path).read_text(encoding="utf-8")

    @property
    def address(self) -> str:
        """Its path in a browser: `/cli/run/`."""
        return "/" + self.path.removesuffix("index.html")

    @cached_property
    def anchors(self) -> set[str]:
        """Values of `id` and `name`."""
        return {
            value for _, attributes in self._tags for key in ("id", "name") if (value := attributes.get(key))
        }

    @cached_property
    def references(self) -> list[Reference]:
        """What the page links to or loads."""
        found: list[Reference] = []
        for tag, attributes in self._tags:
            for key in ("href", "src"):
                if (target := attributes.get(key)) is not None:
                    loaded = (tag, key) in _LOADS and attributes.get("rel") not in _RELATIONS_NOT_LOADED
                    found.append(Reference(tag, target, loaded))
        return found

    @cached_property
    def _tags(self) -> list[tuple[str, dict[str, str]]]:
        without_scripts = re.sub(r"(<script\b[^>]*>).*?</script>", r"\1", self.text, flags=re.DOTALL)
        return [
            (tag, {key: html.unescape(a or b or c) for key, a, b, c in _ATTRIBUTE.findall(attributes)})
            for tag, attributes in _TAG.findall(without_scripts)
        ]


class BuiltSite:
    """A built site.

    Args:
        folder: with its `index.html`.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        files = sorted(file.relative_to(folder).as_posix() for file in folder.rglob("*.html"))
        self.pages = {page.address: page for page in (HtmlPage(folder, path) for path in files)}

    def has(self, address: str, anchor: str = "") -> bool:
        """Whether there is a page, and an anchor on it."""
        page = self.pages.get(address)
        return page is not None and (not anchor or anchor in page.anchors)

    def broken_links(self) -> list[str]:
        """Links within the site that lead to no page, file or anchor."""
        return [
            f"{page.address}: {reference.target}"
            for page in self.pages.values()
            if page.path != "404.html"  # its links are absolute, below the address of the site
            for reference in page.references
            if not urlsplit(reference.target).scheme and not self._leads_somewhere(page, reference.target)
        ]

    def loaded_from_elsewhere(self) -> list[str]:
        """Files that pages load from other servers."""
        return [
            f"{page.address}: {reference.target}"
            for page in self.pages.values()
            for reference in page.references
            if reference.is_loaded and urlsplit(reference.target).netloc
        ]

    def unreachable(self) -> set[str]:
        """Pages to which no path of links leads from the home page."""
        reached, waiting = {"/"}, ["/"]
        while waiting:
            page = self.pages[waiting.pop()]
            for reference in page.references:
                target = urljoin(page.address, urlsplit(reference.target).path)
                if reference.tag == "a" and target in self.pages and target not in reached:
                    reached.add(target)
                    waiting.append(target)
        return set(self.pages) - reached - {"/404.html"}

    def _leads_somewhere(self, page: HtmlPage, target: str) -> bool:
        parts = urlsplit(target)
        path = unquote(urljoin(page.address, parts.path)) if parts.path else page.address
        anchor = unquote(parts.fragment)
        if path in self.pages:
            return not anchor or anchor in self.pages[path].anchors or anchor == "__skip"
        return (self.folder / path.lstrip("/")).is_file()
