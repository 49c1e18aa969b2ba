"""The model of one Python text that rules query: its syntax, the names in it and what they stand for."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol, TypeVar

from gpuproof.linter.analysis.reaching_definitions import reaching
from gpuproof.linter.analysis.scopes import Binding, Names
from gpuproof.linter.analysis.syntax_index import FunctionNode, LoopNode, Node, SyntaxIndex
from gpuproof.linter.source.span import Span, Unit

T = TypeVar("T")


class ModuleLoader(Protocol):
    """Loads the modules that a module imports from its own project; `workspace.Workspace` implements it."""

    def module(self, unit: Unit) -> Module | None:
        """The model of a unit; None if it does not parse or is not Python."""
        ...

    def lazy_module(self, unit: Unit) -> Module:
        """The model of a unit that is parsed on first use of its syntax; empty if it does not parse."""
        ...

    def imported_unit(self, module: Module, dotted: str) -> Unit | None:
        """The project's own file that an import in a module refers to; None for libraries."""
        ...

    def imported_module(self, module: Module, dotted: str) -> Module | None:
        """The model of `imported_unit`."""
        ...

    def importers(self, unit: Unit) -> Sequence[Unit]:
        """The units of the project whose imports refer to a unit."""
        ...

    def settings_file(self, path: Path) -> Unit | None:
        """The text of a settings file of the project; None if there is none, or if it is too large."""
        ...

    def job_arguments(self, unit: Unit) -> Sequence[str | None] | None:
        """The command line with which the only job runs a unit; None if it is unknown or there are several jobs."""
        ...

    def cached(self, fact: str, unit: Unit, compute: Callable[[], T]) -> T:
        """A fact about a unit, computed at the first request."""
        ...


