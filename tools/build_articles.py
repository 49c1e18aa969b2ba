"""Writes docs/articles.md: the code blocks of five older articles, and what happens with each of them today.

python tools/build_articles.py          # write it
python tools/build_articles.py --check  # exit 1 if it is not current
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from build_cli_docs import write_or_check

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from support.article_blocks import ARTICLES, BLOCKS, Block, all_blocks, findings  # noqa: E402 - of the tests

PAGE = ROOT / "docs" / "articles.md"
HEAD = """# Older articles

Searches for GPUs on AWS lead to five articles of January 2025. Each question has a [guide](README.md#guides) here. This page lists each of
their {count} code blocks as GPUproof's tests re-create it: what is wrong in it, as `gpuproof check` reports it, and what happens when it,
or its mended form, runs. It is written by `tools/build_articles.py` from the data of the tests that it names.
"""


def main() -> int:
    """Write, or with --check compare."""
    return write_or_check(PAGE, page(), __doc__)


def page() -> str:
    """The whole page."""
    parts = [HEAD.format(count=len(all_blocks()))]
    for article in ARTICLES:
        parts.append(f"## {article.question}\n\n[The guide](guides/{article.guide}.md).\n")
        for number, block in enumerate(article.blocks, 1):
            parts.append("\n".join(section(number, block)))
    return "\n".join(parts)


def section(number: int, block: Block) -> Iterator[str]:
    """One block."""
    yield f"### {number}. {block.about}\n"
    yield f"[`{block.folder}`](../{(BLOCKS / block.folder).relative_to(ROOT)})\n"
    for finding in findings(block):
        code, where = finding["code"], finding["location"]
        yield f"- [{code}](rules/{code}.md), `{where['file']}` line {where['line']}: {finding['message']}"
    if not block.found:
        yield "- `gpuproof check` reports nothing."
    yield f"- **Today.** {block.today}"
    yield f"- Test: `{block.test}`\n"


if __name__ == "__main__":
    sys.exit(main())
