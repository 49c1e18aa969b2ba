"""Rewrites the relative links of pages: what leads to a file of the repository on GitHub leads to its page on the site."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Mapping
from pathlib import Path

REPOSITORY = "https://github.com/gpuproof/gpuproof"

_FENCE = re.compile(r"(^(?P<fence>`{3,}).*?^(?P=fence)`*\s*?$)", re.MULTILINE | re.DOTALL)
_CODE = re.compile(r"(`+)(?:(?!\1).)+?\1", re.DOTALL)
_LINK = re.compile(r"(?<=\]\()(?P<target>[^()\s]+)(?=\)|\s+\")")


class Links:
    """Where the files of the repository are on the site.

    Args:
        root: the repository.
        staged: the page of the site by a file's path in the repository, such as `cli/index.md` for `docs/cli.md`.
        anchors: the page of the site by a link with an anchor whose page is split, such as `cli/run.md#gpuproof-run`
            for `docs/cli.md#gpuproof-run`.
    """

    def __init__(self, root: Path, staged: Mapping[str, str], anchors: Mapping[str, str]) -> None:
        self._root = root
        self._staged = staged
        self._anchors = anchors

    def rewrite(self, text: str, source: str, page: str) -> str:
        """The text of a page with links for the site.

        Args:
            source: the file from which relative links lead, below the repository.
            page: the path of the page on the site.

        Raises:
            FileNotFoundError: a link leads to no file.
        """
        return outside_code(
            text, lambda part: _LINK.sub(lambda m: self._target(m["target"], source, page), part)
        )

    def _target(self, target: str, source: str, page: str) -> str:
        path, _, anchor = target.partition("#")
        if not path or "://" in target or target.startswith("mailto:"):
            return target
        file = posixpath.normpath(posixpath.join(posixpath.dirname(source), path))
        suffix = f"#{anchor}" if anchor else ""
        here = posixpath.dirname(page) or "."
        if split := self._anchors.get(f"{file}{suffix}"):
            return posixpath.relpath(split, here)
        if staged := self._staged.get(file):
            return posixpath.relpath(staged, here) + suffix
        if not (self._root / file).exists():
            raise FileNotFoundError(f"{source} links to {target}, which does not exist")
        kind = "tree" if (self._root / file).is_dir() else "blob"
        return f"{REPOSITORY}/{kind}/main/{file}{suffix}"


def outside_code(text: str, change: Callable[[str], str]) -> str:
    """Change a Markdown text except for its blocks and spans of code."""
    parts: list[str] = []
    position = 0
    for fence in _FENCE.finditer(text):
        parts += (_outside_spans(text[position : fence.start()], change), fence[0])
        position = fence.end()
    return "".join((*parts, _outside_spans(text[position:], change)))


def _outside_spans(text: str, change: Callable[[str], str]) -> str:
    # The text of a link may contain a span, so that spans are hidden during the change and not cut out.
    spans: list[str] = []

    def hide(span: re.Match[str]) -> str:
        spans.append(span[0])
        return f"\0{len(spans) - 1}\0"

    return re.sub(r"\0(\d+)\0", lambda mark: spans[int(mark[1])], change(_CODE.sub(hide, text)))
