"""The navigation of the site. Guides are found; pages of rules, errors and codes are reached from their tables."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeAlias

from site_source.pages import Page

Entry: TypeAlias = "str | tuple[str, str | list[Entry]]"

START: list[Entry] = [
    "quickstart.md",
    "running-jobs.md",
    "verdict.md",
    "aws-account.md",
    "troubleshooting.md",
]

SECTIONS: dict[str, list[Entry]] = {
    "Before a run": ["check.md", "plan.md", "doctor.md", "gpus.md"],
    "Run": ["top.md", "dashboard.md", "job-file.md", "sagemaker.md", "ec2.md", "distributed.md", "notebooks.md", "emulator.md"],
    "Watch other launchers": [
        "watch.md", "watch-python.md", "watch-notebooks.md", "watch-sagemaker.md", "watch-images.md", "watch-clusters.md", "watch-machine.md",
    ],
    "After a run": ["explain.md", "report.md", "steps.md", "compare.md", "ci.md", "receipts.md", "monitoring.md"],
    "Serve": ["endpoints.md", "serving.md"],
    "Account": ["cost.md", "audit.md", "security.md", "acceptance.md"],
    "Scripts and assistants": ["runtime.md", "assistants.md"],
}  # fmt: skip

REFERENCE: list[Entry] = [
    "concepts.md",
    "cli/index.md",
    "exit-codes.md",
    "job-file-keys.md",
    ("Python", ["python/gpuproof.md", "python/runtime.md"]),
    ("Rules of check", "rules/index.md"),
    ("Codes of doctor", "doctor/codes.md"),
    ("Errors of explain", "errors/index.md"),
    ("Instance types", "catalogue.md"),
    "verdict-reference.md",
    "plan-reference.md",
    "ec2-reference.md",
    "emulator-reference.md",
]

PROJECT: list[Entry] = [
    "comparison.md",
    "limits.md",
    "articles.md",
    "project/security.md",
    "project/architecture.md",
    "project/contributing.md",
    "project/changelog.md",
    "project/code-of-conduct.md",
    "contents.md",
]

UNLISTED = ("rules/", "errors/", "doctor/")
"""Folders whose pages are reached from a table."""


def navigation(pages: Sequence[Page]) -> str:
    """The navigation as the key `nav` of `mkdocs.yml`; pages that no list names are in the guides."""
    paths = [page.path for page in pages]
    guides = sorted(path for path in paths if path.startswith("guides/"))
    commands = [path for path in paths if path.startswith("cli/") and path != "cli/index.md"]
    tree: list[Entry] = [
        ("Home", "index.md"),
        ("Start", START),
        ("Guides", [*guides, *SECTIONS.items()]),
        ("Reference", [*REFERENCE, ("Every command", list[Entry](commands))]),
        ("Project", PROJECT),
    ]
    named = set(_paths(tree))
    others = [path for path in paths if path not in named and not path.startswith(UNLISTED)]
    if others:
        tree[2] = ("Guides", [*guides, *SECTIONS.items(), ("More", list[Entry](others))])
    return "nav:\n" + "".join(_lines(tree, set(paths), 1))


def _paths(entries: Iterable[Entry]) -> Iterable[str]:
    for entry in entries:
        value = entry if isinstance(entry, str) else entry[1]
        if isinstance(value, str):
            yield value
        else:
            yield from _paths(value)


def _lines(entries: Iterable[Entry], paths: set[str], depth: int) -> Iterable[str]:
    indent = "  " * depth
    for entry in entries:
        title, value = (None, entry) if isinstance(entry, str) else entry
        if not isinstance(value, str):
            yield f"{indent}- {title}:\n"
            yield from _lines(value, paths, depth + 1)
        elif value in paths:
            yield f"{indent}- {f'{title}: ' if title else ''}{value}\n"
