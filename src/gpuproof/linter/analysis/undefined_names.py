"""Names that no code of a module binds: a NameError where the line runs."""

from __future__ import annotations

import ast
import builtins

from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.syntax_index import callee_name

_BUILTINS = frozenset(dir(builtins)) | {
    "__file__",
    "__name__",
    "__doc__",
    "__spec__",
    "__loader__",
    "__package__",
    "__path__",
    "__builtins__",
    "__class__",
    "__module__",
    "__qualname__",
    "__annotations__",
    "__cached__",
    "__debug__",
    "display",
    "spark",
    "sc",
    "WindowsError",
    "reveal_type",
}
_DYNAMIC = frozenset({"exec", "execfile", "globals", "locals", "vars", "eval", "get_ipython", "run_path"})
"""A module that calls one of these may bind any name."""
_OLD_NAMES = frozenset({"unicode", "xrange", "raw_input", "basestring", "long", "reduce", "unichr"})
"""Names of Python 2, which scripts for both versions use in branches that do not run."""


def undefined_names(module: Module) -> list[ast.Name]:
    """The first use of each undefined name in each function; none in a module that may bind names in other ways."""
    return module.derived(_undefined_names)


def _undefined_names(module: Module) -> list[ast.Name]:
    tree = module.tree
    if module.names.has_star or any(_is_dynamic(call) for call in module.nodes(ast.Call)):
        return []
    defined = _BUILTINS | _OLD_NAMES | module.names.imports.keys() | _bound_otherwise(module)
    if module.unit.absolute.name == "__init__.py":
        # Importing a submodule binds its name in the package.
        defined |= {part for dotted in module.names.modules for part in dotted.split(".")}
    found: dict[tuple[ast.AST | None, str], ast.Name] = {}
    for name in tree.nodes(ast.Name):
        if not isinstance(name.ctx, ast.Load) or name.id in defined or module.names.visible(name.id, name):
            continue
        if _is_annotation(module, name) or _expects_error(module, name):
            continue
        found.setdefault((module.function_of(name), name.id), name)
    return list(found.values())


def _is_dynamic(call: ast.Call) -> bool:
    """Whether a call may bind any name; `model.eval()` is none."""
    return callee_name(call) in _DYNAMIC and (
        isinstance(call.func, ast.Name) or callee_name(call) == "run_path"
    )


def _bound_otherwise(module: Module) -> set[str]:
    """Names that exceptions, patterns, type parameters and `global` statements bind, anywhere in the module."""
    found: set[str] = set()
    for node in module.nodes(ast.ExceptHandler, ast.MatchAs, ast.MatchStar):
        if node.name is not None:
            found.add(node.name)
    for node in module.nodes(ast.MatchMapping):
        if node.rest is not None:
            found.add(node.rest)
    for node in module.nodes(ast.Global, ast.Nonlocal):
        found.update(node.names)
    for node in module.nodes(ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef):
        # Type parameters are new in Python 3.12.
        found.update(parameter.name for parameter in getattr(node, "type_params", ()))
    return found


def _is_annotation(module: Module, name: ast.Name) -> bool:
    """Whether a name is in an annotation, which need not be evaluated."""
    child: ast.AST = name
    for ancestor in module.tree.ancestors(name):
        if isinstance(ancestor, (ast.arg, ast.AnnAssign)) and ancestor.annotation is child:
            return True
        if isinstance(ancestor, (ast.FunctionDef, ast.AsyncFunctionDef)) and ancestor.returns is child:
            return True
        if isinstance(ancestor, ast.stmt):
            return False
        child = ancestor
    return False


def _expects_error(module: Module, name: ast.Name) -> bool:
    """Whether a handler catches the error."""
    for block in (ancestor for ancestor in module.tree.ancestors(name) if isinstance(ancestor, ast.Try)):
        for handler in block.handlers:
            text = module.text(handler.type) if handler.type is not None else ""
            if not text or "NameError" in text or "Exception" in text:
                return True
    return False
