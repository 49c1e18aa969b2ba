"""Evaluates the identity-based policies of a user or role.

Source: https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_evaluation-logic.html
"""

from __future__ import annotations

import enum
import re
from collections.abc import Iterable, Mapping
from typing import Any

from gpuproof_emulator.permissions.conditions import Values, as_list, holds, matches_pattern

_VARIABLE = re.compile(r"\$\{([^},]+)(?:,\s*'([^']*)')?\}")
_LITERALS = {"*": "*", "?": "?", "$": "$"}


class Decision(enum.Enum):
    """What policies say about a request."""

    ALLOWED = "allowed"
    IMPLICIT_DENY = "implicitDeny"
    EXPLICIT_DENY = "explicitDeny"


def evaluate(policies: Iterable[Mapping[str, Any]], action: str, resource: str, values: Values) -> Decision:
    """The decision of some policy documents.

    Args:
        action: such as `sagemaker:CreateModel`.
        resource: its ARN, or `*`.
        values: of condition keys.

    Raises:
        ValueError: a policy has an unknown condition operator.
    """
    decision = Decision.IMPLICIT_DENY
    for policy in policies:
        for statement in as_list(policy.get("Statement")):
            if not _applies(statement, action, resource, values):
                continue
            if statement.get("Effect") == "Deny":
                return Decision.EXPLICIT_DENY
            decision = Decision.ALLOWED
    return decision


def _applies(statement: Mapping[str, Any], action: str, resource: str, values: Values) -> bool:
    if "NotAction" in statement:
        if _any_matches(statement["NotAction"], action, {}, lower=True):
            return False
    elif not _any_matches(statement.get("Action"), action, {}, lower=True):
        return False
    if "NotResource" in statement:
        if _any_matches(statement["NotResource"], resource, values):
            return False
    elif not _any_matches(statement.get("Resource"), resource, values):
        return False
    conditions: Mapping[str, Mapping[str, Any]] = statement.get("Condition") or {}
    return holds(_resolved(conditions, values), values)


def _any_matches(patterns: Any, text: str, values: Values, *, lower: bool = False) -> bool:
    for pattern in as_list(patterns):
        resolved = _resolve(str(pattern), values)
        if resolved is None:
            continue
        if matches_pattern(resolved.lower(), text.lower()) if lower else matches_pattern(resolved, text):
            return True
    return False


def _resolved(conditions: Mapping[str, Mapping[str, Any]], values: Values) -> dict[str, dict[str, Any]]:
    """The conditions without policy variables; an expected value whose variable has none is dropped."""
    return {
        operator: {
            key: [text for word in as_list(expected) if (text := _resolve(_text(word), values)) is not None]
            for key, expected in keys.items()
        }
        for operator, keys in conditions.items()
    }


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _resolve(text: str, values: Values) -> str | None:
    """A text with the values of its policy variables; None if one has none.

    Source: https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_variables.html
    """
    missing = False

    def value_of(found: re.Match[str]) -> str:
        nonlocal missing
        name, default = found[1], found[2]
        if name in _LITERALS:
            return _LITERALS[name]
        known = values.get(name.lower())
        if known is None or len(known) != 1:
            missing = missing or default is None
            return default or ""
        return known[0]

    resolved = _VARIABLE.sub(value_of, text)
    return None if missing else resolved
