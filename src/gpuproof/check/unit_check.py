"""Shows each unit, and the jobs, resources and requirements in it, to the rules that want to see them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager

from gpuproof.check.jobs.definition import JobDefinition
from gpuproof.check.jobs.requirement import requirements
from gpuproof.check.project import Project
from gpuproof.check.rule import Hit, Rule
from gpuproof.check.source.span import Unit

PYTHON = ("python", "notebook", "cell-file", "markdown")
"""Kinds of units that hold Python."""


class Looker:
    """Looks at units one by one.

    Args:
        project: with its jobs linked.
        rules: those that look.
    """

    def __init__(self, project: Project, rules: Sequence[Rule]) -> None:
        self._project = project
        self._rules = rules
        self._of_units = [(rule, look) for rule in rules for look in rule.units]
        self._of_jobs = [(rule, look) for rule in rules for look in rule.jobs]
        self._of_resources = [(rule, look) for rule in rules for look in rule.resources]
        self._of_requirements = [(rule, look) for rule in rules for look in rule.requirements]
        self._jobs: dict[Unit, list[JobDefinition]] = defaultdict(list)
        for job in project.jobs:
            self._jobs[job.span.unit].append(job)

    def look(self, unit: Unit) -> Iterator[Hit]:
        """What all rules say about a unit and what it describes; its model is let go of afterwards."""
        project = self._project
        for rule, look in self._of_units:
            yield from _named(look(unit, project), rule, unit)
        if unit.kind in PYTHON:
            yield from self._python(unit)
        elif unit.kind in ("cloudformation", "terraform"):
            yield from self._template(unit)
        elif unit.kind == "requirements":
            yield from self._requirements(unit)
        for job in self._jobs.get(unit, ()):
            for rule, look in self._of_jobs:
                yield from _named(look(job, project), rule, unit)
        project.forget(unit)

    def _python(self, unit: Unit) -> Iterator[Hit]:
        source = unit.source
        for rule in self._rules:
            if not rule.modules or (rule.needs and not any(word in source for word in rule.needs)):
                continue
            module = self._project.module(unit)
            if module is None:
                return
            for look in rule.modules:
                yield from _named(look(module, self._project), rule, unit)

    def _template(self, unit: Unit) -> Iterator[Hit]:
        from gpuproof.check.jobs import templates  # the readers of templates only where one is

        found = templates.resources(unit)
        for rule, look in self._of_resources:
            for resource in found:
                yield from _named(look(resource, self._project), rule, unit)

    def _requirements(self, unit: Unit) -> Iterator[Hit]:
        found = list(requirements(unit))
        for rule, look in self._of_requirements:
            for requirement in found:
                yield from _named(look(requirement, self._project), rule, unit)


def _named(hits: Iterable[Hit], rule: Rule, unit: Unit) -> Iterator[Hit]:
    """What a rule yields; a fault of the rule itself says which it was, and how to go on without it."""
    with _noting(rule, unit):
        yield from hits


@contextmanager
def _noting(rule: Rule, unit: Unit) -> Generator[None]:
    try:
        yield
    except Exception as error:
        error.add_note(
            f"This is a fault of rule {rule.code} at {unit.path}, not of yours. `--ignore {rule.code}` goes on without it."
        )
        raise
