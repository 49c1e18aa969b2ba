"""Limits of evaluation, in steps and sizes and never in time, so that the same file has the same findings everywhere."""

from __future__ import annotations

import ast
from copy import copy

from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.values import UNKNOWN, Value

MAX_TEXT = 65_536
"""Characters; a longer text is data, not a name, path or address."""
MAX_END = 4096
"""Characters of the known start and end of a text of which the rest is unknown."""
MAX_BITS = 256
"""Bits of an integer; a larger one is no number of instances, seconds or bytes."""
LONG_TEXT, MAX_CHARACTERS = 1024, 8_000_000
"""Characters of a long text, and of all long texts that the expressions of a module make."""
STEPS_PER_NODE, MIN_STEPS = 50, 20_000
"""Expressions that are evaluated in a module, for each node of its syntax tree, and at least."""


class Progress:
    """The evaluation of the expressions of one module: what is done, what is under way, how much is left.

    Attributes:
        results: values of expressions; none whose evaluation was cut short, because they depend on where it began.
        open: the expressions under way; one that needs itself is unknown.
        cuts: how often evaluation was cut short.
    """

    def __init__(self, module: Module) -> None:
        self.results: dict[ast.expr, Value] = {}
        self.open: set[ast.expr] = set()
        self.cuts = 0
        self._left = [MIN_STEPS + STEPS_PER_NODE * len(module.tree.parents), MAX_CHARACTERS]

    def enter(self, node: ast.expr) -> bool:
        """Start to evaluate an expression; False if it is under way, or no steps are left."""
        if node in self.open or not self.step():
            return False
        self.open.add(node)
        return True

    def keep(self, node: ast.expr, value: Value) -> Value:
        """Keep the value of an expression; a text is unknown if the module has too many characters of long ones."""
        size = sum(len(option) for option in value.options if isinstance(option, str))
        if size > LONG_TEXT and not isinstance(node, (ast.Constant, ast.Name)):
            self._left[1] -= size
            if self._left[1] < 0:
                value = UNKNOWN
        self.results[node] = value
        return value

    def step(self) -> bool:
        """Count one step; False if none are left."""
        self._left[0] -= 1
        return self._left[0] >= 0

    def inner(self) -> Progress:
        """The evaluation of a function for one call: its results are its own, and its steps those of the caller."""
        inner = copy(self)
        inner.results, inner.open = {}, set()
        return inner


def is_small(value: object) -> bool:
    """Whether a constant is small enough to calculate with."""
    return not isinstance(value, int) or value.bit_length() <= MAX_BITS
