"""The fenced blocks of the documentation, and the marks above them that say how a test runs them.

A mark is an HTML comment on a line of its own, directly above a block. A block may have several.

    <!-- needs: gpu -->             not run: it needs what `NEEDS` describes; counted on docs/limits.md
    <!-- test: tests/a.py::test_b -->  run by another test, which reads the block from the page
    <!-- file: train.py -->         written into the page's folder, for the blocks below it
    <!-- exits: 4 -->               exit code of one or more of its commands; all others exit with 0
    <!-- answers: y -->             typed on the terminal of its commands, words as lines
    <!-- background: Ready -->      runs until the page ends; the next block starts when its output has this text
    <!-- alone -->                  a program that runs in an empty folder of its own
    <!-- output -->                 a `text` block: the output of the block above it, compared with what that printed

All other blocks run as `RUNS` says, in the order of the page, in one folder, which has `examples/` if the page
names a file of it.
`tests/end_to_end/test_doc_blocks.py` runs them and explains how to prepare a page's folder.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
NEEDS = {
    "gpu": "an NVIDIA GPU",
    "account": "an account of AWS",
    "network": "the internet, to install packages",
    "root": "root on Linux, and sudo",
    "docker": "Docker",
    "cluster": "a cluster of Slurm, MPI or Kubernetes",
    "editor": "an editor or an assistant",
}
"""What a block may need that the tests do not have."""

RUNS = {
    "sh": "shell",
    "bash": "shell",
    "console": "session",
    "python": "program",
    "yaml": "job file",
    "json": "document",
    "text": "sample",
}
"""How a block without a mark is run, by its language; a sample of output is not run."""

EC2_GUIDES = ("docs/guides/tensorflow-on-an-ec2-gpu.md", "docs/guides/aws-cuda-tensorflow.md")
"""Pages that `tests/end_to_end/test_ec2_guides.py` runs, with instances that boot."""

_MARKS = frozenset({"needs", "test", "file", "exits", "alone", "answers", "background", "output"})
_BLOCK = re.compile(
    r"(?P<marks>(?:^ *<!--[^\n]*-->\n)*)^(?P<indent> *)```(?P<language>[^\n]*)\n(?P<text>.*?)^(?P=indent)```$",
    re.MULTILINE | re.DOTALL,
)
_MARK = re.compile(r"<!-- (\w+)(?:: (.*?))? -->")


@dataclass(frozen=True)
class Block:
    """A fenced block of a page.

    Args:
        page: the path of the page, relative to the repository.
        line: of its fence.
        language: what follows the fence.
        text: its lines.
        marks: values by name; empty for a mark without a value.
    """

    page: str
    line: int
    language: str
    text: str
    marks: dict[str, str]

    @property
    def how(self) -> str:
        """How it is run: `needs`, `test`, `file`, `output`, a value of `RUNS`, or "" if nothing runs it."""
        for name in ("needs", "test", "file", "output"):
            if name in self.marks:
                return name
        return RUNS.get(self.language, "")

    def __str__(self) -> str:
        return f"{self.page}:{self.line} [{self.language}]"


def pages() -> list[str]:
    """The pages whose blocks are run: README and what was written by hand in `docs/`."""
    found = [ROOT / "README.md", *ROOT.glob("docs/*.md"), *ROOT.glob("docs/guides/*.md")]
    return sorted(page.relative_to(ROOT).as_posix() for page in found)


@cache
def blocks_of(page: str) -> tuple[Block, ...]:
    """All blocks of a page, in order."""
    text = (ROOT / page).read_text("utf-8")
    return tuple(_parse(page, text, match) for match in _BLOCK.finditer(text))


def mistakes(block: Block) -> list[str]:
    """What is wrong with a block's marks, or that nothing runs it."""
    found = [f"unknown mark: {name}" for name in block.marks if name not in _MARKS]
    if not block.how:
        found.append("no test runs it, and no mark says why")
    if unknown := {*block.marks.get("needs", "").split(", ")} - {"", *NEEDS}:
        found.append(f"unknown need: {', '.join(sorted(unknown))}")
    if len({"needs", "test", "file", "output"} & block.marks.keys()) > 1:
        found.append("has two marks that exclude each other")
    if "test" in block.marks and not _exists(block.marks["test"]):
        found.append(f"no such test: {block.marks['test']}")
    return found


def _parse(page: str, text: str, match: re.Match[str]) -> Block:
    marks = {name: value or "" for name, value in _MARK.findall(match["marks"])}
    indent = match["indent"]
    lines = [line.removeprefix(indent) for line in match["text"].splitlines(keepends=True)]
    line = text.count("\n", 0, match.start("indent")) + 1
    return Block(page, line, match["language"], "".join(lines), marks)


def _exists(test: str) -> bool:
    path, _, name = test.partition("::")
    file = ROOT / path
    return (
        file.is_file() and re.search(rf"^def {re.escape(name)}\(", file.read_text(), re.MULTILINE) is not None
    )
