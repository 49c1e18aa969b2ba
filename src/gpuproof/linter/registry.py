"""The registry of rules, and their selection by code, prefix or name."""

from __future__ import annotations

import pkgutil
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module

from gpuproof.errors import UsageError
from gpuproof.linter import rules
from gpuproof.linter.rule import Rule


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


@cache
def all_rules() -> tuple[Rule, ...]:
    """Every rule in the package `rules`, sorted by code."""
    found: dict[str, Rule] = {}
    for info in pkgutil.walk_packages(rules.__path__, f"{rules.__name__}."):
        source = import_module(info.name)
        for value in vars(source).values():
            if isinstance(value, Rule) and not value.doc:
                value.doc = source.__doc__ or ""
                if value.code in found:
                    raise ValueError(f"duplicate rule code {value.code} in {info.name}")
                found[value.code] = value
    return tuple(found[code] for code in sorted(found))


def find_rule(wanted: str) -> Rule | None:
    """The rule of this code or name; None if there is none."""
    return next(
        (rule for rule in all_rules() if wanted.upper() == rule.code or wanted.lower() == rule.name), None
    )


def select_rules(selection: Selection) -> list[Rule]:
    """The rules to run.

    Raises:
        UsageError: a word matches no rule.
    """
    rules = all_rules()
    for word in (*selection.select, *selection.extend, *selection.ignore):
        if word.upper() != "ALL" and not any(_matches(word, rule) for rule in rules):
            raise UsageError(f"unknown rule: {word}{_suggestion(word, rules)}", "list them: gpuproof rule")
    return [rule for rule in rules if _is_on(rule, selection)]


def _is_on(rule: Rule, selection: Selection) -> bool:
    on = max((_specificity(word, rule) for word in (*selection.select, *selection.extend)), default=0)
    if not selection.select and rule.when != "strict":
        on = max(on, 1)
    return on > max((_specificity(word, rule) for word in selection.ignore), default=0)


def _specificity(word: str, rule: Rule) -> int:
    """How specifically a word matches a rule: 0 for no match, higher for longer prefixes, highest for the name."""
    if word.upper() == "ALL":
        return 1
    if not _matches(word, rule):
        return 0
    return 10 if word.lower() == rule.name else 1 + len(word)


def _matches(word: str, rule: Rule) -> bool:
    return rule.code.startswith(word.upper()) or rule.name == word.lower()


def _suggestion(word: str, rules: Sequence[Rule]) -> str:
    from gpuproof.jobs.suggestions import did_you_mean

    return did_you_mean(word, [name for rule in rules for name in (rule.code, rule.name)])
