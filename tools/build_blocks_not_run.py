"""Writes into docs/limits.md which code blocks of the documentation no test runs, and what they need.

python tools/build_blocks_not_run.py          # write it
python tools/build_blocks_not_run.py --check  # exit 1 if it is not current
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

from build_cli_docs import write_or_check

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))

_SECTION = re.compile(r"(?<=<!-- blocks that are not run -->\n).*(?=<!-- end of these blocks -->)", re.DOTALL)


def main() -> int:
    """Write, or with --check compare."""
    page = ROOT / "docs/limits.md"
    section = "\n".join(lines()) + "\n"
    return write_or_check(page, _SECTION.sub(lambda _: section, page.read_text("utf-8")), __doc__)


def lines() -> Iterator[str]:
    """The section: a sentence and a table."""
    from support.doc_blocks import NEEDS, blocks_of, pages

    blocks = [block for page in pages() for block in blocks_of(page) if block.language != "text"]
    needing = [block for block in blocks if "needs" in block.marks]
    yield f"Of {len(blocks)} code blocks in README and these pages, {len(needing)} are not run by a test."
    yield ""
    yield "| what they need | blocks | pages |"
    yield "|---|---|---|"
    for need, description in NEEDS.items():
        found = [block.page for block in needing if need in block.marks["needs"].split(", ")]
        if found:
            links = ", ".join(_link(page) for page in dict.fromkeys(found))
            yield f"| {description} | {len(found)} | {links} |"


def _link(page: str) -> str:
    target = page.removeprefix("docs/") if page.startswith("docs/") else f"../{page}"
    return f"[{Path(page).stem}]({target})"


if __name__ == "__main__":
    sys.exit(main())
