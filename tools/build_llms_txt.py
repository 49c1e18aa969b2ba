"""Writes `llms.txt`: the guide for coding assistants, and the pages of the documentation (https://llmstxt.org).

python tools/build_llms_txt.py          # write it
python tools/build_llms_txt.py --check  # exit 1 if it is not current
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

from build_cli_docs import write_or_check

ROOT = Path(__file__).resolve().parent.parent
PAGES = "https://github.com/gpuproof/gpuproof/blob/main/docs/"


def main() -> int:
    """Write, or with --check compare."""
    from gpuproof.cli.assistants.guide import guide

    lines = [*guide(), "", "## Documentation", "", *pages((ROOT / "docs/README.md").read_text("utf-8"))]
    return write_or_check(ROOT / "llms.txt", "\n".join(lines) + "\n", __doc__)


def pages(contents: str) -> Iterator[str]:
    """The pages that the table of contents lists, as links with descriptions."""
    for title, page, description in re.findall(r"^\| \[(.+?)\]\((.+?)\) \| (.+) \|$", contents, re.MULTILINE):
        without_links = re.sub(r"\[(.+?)\]\(.+?\)", r"\1", description)
        yield f"- [{title}]({PAGES}{page}): {without_links}"


if __name__ == "__main__":
    sys.exit(main())
