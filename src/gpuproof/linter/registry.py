"""The registry of rules, and their selection by code, prefix or name.

A check imports only the rules that a file or a job needs: `data/rules.json` has what decides that, and
`tools/build_rule_docs.py` writes it. It is most of the time that `gpuproof run` needs to check a small script.
"""

from __future__ import annotations

import json
import pkgutil
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from importlib import import_module
from pathlib import Path
from typing import Any

from gpuproof.errors import UsageError
from gpuproof.findings import Severity
from gpuproof.linter import rules
from gpuproof.linter.rule import Rule, When

_INDEX = Path(__file__).parent / "data" / "rules.json"
_CHECKS = ("modules", "jobs", "resources", "requirements", "units")


@dataclass(frozen=True)
class Selection:
    """The selected and ignored rules, each by code, prefix or name.

    Args:
        select: the rules to run; `ALL` includes strict rules; empty selects every rule that is on by default.
        ignore: rules not to run; the longer of two matching prefixes in `select` and `ignore` wins.
    """

    select: tuple[str, ...] = ()
    extend: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()


@dataclass(eq=False)
class RuleEntry:
    """What is known of a rule without importing it.

    Args:
        module: the module with the rule, in the package `rules`.
        checks: what its functions check: `modules`, `jobs`, …
        others: as of `Rule`.
    """

    module: str
    code: str
    name: str
    severity: Severity
    when: When
    needs: tuple[str, ...]
    checks: tuple[str, ...]
    kinds: tuple[str, ...]

    @cached_property
    def rule(self) -> Rule:
        """The rule; imports its module."""
        return next(rule for rule in _rules_in(f"{rules.__name__}.{self.module}") if rule.code == self.code)

    @classmethod
    def of(cls, rule: Rule, module: str = "") -> RuleEntry:
        """The entry of a rule that is imported."""
        checks = tuple(name for name in _CHECKS if getattr(rule, name))
        entry = cls(module, rule.code, rule.name, rule.severity, rule.when, rule.needs, checks, rule.kinds)
        entry.__dict__["rule"] = rule
        return entry


@cache
def all_rules() -> tuple[Rule, ...]:
    """Every rule in the package `rules`, sorted by code."""
    return tuple(entry.rule for entry in imported_entries())


def imported_entries() -> list[RuleEntry]:
    """An entry of every rule in the package `rules`, sorted by code; imports them all."""
    found: dict[str, RuleEntry] = {}
    prefix = f"{rules.__name__}."
    for info in pkgutil.walk_packages(rules.__path__, prefix):
        for rule in _rules_in(info.name):
            if rule.code in found:
                raise ValueError(f"duplicate rule code {rule.code} in {info.name}")
            found[rule.code] = RuleEntry.of(rule, info.name.removeprefix(prefix))
    return [found[code] for code in sorted(found)]


def index_of(entries: Iterable[RuleEntry]) -> str:
    """The content of `data/rules.json`, a line for each rule."""
    lines = [
        json.dumps(
            [
                entry.module,
                entry.code,
                entry.name,
                str(entry.severity),
                entry.when,
                entry.needs,
                entry.checks,
                entry.kinds,
            ]
        )
        for entry in entries
    ]
    return "[\n" + ",\n".join(lines) + "\n]\n"


@cache
def indexed_entries() -> tuple[RuleEntry, ...]:
    """An entry of every rule, sorted by code; imports none."""
    rows: list[Any] = json.loads(_INDEX.read_bytes())
    return tuple(
        RuleEntry(module, code, name, Severity(severity), when, tuple(needs), tuple(checks), tuple(kinds))
        for module, code, name, severity, when, needs, checks, kinds in rows
    )


def _rules_in(module: str) -> Iterator[Rule]:
    """The rules that a module defines, with its docstring."""
    source = import_module(module)
    for value in vars(source).values():
        if isinstance(value, Rule) and value.doc in ("", source.__doc__):
            value.doc = source.__doc__ or ""
            yield value


def find_rule(wanted: str) -> Rule | None:
    """The rule of this code or name; None if there is none."""
    return next(
        (rule for rule in all_rules() if wanted.upper() == rule.code or wanted.lower() == rule.name), None
    )


def select_rules(selection: Selection) -> list[RuleEntry]:
    """The rules to run.

    Raises:
        UsageError: a word matches no rule.
    """
    rules = indexed_entries()
    for word in (*selection.select, *selection.extend, *selection.ignore):
        if word.upper() != "ALL" and not any(_matches(word, rule) for rule in rules):
            raise UsageError(f"unknown rule: {word}{_suggestion(word, rules)}", "list them: gpuproof rule")
    return [rule for rule in rules if _is_on(rule, selection)]


def _is_on(rule: RuleEntry, selection: Selection) -> bool:
    on = max((_specificity(word, rule) for word in (*selection.select, *selection.extend)), default=0)
    if not selection.select and rule.when != "strict":
        on = max(on, 1)
    return on > max((_specificity(word, rule) for word in selection.ignore), default=0)


def _specificity(word: str, rule: RuleEntry) -> int:
    """How specifically a word matches a rule: 0 for no match, higher for longer prefixes, highest for the name."""
    if word.upper() == "ALL":
        return 1
    if not _matches(word, rule):
        return 0
    return 10 if word.lower() == rule.name else 1 + len(word)


def _matches(word: str, rule: RuleEntry) -> bool:
    return rule.code.startswith(word.upper()) or rule.name == word.lower()


def _suggestion(word: str, rules: Sequence[RuleEntry]) -> str:
    from gpuproof.jobs.suggestions import did_you_mean

    return did_you_mean(word, [name for rule in rules for name in (rule.code, rule.name)])
