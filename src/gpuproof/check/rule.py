"""What a rule is: a code, a name, a severity, when it is on, and the functions that look.

A rule is one file under `rules/`; `rules/README.md` tells how to write one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from gpuproof.check.source.edit import Fix
from gpuproof.check.source.span import Span
from gpuproof.findings import Finding, Location, Severity

if TYPE_CHECKING:
    from gpuproof.check.analysis.module import Module
    from gpuproof.check.jobs.definition import JobDefinition
    from gpuproof.check.jobs.requirement import Requirement
    from gpuproof.check.project import Project
    from gpuproof.check.source.span import Unit
    from gpuproof.check.templates.resource import Resource

When = Literal["default", "link", "strict"]
"""`link` is on by default and can only speak where a job is linked to a script; `strict` is off unless selected."""

Hits = Iterator["Hit"]


@dataclass(frozen=True)
class Hit:
    """One finding with its place in the text and what would mend it.

    Args:
        finding: what is reported.
        span: where, in the unit's own lines.
        rule_name: the rule's name, such as `idle-gpus`.
        cell: the notebook's code cell, from 1.
        fix: what would mend it.
    """

    finding: Finding
    span: Span
    rule_name: str
    cell: int | None = None
    fix: Fix | None = None

    @property
    def code(self) -> str:
        """The rule's code."""
        return self.finding.code


@dataclass(eq=False)
class Rule:
    """One rule.

    Args:
        code: two or three letters of its family and three digits; its meaning never changes.
        name: what it finds, in kebab-case.
        severity: how bad it is unless a hit says otherwise.
        when: whether it is on by default, needs a linked job, or is off unless selected.
        needs: words of which the text of a module must have one, before the rule looks at it: a quick way to skip
            files that it cannot concern.
    """

    code: str
    name: str
    severity: Severity
    when: When = "default"
    needs: tuple[str, ...] = ()
    doc: str = ""
    modules: list[Callable[[Module, Project], Hits]] = field(default_factory=list)
    jobs: list[Callable[[JobDefinition, Project], Hits]] = field(default_factory=list)
    resources: list[Callable[[Resource, Project], Hits]] = field(default_factory=list)
    requirements: list[Callable[[Requirement, Project], Hits]] = field(default_factory=list)
    units: list[Callable[[Unit, Project], Hits]] = field(default_factory=list)

    def module(self, look: Callable[[Module, Project], Hits]) -> Callable[[Module, Project], Hits]:
        """Decorates a function that looks at each Python text: files, notebooks, `%%writefile` cells."""
        self.modules.append(look)
        return look

    def job(self, look: Callable[[JobDefinition, Project], Hits]) -> Callable[[JobDefinition, Project], Hits]:
        """Decorates a function that looks at each job, whatever describes it."""
        self.jobs.append(look)
        return look

    def resource(self, look: Callable[[Resource, Project], Hits]) -> Callable[[Resource, Project], Hits]:
        """Decorates a function that looks at each resource of CloudFormation and Terraform."""
        self.resources.append(look)
        return look

    def requirement(
        self, look: Callable[[Requirement, Project], Hits]
    ) -> Callable[[Requirement, Project], Hits]:
        """Decorates a function that looks at each line of requirements files."""
        self.requirements.append(look)
        return look

    def unit(self, look: Callable[[Unit, Project], Hits]) -> Callable[[Unit, Project], Hits]:
        """Decorates a function that looks at each text as it is, whether it parses or not."""
        self.units.append(look)
        return look

    def hit(
        self,
        span: Span,
        message: str,
        *,
        remedy: str | None = None,
        evidence: tuple[str, ...] = (),
        severity: Severity | None = None,
        fix: Fix | None = None,
    ) -> Hit:
        """A finding of this rule.

        Args:
            span: where: `module.span(node)`, `job.where(job.instance_type)`, `resource.span`.
            message: one sentence or two that name this instance and this number.
            remedy: what to type or change next.
            evidence: what it follows from, a line each.
            severity: where it depends, such as on the linked job.
            fix: the same as an edit.
        """
        cell, line, column = span.unit.file_position(span.line, span.column)
        location = Location(span.unit.path, line, column)
        finding = Finding(self.code, severity or self.severity, message, evidence, remedy, location)
        return Hit(finding, span, self.name, cell, fix)


def lowered(severity: Severity) -> Severity:
    """One level less: what a rule says where a value is only a default."""
    order = list(Severity)
    return order[min(severity.rank + 1, len(order) - 1)]
