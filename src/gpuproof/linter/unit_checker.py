"""Runs the rules on one unit at a time: its text, its Python, the jobs and resources that it describes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from functools import partial

from gpuproof.linter.internal_errors import ErrorLog
from gpuproof.linter.jobs.definition import JobDefinition
from gpuproof.linter.jobs.requirement import requirements
from gpuproof.linter.jobs.resources import find_resources, may_have_resources
from gpuproof.linter.project import Project
from gpuproof.linter.registry import RuleEntry
from gpuproof.linter.rule import Hit
from gpuproof.linter.source.span import Unit

PYTHON = ("python", "notebook", "cell-file", "markdown")
"""Kinds of units that contain Python."""

Check = Callable[..., Iterator[Hit]]
"""A function of a rule that checks a module, a job, a unit, …"""


_MAX_SPLIT = 1_000_000
"""Characters; longer texts are searched as they are."""


class UnitChecker:
    """Runs the rules on one unit at a time."""

    def __init__(self, project: Project, rules: Sequence[RuleEntry]) -> None:
        self._project = project
        is_planned = project.target.trace is not None
        self._rules = rules = [rule for rule in rules if is_planned or rule.when != "plan"]
        self._of_modules = [(rule, frozenset(rule.needs)) for rule in rules if "modules" in rule.checks]
        self._words = {word for rule, _ in self._of_modules for word in rule.needs}
        self._by_kind: dict[tuple[str, str], list[tuple[RuleEntry, Check]]] = {}
        self._functions: dict[RuleEntry, list[Check]] = {}
        self._jobs: dict[Unit, list[JobDefinition]] = defaultdict(list)
        for job in project.jobs:
            self._jobs[job.span.unit].append(job)

    def check(self, unit: Unit, log: ErrorLog) -> Iterator[Hit]:
        """The findings in a unit and in what it describes; its model is released afterwards."""
        project = self._project
        for rule, check in self._checks("units", unit, log):
            # As `log.guard`, without a generator of its own for each of a hundred thousand calls.
            try:
                yield from check(unit, project)
            except Exception as error:  # noqa: BLE001
                log.add(error, unit.path, rule=rule.code)
        yield from log.guard(
            partial(self._content, unit, log), unit.path, task=f"analysing the {unit.kind} file"
        )
        for job in self._jobs.get(unit, ()):
            for rule, check in self._checks("jobs", unit, log):
                yield from log.guard(partial(check, job, project), unit.path, rule=rule.code)
        project.workspace.release(unit)
        project.workspace.trim()

    def _checks(self, things: str, unit: Unit, log: ErrorLog) -> list[tuple[RuleEntry, Check]]:
        """The functions that check things such as `jobs` in a unit of this kind; a rule that cannot be imported has none.

        Rules that look at other kinds of units are not imported.
        """
        key = (things, unit.kind if things == "units" else "")
        if key not in self._by_kind:
            self._by_kind[key] = [
                (rule, check)
                for rule in self._rules
                if things in rule.checks and (things != "units" or not rule.kinds or unit.kind in rule.kinds)
                for check in log.guard(partial(_functions, rule, things), unit.path, rule=rule.code)
            ]
        return self._by_kind[key]

    def _content(self, unit: Unit, log: ErrorLog) -> Iterator[Hit]:
        if unit.kind in PYTHON:
            yield from self._python(unit, log)
        elif unit.kind == "requirements":
            yield from self._requirements(unit, log)
        if may_have_resources(unit):
            yield from self._resources(unit, log)

    def _python(self, unit: Unit, log: ErrorLog) -> Iterator[Hit]:
        # Each word of the text once: that is half as long to search, and a word without spaces is in one of them.
        # Of a text of data, the words take more memory than its model.
        source = unit.source
        unique = " ".join(set(source.split())) if len(source) <= _MAX_SPLIT else source
        absent = {
            word for word in self._words if word not in unique and (" " not in word or word not in source)
        }
        module = None
        for rule, needs in self._of_modules:
            if needs and needs <= absent:
                continue
            if module is None and (module := self._project.workspace.module(unit)) is None:
                return
            for check in self._module_checks(rule, unit, log):
                try:
                    yield from check(module, self._project)
                except Exception as error:  # noqa: BLE001
                    log.add(error, unit.path, rule=rule.code)

    def _module_checks(self, rule: RuleEntry, unit: Unit, log: ErrorLog) -> list[Check]:
        """The functions of a rule that check modules, imported at the first that needs it; none if that fails."""
        if rule not in self._functions:
            self._functions[rule] = list(
                log.guard(partial(_functions, rule, "modules"), unit.path, rule=rule.code)
            )
        return self._functions[rule]

    def _resources(self, unit: Unit, log: ErrorLog) -> Iterator[Hit]:
        checks = self._checks("resources", unit, log)
        found = find_resources(unit, self._project.workspace) if checks else []
        for rule, check in checks:
            for resource in found:
                yield from log.guard(partial(check, resource, self._project), unit.path, rule=rule.code)

    def _requirements(self, unit: Unit, log: ErrorLog) -> Iterator[Hit]:
        found = list(requirements(unit))
        for rule, check in self._checks("requirements", unit, log):
            for requirement in found:
                yield from log.guard(partial(check, requirement, self._project), unit.path, rule=rule.code)


def _functions(rule: RuleEntry, kind: str) -> Iterator[Check]:
    """The functions of a rule that check things of one kind; imports the rule."""
    yield from getattr(rule.rule, kind)
