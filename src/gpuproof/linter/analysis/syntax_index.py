"""An index of a syntax tree: nodes by type, in the order of the text, and the parent of each."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Collection, Iterator
from typing import TypeVar

Node = TypeVar("Node", bound=ast.AST)

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef
LoopNode = ast.For | ast.AsyncFor | ast.While
_NO_NODES = frozenset(
    [
        "ctx",
        "id",
        "attr",
        "arg",
        "name",
        "kind",
        "op",
        "ops",
        "level",
        "module",
        "asname",
        "names",
        "n",
        "s",
        "conversion",
        "is_async",
        "simple",
        "type_comment",
        "type_ignores",
        "type_params",
        "tag",
        "rest",
        "kwd_attrs",
        "annotation",
        "returns",
        "lineno",
        "col_offset",
    ]
)
"""Fields that are not indexed: they contain no nodes, or annotations, which do not run."""


def _fields(cls: type[ast.AST]) -> tuple[str, ...]:
    if cls in (ast.Constant, ast.MatchSingleton, ast.Global, ast.Nonlocal, ast.Import, ast.ImportFrom):
        return ()
    # Operator nodes are shared between expressions: they have no single parent.
    names = [name for name in cls._fields if name not in _NO_NODES]
    return tuple(reversed(names))


_FIELDS: dict[type[ast.AST], tuple[str, ...]] = {
    cls: _fields(cls) for cls in vars(ast).values() if isinstance(cls, type) and issubclass(cls, ast.AST)
}


MAX_CONSTANTS = 10_000
"""Constants of a longer list, tuple, set or mapping are data; they are not indexed."""


class SyntaxIndex:
    """The indexed syntax tree of a module.

    Attributes:
        root: the module's node.
        parents: the parent of each node except the root.
    """

    def __init__(self, root: ast.Module) -> None:
        self.root = root
        self.parents: dict[ast.AST, ast.AST] = {}
        self._by_type: dict[type[ast.AST], list[ast.AST]] = defaultdict(list)
        self._uses: dict[str, list[ast.Name]] | None = None
        self._walk()

    def nodes(self, *types: type[Node]) -> list[Node]:
        """Every node of these types; those of one type in the order of the text."""
        if len(types) == 1:
            return self._by_type.get(types[0], [])  # pyright: ignore[reportReturnType]
        return [node for cls in types for node in self._by_type.get(cls, [])]  # pyright: ignore[reportReturnType]

    def uses_of(self, name: str) -> list[ast.Name]:
        """The uses of a name that do not bind it, in the order of the text."""
        if self._uses is None:
            self._uses = defaultdict(list)
            for node in self.nodes(ast.Name):
                if not isinstance(node.ctx, ast.Store):
                    self._uses[node.id].append(node)
        return self._uses.get(name, [])

    def ancestors(self, node: ast.AST) -> Iterator[ast.AST]:
        """The ancestors of a node, the nearest first."""
        parents = self.parents
        while (parent := parents.get(node)) is not None:
            yield parent
            node = parent

    def nearest(self, node: ast.AST, *types: type[Node]) -> Node | None:
        """The nearest ancestor of one of these types."""
        # Loops instead of `ancestors`: rules ask this a hundred times for each file.
        parents = self.parents
        while (parent := parents.get(node)) is not None:
            if isinstance(parent, types):
                return parent
            node = parent
        return None

    def statement(self, node: ast.AST) -> ast.stmt | None:
        """The innermost statement that contains a node, or the node itself if it is a statement."""
        while not isinstance(node, ast.stmt):
            parent = self.parents.get(node)
            if parent is None:
                return None
            node = parent
        return node

    def is_within(self, node: ast.AST, around: ast.AST) -> bool:
        """Whether a node is another node or inside it."""
        return self.is_within_any(node, (around,))

    def is_within_any(self, node: ast.AST, around: Collection[ast.AST]) -> bool:
        """Whether a node is one of some nodes or inside one; pass a set if there are several."""
        parents = self.parents
        current: ast.AST | None = node
        while current is not None:
            if current in around:
                return True
            current = parents.get(current)
        return False

    def _walk(self) -> None:
        parents, by_type, fields = self.parents, self._by_type, _FIELDS
        stack: list[ast.AST] = [self.root]
        pop, push = stack.pop, stack.append
        while stack:
            node = pop()
            cls = node.__class__
            by_type[cls].append(node)
            for name in fields[cls]:
                child = getattr(node, name, None)
                if child.__class__ is list:
                    if not child:
                        continue
                    is_data = len(child) > MAX_CONSTANTS  # pyright: ignore[reportArgumentType]
                    for item in reversed(child):  # pyright: ignore[reportArgumentType, reportCallIssue]
                        if item is not None and not (is_data and item.__class__ is ast.Constant):
                            parents[item] = node
                            push(item)
                elif child is not None:
                    parents[child] = node
                    push(child)


def callee_name(node: ast.Call) -> str:
    """The last name of what is called: `load` of `torch.load()`; empty where the callee has no name."""
    function = node.func
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""


def argument_node(node: ast.Call, keyword: str | None = None, position: int | None = None) -> ast.expr | None:
    """The expression of an argument, by keyword or else by position from 0; None if it is not written."""
    for argument in node.keywords:
        if keyword is not None and argument.arg == keyword:
            return argument.value
    positional = node.args
    if position is None or position >= len(positional):
        return None
    if any(isinstance(argument, ast.Starred) for argument in positional[: position + 1]):
        return None
    return positional[position]
