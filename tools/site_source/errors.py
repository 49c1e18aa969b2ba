"""Pages of the errors that `gpuproof explain` knows: one for each, from its row in `explain/data`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from site_source.pages import ROOT, Page, code_block, filterable, plain, table

if TYPE_CHECKING:
    from gpuproof.explain.patterns import KnownError

LOGS = ROOT / "tests" / "explain" / "logs"
LINES_BEFORE, LINES_AFTER = 6, 4

AREAS = {
    "driver": "Driver and CUDA",
    "containers": "Containers",
    "distributed": "NCCL, EFA and launchers",
    "tensorflow": "TensorFlow and Keras",
    "torch": "PyTorch",
    "python": "Python",
    "hubs": "Model hubs",
    "host": "Host",
    "sagemaker": "SageMaker",
    "serving": "Serving",
    "sdk": "SageMaker SDK and boto3",
    "shells": "Shells",
    "system": "Operating system",
    "trainers": "Training libraries",
    "ec2": "EC2",
}

EVIDENCE = {
    "reproduced": "reproduced",
    "read-in-source": "read in the source code",
    "read-in-docs": "read in the documentation",
    "seen-in-logs": "seen in logs",
    "general-knowledge": "general knowledge",
}


def error_pages() -> Iterator[Page]:
    """The list of errors, and a page for each."""
    from gpuproof.explain.patterns import known_errors

    errors = known_errors()
    lines = [
        "# Errors that `gpuproof explain` knows\n",
        f"{len(errors)} errors with their cause and what to do. `gpuproof explain train.log` finds them in a log, and adds what the log or the",
        "machine says about it ([explain](explain.md)).\n",
        filterable(
            table(
                ("Error", "Area", "Message", "Cause"),
                [
                    (
                        f"[{error.code}](errors/{error.code}.md)",
                        AREAS[error.area],
                        f"`{error.clues[0].replace('`', '')}`",
                        plain(general(error.cause)),
                    )
                    for error in errors
                ],
            ),
            "Filter errors",
        ),
    ]
    yield Page("errors/index.md", "\n".join(lines), hide=("toc",))
    known = {error.code for error in errors}
    for error in errors:
        yield Page(f"errors/{error.code}.md", _page(error, known))


def general(template: str) -> str:
    """A template of a cause or remedy without what only a log can say.

    Parts in `[[…]]` are left out, and `{group}` is its name in capitals.
    """
    text = re.sub(r"\[\[.*?\]\]", "", template)
    text = re.sub(r"(?<!\{)\{(\w+)\}(?!\})", lambda group: group[1].upper(), text)
    return text.replace("{{", "{").replace("}}", "}").strip()


def _page(error: KnownError, known: set[str]) -> str:
    parts = [
        f"# {error.code}\n",
        # First, because the search shows it below the title.
        plain(general(error.cause)) + "\n",
        f"*{error.severity}, {AREAS[error.area]}* · [All errors](errors/index.md)\n",
        "## Message\n",
        code_block("\n".join(clue.strip() for clue in error.clues)),
        "## What to do\n",
        plain(general(error.remedy)) + "\n",
    ]
    causes = [code for code in error.caused_by if code in known]
    if causes:
        links = ", ".join(f"[{code}](errors/{code}.md)" for code in causes)
        parts.append(
            f"It often only follows from another error; if the log has one of these, that is the cause: {links}.\n"
        )
    elif error.depth != "cause":
        parts.append("It often only follows from another error, which is further up in the log.\n")
    parts += ["## In a log\n", code_block(_excerpt(error))]
    parts.append(
        f"`gpuproof explain LOG` finds this error. Evidence: {EVIDENCE[error.evidence]} ({error.as_of}).\n"
    )
    return "\n".join(parts)


def _excerpt(error: KnownError) -> str:
    """The lines around the message in the log of the error's test."""
    lines = (LOGS / f"{error.code}.log").read_text(encoding="utf-8", errors="replace").rstrip().splitlines()
    found = next(
        (number for number, line in enumerate(lines) if any(clue in line for clue in error.clues)), 0
    )
    first, last = max(0, found - LINES_BEFORE), found + LINES_AFTER + 1
    before, after = ["…"] if first else [], ["…"] if last < len(lines) else []
    return "\n".join([*before, *lines[first:last], *after])
