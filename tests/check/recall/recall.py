"""Measures how many everyday mistakes `gpuproof check` finds in whole projects, and prints them as a table.

Run it in the project's environment: `python tests/check/recall/recall.py [PROJECT ...]`. Each project below `projects/` is sound. Its
table `PROJECT.toml` has mistakes that are made one at a time, in a copy: nothing of a project is ever executed. A mistake is found
if one of its rules speaks in the right file, and on the right line if the table names one.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from gpuproof.app.check import CheckRequest, check_files
from gpuproof.findings import Finding

PROJECTS = Path(__file__).parent / "projects"
_DEPTH = 6
"""Folders around a copy: the linter looks for scripts in the folders above, and must not find anything else there."""


@dataclass(frozen=True)
class Mutation:
    """One mistake.

    Args:
        rules: codes of the rules, one of which must speak; any if empty.
        file: the file that is changed.
        changes: texts of the file, each of which occurs once, and what replaces them.
        where: the file that the finding must be in; that which is changed, or one that links to it, if empty.
        at: part of the line that the finding must be on; any line if empty.
    """

    project: str
    mistake: str
    rules: tuple[str, ...]
    file: str
    changes: tuple[tuple[str, str], ...]
    where: str = ""
    at: str = ""

    def apply(self, folder: Path) -> None:
        """Make the mistake in a copy of the project."""
        path = folder / self.file
        text = path.read_text()
        for old, new in self.changes:
            if text.count(old) != 1:
                raise ValueError(
                    f"{self.project}, {self.mistake!r}: {old!r} occurs {text.count(old)} times in {self.file}"
                )
            text = text.replace(old, new)
        path.write_text(text)

    def is_found_by(self, finding: Finding, folder: Path) -> bool:
        """Whether a finding in a copy of the project is about this mistake."""
        location = finding.location
        if self.rules and finding.code not in self.rules:
            return False
        if location is None or location.file is None:
            return not (self.where or self.at)
        path = Path(location.file)
        name = path.relative_to(folder).as_posix() if path.is_absolute() else path.as_posix()
        if self.where and name != self.where:
            return False
        if not self.at:
            return True
        lines = (folder / name).read_text().splitlines()
        return location.line is not None and self.at in lines[location.line - 1]


@dataclass(frozen=True)
class Outcome:
    """What was found after one mistake."""

    mutation: Mutation
    found: tuple[Finding, ...]
    others: tuple[Finding, ...]


def projects() -> list[str]:
    """The names of the projects."""
    return sorted(path.stem for path in PROJECTS.glob("*.toml"))


def mutations(project: str) -> list[Mutation]:
    """The mistakes of a project."""
    table = tomllib.loads((PROJECTS / f"{project}.toml").read_text())["mutation"]
    return [
        Mutation(
            project,
            row["mistake"],
            tuple(row.get("rules", ())),
            row["file"],
            ((row["old"], row["new"]), *((old, new) for old, new in row.get("also", ()))),
            row.get("where", ""),
            row.get("at", ""),
        )
        for row in table
    ]


def findings(
    project: str, mutation: Mutation | None = None
) -> tuple[tuple[Finding, ...], tuple[Finding, ...]]:
    """What `check` reports about a copy of a project: about the mistake, and else."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary, *(f"level{number}" for number in range(_DEPTH)), project)
        shutil.copytree(PROJECTS / project, folder)
        if mutation is not None:
            mutation.apply(folder)
        before = Path.cwd()
        os.chdir(folder)
        try:
            report = check_files(CheckRequest())
        finally:
            os.chdir(before)
        if report.internal_errors:
            raise AssertionError(f"{project}: {report.internal_errors}")
        given = tuple(hit.finding for hit in report.hits)
        found = tuple(
            finding for finding in given if mutation is not None and mutation.is_found_by(finding, folder)
        )
        return found, tuple(finding for finding in given if finding not in found)


def outcomes(project: str) -> Iterator[Outcome]:
    """What is found after each mistake of a project."""
    for mutation in mutations(project):
        yield Outcome(mutation, *findings(project, mutation))


def main(names: list[str]) -> int:
    """Print the table; returns 1 if a sound project has findings."""
    unsound, found, total = 0, 0, 0
    for project in names or projects():
        _, noise = findings(project)
        unsound += len(noise)
        print(f"\n{project}: {len(noise)} findings without a mistake")
        for finding in noise:
            print(f"  {finding.code} {finding.location}: {finding.message}")
        for outcome in outcomes(project):
            total += 1
            found += bool(outcome.found)
            codes = sorted({finding.code for finding in outcome.found})
            wanted = " or ".join(outcome.mutation.rules) or "any rule"
            others = sorted({finding.code for finding in outcome.others})
            shown = ", ".join(codes) if codes else f"MISSED ({wanted})"
            print(
                f"  {shown:<28} {outcome.mutation.mistake}"
                + (f"  [also {', '.join(others)}]" if others else "")
            )
    print(f"\n{found} of {total} mistakes found ({100 * found / max(total, 1):.0f} %)")
    return 1 if unsound else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
