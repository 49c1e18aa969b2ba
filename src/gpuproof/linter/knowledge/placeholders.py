"""Placeholders in texts: `<your-bucket>`, `YOUR_ACCOUNT_ID`, `xxxx`."""

from __future__ import annotations

import ast
import re

from gpuproof.linter.analysis.module import Module

_PLACEHOLDER = re.compile(
    r"""
    <\s*(your|my|account|bucket|region|role|token|key|insert|enter|replace|put|add|name|fill)[^<>]*>
    | \byour[-_ ](s3[-_ ])?(own[-_ ])?(bucket|account|role|region|token|key|api|access|secret|image|prefix|project)\b
    | \byour[-_](s3[-_])?bucket([-_]name)?
    | \bYOUR_[A-Z][A-Z_]+ | \b(REPLACE|CHANGE|INSERT|ENTER|FILL)[-_ ]?(ME|THIS|HERE|WITH|YOUR|IN)\b | \bTODO\b
    """,
    re.VERBOSE | re.IGNORECASE,
)
_NO_SECRET = re.compile(
    r"^(\W*|none|null|test|dummy|fake|secret|token|password|changeme|example\w*|placeholder|xxx+.*|\*+|\.+|\$\{.*|\{\{.*)$",
    re.IGNORECASE,
)
_DISPLAY_FUNCTIONS = frozenset(
    {"print", "help", "log", "debug", "info", "warning", "error", "write", "join", "replace", "startswith"}
)


def find_placeholder(text: str) -> str | None:
    """The placeholder in a text; None if there is none."""
    match = _PLACEHOLDER.search(text)
    return match.group(0) if match else None


def is_not_secret(text: str) -> bool:
    """Whether a text is certainly not a secret: empty, a placeholder, a variable, or made of few different letters."""
    stripped = text.strip()
    if (
        _NO_SECRET.match(stripped)
        or find_placeholder(stripped)
        or re.search(r"EXAMPLE|PLACEHOLDER", stripped, re.IGNORECASE)
        or "<" in stripped
    ):
        return True
    return (
        len(set(stripped)) < 6
        or "xxx" in stripped.lower()
        or "..." in stripped
        or stripped.startswith("arn:")
    )


def is_display_text(module: Module, node: ast.Constant) -> bool:
    """Whether a text is only printed, compared, raised or part of documentation."""
    child: ast.AST = node
    for ancestor in module.tree.ancestors(node):
        if isinstance(ancestor, (ast.Compare, ast.Raise, ast.Assert)) or (
            isinstance(ancestor, ast.keyword)
            and ancestor.arg in ("help", "description", "prompt", "label", "placeholder")
        ):
            return True
        if isinstance(ancestor, ast.Call):
            function = ancestor.func
            last = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
            if last in _DISPLAY_FUNCTIONS or child is function:
                return True
        if isinstance(ancestor, ast.stmt):
            return isinstance(ancestor, ast.Expr) and ancestor.value is node
        child = ancestor
    return False
