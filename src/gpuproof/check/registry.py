"""Which rules run: by code, prefix or name, as the command line and `[tool.gpuproof.check]` say."""

from __future__ import annotations

import pkgutil
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module

from gpuproof.check import rules
from gpuproof.check.rule import Rule
from gpuproof.errors import UsageError


@dataclass(frozen=True)
class Selection:
    """What was asked for.

    Args:
        select: codes, prefixes or names; `ALL` means strict rules too; empty means every rule that is on by default.
        extend: more of them beside the default ones.
        ignore: those that are off; the longer code wins over a shorter one in `select`.
    """

    select: tuple[str, ...] = ()
    extend: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()


@cache
def all_rules() -> tuple[Rule, ...]:
    """Every rule of the folder `rules/`, by code."""
    found: dict[str, Rule] = {}
    for info in pkgutil.walk_packages(rules.__path__, f"{rules.__name__}."):
        source = import_module(info.name)
        for value in vars(source).values():
            if isinstance(value, Rule) and not value.doc:
                value.doc = source.__doc__ or ""
                if value.code in found:
                    raise ValueError(f"two rules are called {value.code}: see {info.name}.py")
                found[value.code] = value
    return tuple(found[code] for code in sorted(found))


def find_rule(wanted: str) -> Rule | None:
    """The rule of a code or a name."""
    return next(
        (one for one in all_rules() if wanted.upper() == one.code or wanted.lower() == one.name), None
    )


def selected_rules(selection: Selection) -> list[Rule]:
    """The rules that run.

    Raises:
        UsageError: a word means no rule.
    """
    rules = all_rules()
    for word in (*selection.select, *selection.extend, *selection.ignore):
        if word.upper() != "ALL" and not any(_means(word, rule) for rule in rules):
            raise UsageError(f"no rule is called {word}{_near(word, rules)}", "list them: gpuproof rule")
    return [rule for rule in rules if _is_on(rule, selection)]


def _is_on(rule: Rule, selection: Selection) -> bool:
    on = max((_weight(word, rule) for word in (*selection.select, *selection.extend)), default=0)
    if not selection.select and rule.when != "strict":
        on = max(on, 1)
    off = max((_weight(word, rule) for word in selection.ignore), default=0)
    return on > off or (on == off and on > 0 and off == 0)


def _weight(word: str, rule: Rule) -> int:
    """How closely a word means a rule: 0 not at all, more for more of its code, most for its name."""
    if word.upper() == "ALL":
        return 1
    if not _means(word, rule):
        return 0
    return 10 if word.lower() == rule.name else 1 + len(word)


def _means(word: str, rule: Rule) -> bool:
    return rule.code.startswith(word.upper()) or rule.name == word.lower()


def _near(word: str, rules: Sequence[Rule]) -> str:
    from gpuproof.jobs.suggestions import did_you_mean

    return did_you_mean(word, [name for rule in rules for name in (rule.code, rule.name)])
