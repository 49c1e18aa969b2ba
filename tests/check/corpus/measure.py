"""Measures what `gpuproof check` finds in labelled projects, and prints recall, precision, misses and false positives.

Run it in the project's environment: `python tests/check/corpus/measure.py [STYLE[/PROJECT] ...]`. Each project is a folder
`projects/STYLE/PROJECT`, and the table beside it, `PROJECT.toml`, lists its mistakes: a project without any is clean. Nothing of
a project is ever executed.

A finding is about a mistake if it has one of the mistake's codes and is within ten lines of the mistake's line, or if the mistake
has no codes and the finding is in the mistake's statement. Findings about no mistake are false positives, except notes.
"""

from __future__ import annotations

import ast
import functools
import json
import os
import shutil
import sys
import tempfile
import tomllib
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gpuproof.app.check import CheckRequest, check_files
from gpuproof.findings import Finding, Severity
from gpuproof.linter.rule import Hit

PROJECTS = Path(__file__).parent / "projects"
_DEPTH = 6
"""Folders around a copy: the linter looks for scripts in the folders above, and must not find anything else there."""
_NEAR = 10
"""Lines between a mistake's line and a finding with one of its codes."""


@dataclass(frozen=True)
class Mistake:
    """One labelled mistake.

    Args:
        what: the mistake in one line.
        codes: rules that report it; any rule if empty.
        file: the file with the mistake.
        at: parts of lines, on one of which a reader expects the finding; anywhere in the file if empty.
        certain: whether it certainly fails or wastes, as the project's text alone shows.
        also: other files in which a finding is acceptable.
    """

    what: str
    codes: tuple[str, ...]
    file: str
    at: tuple[str, ...]
    certain: bool
    also: tuple[str, ...] = ()

    def matches(self, hit: Hit, folder: Path) -> bool:
        """Whether a finding is about this mistake."""
        location = hit.finding.location
        if self.codes and hit.code not in self.codes:
            return False
        if location is None or location.file is None:
            return bool(self.codes)
        name = _relative(location.file, folder)
        if name in self.also:
            return True
        if name != self.file:
            return False
        if location.line is None:
            return bool(self.codes) or not self.at
        position = (hit.cell, location.line)
        lines = _lines(folder / name)
        places = [
            place for place, text in lines.items() if any(part in text for part in self.at) or not self.at
        ]
        if self.codes:
            return any(cell == hit.cell and abs(line - location.line) <= _NEAR for cell, line in places)
        return any(position in _statement(place, folder / name) for place in places)


@dataclass(frozen=True)
class Outcome:
    """What was found in one project.

    Args:
        project: `STYLE/PROJECT`.
        found: mistakes with their findings.
        missed: mistakes without findings.
        others: false positives.
    """

    project: str
    found: tuple[tuple[Mistake, tuple[Finding, ...]], ...]
    missed: tuple[Mistake, ...]
    others: tuple[Finding, ...]

    @property
    def is_clean(self) -> bool:
        """Whether the project has no mistakes."""
        return not (self.found or self.missed)


@dataclass
class Totals:
    """Sums over projects."""

    projects: int = 0
    mistakes: int = 0
    found: int = 0
    certain: int = 0
    certain_found: int = 0
    clean: int = 0
    flagged: list[str] = field(default_factory=list[str])
    true_positives: int = 0
    false_positives: int = 0

    def add(self, outcome: Outcome) -> None:
        """Count a project."""
        found = [mistake for mistake, _ in outcome.found]
        self.projects += 1
        self.mistakes += len(found) + len(outcome.missed)
        self.found += len(found)
        self.certain += sum(mistake.certain for mistake in (*found, *outcome.missed))
        self.certain_found += sum(mistake.certain for mistake in found)
        self.clean += outcome.is_clean
        if outcome.is_clean and outcome.others:
            self.flagged.append(outcome.project)
        self.true_positives += len({finding for _, findings in outcome.found for finding in findings})
        self.false_positives += len(outcome.others)

    @property
    def recall(self) -> float:
        """Share of the mistakes that are found."""
        return self.found / max(self.mistakes, 1)

    @property
    def certain_recall(self) -> float:
        """Share of the certain mistakes that are found."""
        return self.certain_found / max(self.certain, 1)

    @property
    def precision(self) -> float:
        """Share of the findings that are about a mistake."""
        return self.true_positives / max(self.true_positives + self.false_positives, 1)


def projects(names: Iterable[str] = ()) -> list[str]:
    """The projects of the given styles or with the given names, as `STYLE/PROJECT`; all by default."""
    found = sorted(f"{table.parent.name}/{table.stem}" for table in PROJECTS.glob("*/*.toml"))
    wanted = [name.strip("/") for name in names]
    return [
        project
        for project in found
        if not wanted or any(project == name or project.startswith(name + "/") for name in wanted)
    ]


def mistakes(project: str) -> list[Mistake]:
    """The mistakes of a project."""
    table = tomllib.loads((PROJECTS / f"{project}.toml").read_text())
    return [
        Mistake(
            row["what"],
            tuple(row.get("codes", ())),
            row["file"],
            _texts(row.get("at", ())),
            row.get("certain", False),
            _texts(row.get("also", ())),
        )
        for row in table.get("mistake", ())
    ]