class Module:
    """One Python text: a file, a notebook, a `%%writefile` cell or a fenced block.

    Attributes:
        unit: its text and the file that the text comes from.
        loader: loads the modules that it imports.
    """

    def __init__(self, unit: Unit, root: ast.Module | None, loader: ModuleLoader) -> None:
        """Create the model of a unit; without a root, the unit is parsed on first use of its syntax."""
        self.unit = unit
        self.loader = loader
        self._root = root
        self._derived: dict[Callable[[Module], Any], Any] = {}
        self._reaching: dict[ast.Name, list[Binding]] = {}

    @cached_property
    def tree(self) -> SyntaxIndex:
        """Its syntax, indexed by node type, with parents; built on first use."""
        if self._root is not None:
            return SyntaxIndex(self._root)
        found = self.loader.module(self.unit)
        return found.tree if found is not None else SyntaxIndex(ast.Module([], []))

    @cached_property
    def names(self) -> Names:
        """Its imports and the bindings of each scope."""
        return Names(self.tree)

    def derived(self, analyze: Callable[[Module], T]) -> T:
        """The result of an analysis of this module, computed once.

        Args:
            analyze: a module-level function or class; it is also the key of the cache.
        """
        if analyze not in self._derived:
            self._derived[analyze] = analyze(self)
        return self._derived[analyze]

    def release(self) -> None:
        """Drop derived results, which refer back to the module: without that cycle, both are freed at once."""
        self._derived.clear()

    @property
    def path(self) -> str:
        """The path of the file, as the user would write it."""
        return self.unit.path

    @property
    def title(self) -> str:
        """The name of the file, for messages: `train.py`."""
        return (self.unit.name or self.unit.path).rpartition("/")[2]

    # Syntax

    def nodes(self, *types: type[Node]) -> list[Node]:
        """The nodes of these types, in the order of the text."""
        return self.tree.nodes(*types)

    def parent(self, node: ast.AST) -> ast.AST | None:
        """The parent of a node."""
        return self.tree.parents.get(node)

    def enclosing(self, node: ast.AST, *types: type[Node]) -> Node | None:
        """The nearest ancestor of one of these types."""
        return self.tree.nearest(node, *types)

    def function_of(self, node: ast.AST) -> FunctionNode | None:
        """The function that contains a node."""
        return self.tree.nearest(node, ast.FunctionDef, ast.AsyncFunctionDef)

    def loops_around(self, node: ast.AST) -> list[LoopNode]:
        """The loops in the same function that repeat a node, the innermost first."""
        loops: list[LoopNode] = []
        child = node
        for ancestor in self.tree.ancestors(node):
            if isinstance(ancestor, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)):
                break
            # The iterable of a `for` is evaluated once; the condition of a `while` each time.
            if (
                isinstance(ancestor, (ast.For, ast.AsyncFor, ast.While))
                and child is not getattr(ancestor, "iter", None)
                and not _runs_once(ancestor)
            ):
                loops.append(ancestor)
            child = ancestor
        return loops

    def span(self, node: ast.AST) -> Span:
        """The position of a node."""
        line: int = getattr(node, "lineno", 1)
        end_line: int = getattr(node, "end_lineno", None) or line
        return Span(
            self.unit,
            line,
            self._column(line, getattr(node, "col_offset", 0)),
            end_line,
            self._column(end_line, getattr(node, "end_col_offset", None) or 1),
        )

    def text(self, node: ast.AST) -> str:
        """The source of a node."""
        span = self.span(node)
        lines = self.unit.lines[span.line - 1 : span.end_line]
        if not lines:
            return ""
        lines[-1] = lines[-1][: span.end_column - 1]
        lines[0] = lines[0][span.column - 1 :]
        return "\n".join(lines)

    def excerpt(self, node: ast.AST, limit: int = 60) -> str:
        """The source of a node for a message: on one line, of at most this length."""
        text = " ".join(self.text(node).split())
        return text if len(text) <= limit else f"{text[: limit - 1].rstrip()}…"

    # Names

    def imports(self, *roots: str) -> bool:
        """Whether the module imports one of these modules or a name in one: `imports("torch", "sagemaker.pytorch")`."""
        return not self._imported.isdisjoint(roots)

    def qualified(self, node: ast.expr | None) -> str | None:
        """The qualified name of `tf.keras.Model`, through imports and through names bound once to such a name."""
        return self._qualified(node, 0)

    def reaching(self, name: ast.Name) -> list[Binding]:
        """The bindings that may reach a use of a name."""
        if name not in self._reaching:
            self._reaching[name] = reaching(self.tree, self.names, name.id, name)
        return self._reaching[name]

    def origin(self, node: ast.expr | None) -> ast.expr | None:
        """The expression that created the value of a node, through names with one binding; the node itself if unknown."""
        for _ in range(20):
            if not isinstance(node, ast.Name):
                return node
            bindings = self.reaching(node)
            if len(bindings) != 1 or bindings[0].kind not in ("assign", "with") or bindings[0].value is None:
                return node
            node = bindings[0].value
        return node

    # Functions and classes

    @cached_property
    def functions(self) -> dict[str, FunctionNode]:
        """Top-level functions by name; the last definition wins."""
        nodes = self.tree.nodes(ast.FunctionDef, ast.AsyncFunctionDef)
        return {node.name: node for node in nodes if isinstance(self.names.scope(node), ast.Module)}

    @cached_property
    def classes(self) -> dict[str, ast.ClassDef]:
        """Classes by name."""
        return {node.name: node for node in self.tree.nodes(ast.ClassDef)}

    def bases(self, node: ast.ClassDef) -> Iterator[str]:
        """Qualified names of the base classes of a class, also through classes of the same file."""
        pending, seen = [node], {node}
        while pending:
            for base in pending.pop().bases:
                if name := self.qualified(base):
                    yield name
                own = self.classes.get(base.id) if isinstance(base, ast.Name) else None
                if own is not None and own not in seen:
                    seen.add(own)
                    pending.append(own)

    def mentions(self, *words: str) -> bool:
        """Whether the text contains one of these words, also in comments: a fast way to skip a file."""
        return any(word in self.unit.source for word in words)

    @cached_property
    def _imported(self) -> set[str]:
        """Every module and name that the module imports, with all parent packages."""
        found: set[str] = set()
        pending = [*self.names.modules, *self.names.imports.values()]
        while pending:
            dotted = pending.pop()
            if dotted and dotted not in found:
                found.add(dotted)
                pending.append(dotted.rpartition(".")[0])
        return found

    @cached_property
    def aliases(self) -> dict[str, list[str]]:
        """Other names of functions, by their last name: `{"load": ["L"]}` after `from torch import load as L`."""
        found: dict[str, list[str]] = defaultdict(list)
        for local, dotted in self.names.imports.items():
            last = dotted.rpartition(".")[2]
            if last != local:
                found[last].append(local)
        for node in self.tree.nodes(ast.Assign):
            target, value = node.targets[0], node.value
            if isinstance(target, ast.Name) and isinstance(value, (ast.Attribute, ast.Name)):
                last = value.attr if isinstance(value, ast.Attribute) else value.id
                if last != target.id:
                    found[last].append(target.id)
        return found

    def _qualified(self, node: ast.expr | None, depth: int) -> str | None:
        parts: list[str] = []
        while isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        if not isinstance(node, ast.Name):
            return None
        base = self.names.imports.get(node.id)
        if base is None and node.id not in self._renamed:
            return None
        if node.id in self._bound:
            bindings = self.reaching(node)
            if len(bindings) == 1 and bindings[0].kind == "assign" and depth < 5:
                value = bindings[0].value
                base = (
                    self._qualified(value, depth + 1)
                    if isinstance(value, (ast.Attribute, ast.Name))
                    else None
                )
            elif bindings:
                base = None
        if base is None:
            return None
        return ".".join((base, *reversed(parts)))

    @cached_property
    def _bound(self) -> set[str]:
        """Names that are bound by something other than an import, anywhere in the module."""
        stored = {node.id for node in self.tree.nodes(ast.Name) if isinstance(node.ctx, ast.Store)}
        defined = {node.name for node in self.tree.nodes(ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)}
        return stored | defined | {node.arg for node in self.tree.nodes(ast.arg)}

    @cached_property
    def _renamed(self) -> set[str]:
        """Names that are bound to another name somewhere in the module: `x = torch.nn`; only these can be qualified."""
        found: set[str] = set()
        for node in self.tree.nodes(ast.Assign, ast.AnnAssign, ast.NamedExpr):
            if isinstance(node.value, (ast.Attribute, ast.Name)):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                found.update(target.id for target in targets if isinstance(target, ast.Name))
        return found

    def binds(self, name: str) -> bool:
        """Whether anything other than an import binds a name, anywhere in the module."""
        return name in self._bound

    @cached_property
    def _is_ascii(self) -> bool:
        return self.unit.source.isascii()

    def _column(self, line: int, offset: int) -> int:
        """Convert an `ast` offset, from 0 in UTF-8 bytes, to a column, from 1 in characters."""
        if self._is_ascii:
            return offset + 1
        lines = self.unit.lines
        text = lines[line - 1] if line <= len(lines) else ""
        return len(text.encode()[:offset].decode(errors="replace")) + 1


def _runs_once(loop: LoopNode) -> bool:
    """Whether a loop certainly ends in its first iteration, such as one that shows the first batch."""
    return isinstance(loop.body[-1], (ast.Break, ast.Return, ast.Raise)) and not any(
        isinstance(node, ast.Continue) for node in ast.walk(loop)
    )
