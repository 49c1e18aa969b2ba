"""The teachers of distillations, by their names."""

from __future__ import annotations

import ast
import re

from gpuproof.linter.analysis.call import Call
from gpuproof.linter.analysis.flow.call_sites import known_call_sites
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


def is_applied_to_teacher(module: Module, node: ast.expr) -> bool:
    """Whether a method of an expression is a method of a teacher: by its name, or by what calls pass for a parameter."""
    text = module.text(node)
    if "teacher" in text.lower():
        return True
    while isinstance(node, (ast.Attribute, ast.Call)):
        node = node.value if isinstance(node, ast.Attribute) else node.func
    if not isinstance(node, ast.Name):
        return False
    for binding in module.reaching(node):
        if (
            binding.kind == "loop"
            and binding.value is not None
            and "teacher" in module.text(binding.value).lower()
        ):
            return True
        function = binding.scope
        if binding.kind != "parameter" or not isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
            continue
        for site in known_call_sites(module, function):
            given = [*site.call.args, *(keyword.value for keyword in site.call.keywords)]
            if any("teacher" in site.module.text(each).lower() for each in given):
                return True
    return False