def outcome(project: str) -> Outcome:
    """Check a copy of a project and compare the findings with its mistakes."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary, *(f"level{number}" for number in range(_DEPTH)), Path(project).name)
        shutil.copytree(PROJECTS / project, folder)
        before = Path.cwd()
        os.chdir(folder)
        try:
            report = check_files(CheckRequest())
        finally:
            os.chdir(before)
        if report.internal_errors:
            raise AssertionError(f"{project}: {report.internal_errors}")
        labels = mistakes(project)
        about = {
            mistake: tuple(hit.finding for hit in report.hits if mistake.matches(hit, folder))
            for mistake in labels
        }
        matched = {finding for findings in about.values() for finding in findings}
        return Outcome(
            project,
            tuple((mistake, findings) for mistake, findings in about.items() if findings),
            tuple(mistake for mistake, findings in about.items() if not findings),
            tuple(
                hit.finding
                for hit in report.hits
                if hit.finding not in matched and hit.finding.severity is not Severity.NOTE
            ),
        )


def labels_out_of_place(project: str) -> list[str]:
    """Labels that name a file or a line that the project does not have."""
    problems: list[str] = []
    for mistake in mistakes(project):
        problems += [
            f"{project}: no file {name}"
            for name in (mistake.file, *mistake.also)
            if not (PROJECTS / project / name).is_file()
        ]
        path = PROJECTS / project / mistake.file
        texts = _lines(path).values() if path.is_file() else ()
        problems += [
            f"{project}: no line of {mistake.file} contains {part!r}"
            for part in mistake.at
            if not any(part in text for text in texts)
        ]
    return problems


def _texts(value: Any) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else tuple(value)


def _relative(file: str, folder: Path) -> str:
    path = Path(file)
    return path.relative_to(folder).as_posix() if path.is_absolute() else path.as_posix()


def _lines(path: Path) -> dict[tuple[int | None, int], str]:
    """The lines of a file by cell and number; the cell is None except in notebooks."""
    return {
        (cell, number): text
        for cell, source in _sources(path).items()
        for number, text in enumerate(source.splitlines(), 1)
    }


def _sources(path: Path) -> dict[int | None, str]:
    """The text of a file, or of each cell of a notebook."""
    text = path.read_text()
    if path.suffix != ".ipynb":
        return {None: text}
    return {number: "".join(cell["source"]) for number, cell in enumerate(json.loads(text)["cells"], 1)}


def _statement(place: tuple[int | None, int], path: Path) -> set[tuple[int | None, int]]:
    """The lines of the statement on a line, and the lines before and after."""
    cell, line = place
    first, last = line, line
    if path.suffix in (".py", ".ipynb"):
        for start, end in _statements(_sources(path)[cell]):
            if start <= line <= end:
                first, last = min(first, start), max(last, end)
    return {(cell, number) for number in range(first - 1, last + 2)}


@functools.lru_cache(maxsize=64)
def _statements(source: str) -> list[tuple[int, int]]:
    """First and last lines of the simple statements and of the heads of the others; empty if it does not parse."""
    try:
        tree = ast.parse(source)
    except SyntaxError:
        return []
    spans: list[tuple[int, int]] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.stmt):
            body: list[ast.stmt] = getattr(node, "body", [])
            end = body[0].lineno - 1 if body else node.end_lineno or node.lineno
            spans.append((node.lineno, max(end, node.lineno)))
    return spans


def main(names: list[str]) -> int:
    """Print the tables; returns 1 if a label is out of place."""
    chosen = projects(names)
    problems = [problem for project in chosen for problem in labels_out_of_place(project)]
    for problem in problems:
        print(problem)
    totals, by_style = Totals(), dict[str, Totals]()
    missed_codes: Counter[str] = Counter()
    for project in chosen:
        result = outcome(project)
        totals.add(result)
        by_style.setdefault(project.split("/")[0], Totals()).add(result)
        for mistake in result.missed:
            missed_codes.update(mistake.codes or ("none",))
            codes = " or ".join(mistake.codes) or "any rule"
            print(f"MISSED {project}: {mistake.what} [{codes}{', certain' if mistake.certain else ''}]")
        for finding in result.others:
            print(f"FALSE  {project}: {finding.code} {finding.location}: {finding.message}")
    print(f"\n{'style':<26}{'projects':>9}{'found':>12}{'certain':>12}{'precision':>11}{'clean flagged':>15}")
    for style, sums in (*by_style.items(), ("all", totals)):
        print(
            f"{style:<26}{sums.projects:>9}{f'{sums.found}/{sums.mistakes}':>12}"
            f"{f'{sums.certain_found}/{sums.certain}':>12}{sums.precision:>11.2f}"
            f"{f'{len(sums.flagged)}/{sums.clean}':>15}"
        )
    print(f"\nrecall {totals.recall:.2f}, of certain mistakes {totals.certain_recall:.2f}")
    if missed_codes:
        print(
            "missed, by code: " + ", ".join(f"{code} {count}" for code, count in missed_codes.most_common())
        )
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
