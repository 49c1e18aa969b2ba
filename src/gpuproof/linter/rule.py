"""The type of a rule: code, name, severity, when it is on, and its check functions; and the type of its findings.

Each rule is one file under `rules/`; see `rules/README.md` for how to write one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Literal

from gpuproof.findings import Finding, Location, Severity
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.jobs.definition import JobDefinition
from gpuproof.linter.jobs.requirement import Requirement
from gpuproof.linter.project import Project
from gpuproof.linter.source.edit import Fix
from gpuproof.linter.source.span import Span, Unit, UnitKind
from gpuproof.linter.templates.resource import Resource

When = Literal["default", "link", "plan", "strict"]
"""`link` is on by default and needs both a job and its script; `plan` also needs `--plan`, which runs the script; `strict` is off
unless selected."""

Hits = Iterator["Hit"]


@dataclass(frozen=True)
class Hit:
    """A finding with its span and a fix.

    Args:
        rule_name: the rule's name, such as `idle-gpus`.
        cell: the cell of a notebook, from 1, as in ruff: cells with text count.
        fix: a fix, if there is one.
        per_project: whether one such finding is enough for a project; the report has only the first.
    """

    finding: Finding
    span: Span
    rule_name: str
    cell: int | None = None
    fix: Fix | None = None
    per_project: bool = False

    @property
    def code(self) -> str:
        """The code of the rule."""
        return self.finding.code


@dataclass(eq=False)
class Rule:
    """One rule.

    Args:
        code: two or three letters for the family and three digits; its meaning never changes.
        severity: the severity of its findings unless a finding sets its own.
        when: whether it is on by default, needs a linked job or `--plan`, or is off unless selected.
        needs: modules that contain none of these words are skipped, which keeps the check fast.
        kinds: the kinds of units that its unit checks look at; empty for all.
    """

    code: str
    name: str
    severity: Severity
    when: When = "default"
    needs: tuple[str, ...] = ()
    kinds: tuple[UnitKind, ...] = ()
    doc: str = ""
    modules: list[Callable[[Module, Project], Hits]] = field(default_factory=list)
    jobs: list[Callable[[JobDefinition, Project], Hits]] = field(default_factory=list)
    resources: list[Callable[[Resource, Project], Hits]] = field(default_factory=list)
    requirements: list[Callable[[Requirement, Project], Hits]] = field(default_factory=list)
    units: list[Callable[[Unit, Project], Hits]] = field(default_factory=list)

    def module(self, check: Callable[[Module, Project], Hits]) -> Callable[[Module, Project], Hits]:
        """Decorator for a function that checks each Python text: files, notebooks, `%%writefile` cells."""
        self.modules.append(check)
        return check

    def job(
        self, check: Callable[[JobDefinition, Project], Hits]
    ) -> Callable[[JobDefinition, Project], Hits]:
        """Decorator for a function that checks each job, in whatever format it is described."""
        self.jobs.append(check)
        return check

    def resource(self, check: Callable[[Resource, Project], Hits]) -> Callable[[Resource, Project], Hits]:
        """Decorator for a function that checks each resource of CloudFormation and Terraform templates."""
        self.resources.append(check)
        return check

    def requirement(
        self, check: Callable[[Requirement, Project], Hits]
    ) -> Callable[[Requirement, Project], Hits]:
        """Decorator for a function that checks each line of requirements files."""
        self.requirements.append(check)
        return check

    def unit(self, check: Callable[[Unit, Project], Hits]) -> Callable[[Unit, Project], Hits]:
        """Decorator for a function that checks each text, whether it parses or not."""
        self.units.append(check)
        return check

    def hit(
        self,
        span: Span,
        message: str,
        *,
        remedy: str | None = None,
        evidence: tuple[str, ...] = (),
        severity: Severity | None = None,
        fix: Fix | None = None,
        per_project: bool = False,
    ) -> Hit:
        """Create a finding of this rule.

        Args:
            span: its position: `module.span(node)`, `job.where(job.instance_type)`, `resource.span`.
            message: one or two sentences with the actual names and numbers.
            remedy: what to type or change next.
            evidence: the facts behind it, one per line.
            per_project: whether the report has only the first of these findings in a project.
        """
        cell, line, column = span.unit.file_position(span.line, span.column)
        location = Location(span.unit.path, line, column)
        finding = Finding(self.code, severity or self.severity, message, evidence, remedy, location)
        return Hit(finding, span, self.name, cell, fix, per_project)


def lowered(severity: Severity) -> Severity:
    """The next lower severity, for values that are only defaults."""
    order = list(Severity)
    return order[min(severity.rank + 1, len(order) - 1)]
