"""The names of a module: its imports, and the bindings of each scope."""

from __future__ import annotations

import ast
from collections import defaultdict
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from gpuproof.linter.analysis.syntax_index import SyntaxIndex

ScopeNode = ast.Module | ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef
BindingKind = Literal["assign", "parameter", "loop", "with", "unpack", "augmented", "definition", "other"]


@dataclass(frozen=True, eq=False)
class Binding:
    """One binding of a name to a value.

    Args:
        kind: how: `x = value`, a parameter, `for x in value`, `with value as x`, `x, y = value`, `x += value`, a
            function or a class.
        value: the bound expression; for a parameter its default, if it has one.
        scope: the function, class or module that the name belongs to.
        index: its position in `x, y = value`.
    """

    name: str
    kind: BindingKind
    node: ast.AST
    value: ast.expr | None
    scope: ScopeNode
    index: int | None = None


class Names:
    """The names of one module.

    Attributes:
        imports: name in the module to qualified name: `tf` to `tensorflow`, `DDP` to
            `torch.nn.parallel.DistributedDataParallel`.
        modules: every module in an import statement, such as `torch.nn`.
        stars: the modules of `from x import *`, which may bind unknown names.
    """

    def __init__(self, tree: SyntaxIndex) -> None:
        self._tree = tree
        self.imports: dict[str, str] = {}
        self.modules: set[str] = set()
        self.stars: set[str] = set()
        self._scopes: dict[ast.AST, ScopeNode] = {}
        """The scopes of nodes that are neither functions, classes nor modules, as far as they have been asked for."""
        self._bindings: dict[ScopeNode, dict[str, list[Binding]]] | None = None
        self._read_imports()

    @property
    def has_star(self) -> bool:
        """Whether a `from x import *` may bind unknown names."""
        return bool(self.stars)

    def scope(self, node: ast.AST) -> ScopeNode:
        """The scope of a node: the function, class or module around it."""
        parents, scopes = self._tree.parents, self._scopes
        child, ancestor = node, parents.get(node)
        path: list[ast.AST] = []
        found: ScopeNode = self._tree.root
        while ancestor is not None:
            known = scopes.get(ancestor)
            if known is not None:
                found = known
                break
            cls = ancestor.__class__
            if cls is ast.FunctionDef or cls is ast.AsyncFunctionDef:
                # Decorators and defaults, which are not statements, belong to the outer scope.
                if isinstance(child, ast.stmt):
                    found = ancestor  # pyright: ignore[reportAssignmentType]
                    break
                # Whether a child is in the scope of a function depends on the child.
                path.clear()
            elif cls is ast.Lambda or cls is ast.ClassDef or cls is ast.Module:
                found = ancestor  # pyright: ignore[reportAssignmentType]
                break
            else:
                path.append(ancestor)
            child, ancestor = ancestor, parents.get(ancestor)
        for passed in path:
            scopes[passed] = found
        return found

    def visible(self, name: str, at: ast.AST) -> list[Binding]:
        """The bindings of a name in the nearest scope that binds it, by Python's lookup from a node."""
        # Most names are of imports and of Python itself, which no scope binds.
        if name not in self._bound:
            return []
        scope: ScopeNode | None = self.scope(at)
        first = True
        while scope is not None:
            # Names of a class are visible in its body, not in its methods.
            if first or not isinstance(scope, ast.ClassDef):
                found = self.bindings(scope).get(name)
                if found:
                    return found
            first = False
            scope = self.scope(scope) if not isinstance(scope, ast.Module) else None
        return []

    @cached_property
    def _bound(self) -> frozenset[str]:
        self.bindings(self._tree.root)
        return frozenset(name for names in (self._bindings or {}).values() for name in names)

    def bindings(self, scope: ScopeNode) -> dict[str, list[Binding]]:
        """The bindings of a scope by name, in the order of the text."""
        if self._bindings is None:
            self._bindings = self._read_bindings()
        return self._bindings.get(scope, {})

    def _read_imports(self) -> None:
        for node in self._tree.nodes(ast.Import):
            for alias in node.names:
                self.modules.add(alias.name)
                local = alias.asname or alias.name.partition(".")[0]
                self.imports.setdefault(local, alias.name if alias.asname else local)
        for node in self._tree.nodes(ast.ImportFrom):
            base = "." * node.level + (node.module or "")
            self.modules.add(base)
            for alias in node.names:
                if alias.name == "*":
                    self.stars.add(base)
                    continue
                dotted = f"{base}{alias.name}" if base.endswith(".") else f"{base}.{alias.name}"
                self.imports.setdefault(alias.asname or alias.name, dotted)

    def _read_bindings(self) -> dict[ScopeNode, dict[str, list[Binding]]]:
        found: dict[ScopeNode, dict[str, list[Binding]]] = defaultdict(lambda: defaultdict(list))
        declared_global = self._globals()
        for binding in (*self._stored(), *self._parameters(), *self._definitions()):
            scope = binding.scope
            if (scope, binding.name) in declared_global:
                scope = self._tree.root
            found[scope][binding.name].append(binding)
        for names in found.values():
            for bindings in names.values():
                bindings.sort(key=_position)
        return found

    def _globals(self) -> set[tuple[ScopeNode, str]]:
        nodes = self._tree.nodes(ast.Global, ast.Nonlocal)
        return {(self.scope(node), name) for node in nodes for name in node.names}

    def _stored(self) -> list[Binding]:
        stored: list[Binding] = []
        for node in self._tree.nodes(ast.Name):
            if isinstance(node.ctx, ast.Store):
                kind, value, index = _binder(self._tree, node)
                stored.append(Binding(node.id, kind, node, value, self.scope(node), index))
        return stored

    def _parameters(self) -> list[Binding]:
        found: list[Binding] = []
        for node in self._tree.nodes(ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda):
            arguments = node.args
            positional = [*arguments.posonlyargs, *arguments.args]
            defaults: list[ast.expr | None] = [None] * (len(positional) - len(arguments.defaults))
            pairs = list(zip(positional, [*defaults, *arguments.defaults], strict=True))
            pairs += zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
            pairs += [
                (argument, None) for argument in (arguments.vararg, arguments.kwarg) if argument is not None
            ]
            found += [Binding(pair.arg, "parameter", pair, value, node) for pair, value in pairs]
        return found

    def _definitions(self) -> list[Binding]:
        nodes = self._tree.nodes(ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
        return [Binding(node.name, "definition", node, None, self.scope(node)) for node in nodes]


def _binder(tree: SyntaxIndex, name: ast.Name) -> tuple[BindingKind, ast.expr | None, int | None]:
    """The kind of binding of a stored name, the bound expression, and its index in a tuple."""
    index: int | None = None
    target: ast.AST = name
    parent = tree.parents[name]
    unpacked = False
    while isinstance(parent, (ast.Tuple, ast.List, ast.Starred)):
        if isinstance(parent, (ast.Tuple, ast.List)):
            index = None if unpacked else next(i for i, item in enumerate(parent.elts) if item is target)
            unpacked = True
        target, parent = parent, tree.parents[parent]
    match parent:
        case ast.Assign(value=value) | ast.NamedExpr(value=value):
            return ("unpack" if unpacked else "assign"), value, index
        case ast.AnnAssign(value=value):
            return "assign", value, None
        case ast.AugAssign(value=value):
            return "augmented", value, None
        case ast.For(iter=value) | ast.AsyncFor(iter=value) | ast.comprehension(iter=value):
            return "loop", value, index
        case ast.withitem(context_expr=value):
            return "with", value, index
        case _:
            return "other", None, index


def _position(binding: Binding) -> tuple[int, int]:
    node = binding.node
    return getattr(node, "lineno", 0), getattr(node, "col_offset", 0)
