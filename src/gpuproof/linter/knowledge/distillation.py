"""The teachers of distillations, by their names."""

from __future__ import annotations

import ast
import re

from gpuproof.linter.analysis.call import Call
from gpuproof.linter.analysis.module import Module

TEACHER = re.compile(r"(^|_)teacher(_?(model|net|network))?$")


def teacher_of(module: Module, call: Call) -> str | None:
    """The teacher that a call runs, by its name; None for other calls."""
    function = call.node.func
    if not isinstance(function, (ast.Name, ast.Attribute)) or not call.node.args:
        return None
    last = function.attr if isinstance(function, ast.Attribute) else function.id
    is_method = isinstance(function, ast.Attribute) and not (
        isinstance(function.value, ast.Name) and function.value.id == "self"
    )
    is_function = isinstance(function, ast.Name) and function.id in module.functions
    return module.text(function) if TEACHER.search(last) and not is_method and not is_function else None
