"""Which calls may run a model or a function of the project, by the shape of the callee: to skip the others quickly."""

from __future__ import annotations

import ast

from gpuproof.linter.analysis.call import Call
from gpuproof.linter.analysis.flow.references import is_stored
from gpuproof.linter.analysis.local_imports import program_modules
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.types.libraries import is_module_class


def may_be_model(module: Module, function: ast.expr) -> bool:
    """Whether a callee may be an object with a place of its own: no function, and no layer of a model's own."""
    match function:
        case ast.Name():
            return not any(binding.kind == "definition" for binding in module.reaching(function))
        case ast.Attribute(value=ast.Name(id="self"), attr=name):
            owner = module.enclosing(function, ast.ClassDef)
            return owner is not None and is_stored(module, name) and not is_module_class(module, owner)
        case ast.Attribute(value=ast.Name() | ast.Attribute(), attr=name):
            return is_stored(module, name)
        case _:
            return False


def may_be_own_function(module: Module, function: ast.expr) -> bool:
    """Whether a callee may be a function or method of the project, by its name."""
    name = (
        function.attr
        if isinstance(function, ast.Attribute)
        else function.id
        if isinstance(function, ast.Name)
        else ""
    )
    loader = module.loader
    return name in loader.cached(
        "functions of the program",
        module.unit,
        lambda: frozenset[str]().union(*map(_function_names, program_modules(module))),
    )


def _function_names(module: Module) -> frozenset[str]:
    return module.loader.cached(
        "functions",
        module.unit,
        lambda: frozenset(node.name for node in module.nodes(ast.FunctionDef, ast.AsyncFunctionDef)),
    )


def inputs_of(call: Call) -> list[ast.expr]:
    """The inputs of a model: `model(x, mask)`, `model([image])`, `model(**batch)`."""
    given = [item for item in call.node.args if not isinstance(item, ast.Starred)]
    if len(given) < len(call.node.args):
        return []
    items = [part for item in given for part in (item.elts if isinstance(item, ast.List) else (item,))]
    return items + [keyword.value for keyword in call.node.keywords]
