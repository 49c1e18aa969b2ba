"""The model of one Python text that rules ask: what it calls and by which names, where it loops, what values it uses."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import TYPE_CHECKING

from gpuproof.check.analysis.reaching_definitions import reaching
from gpuproof.check.analysis.scopes import Binding, Names
from gpuproof.check.analysis.syntax_index import FunctionNode, LoopNode, Node, Tree
from gpuproof.check.analysis.values import ABSENT, UNKNOWN, Value
from gpuproof.check.source.span import Span, Unit

if TYPE_CHECKING:
    from gpuproof.check.analysis.types import Tagged
    from gpuproof.check.project import Project


class Call:
    """One call.

    Attributes:
        node: its syntax.
        method: the last part of the callee: `backward` of `loss.backward()`, `load` of `torch.load`.
        receiver: the expression before the last dot; None for a bare name.
        module: where it stands.
    """

    def __init__(self, node: ast.Call, module: Module) -> None:
        function = node.func
        self.node = node
        self.module = module
        self.receiver = function.value if isinstance(function, ast.Attribute) else None
        self.method = (
            function.attr
            if isinstance(function, ast.Attribute)
            else function.id
            if isinstance(function, ast.Name)
            else ""
        )

    @cached_property
    def name(self) -> str | None:
        """The callee's qualified name through imports, such as `torch.load` or `sagemaker.pytorch.PyTorch`.

        None for methods of objects and for names that this file binds itself.
        """
        return self.module.qualified(self.node.func)

    @property
    def span(self) -> Span:
        """Where it stands."""
        return self.module.span(self.node)

    @property
    def keywords(self) -> dict[str, ast.expr]:
        """Written keywords; `**rest` is not among them."""
        return {one.arg: one.value for one in self.node.keywords if one.arg is not None}

    @property
    def is_open(self) -> bool:
        """Whether `*args` or a `**kwargs` that cannot be resolved may carry more arguments."""
        if any(isinstance(one, ast.Starred) for one in self.node.args):
            return True
        splats = (self.module.resolve(one.value) for one in self.node.keywords if one.arg is None)
        return any(splat.entries is None or not splat.entries.complete for splat in splats)

    def expression(self, keyword: str | None = None, position: int | None = None) -> ast.expr | None:
        """The written expression of an argument, by keyword or else by position from 0."""
        for one in self.node.keywords:
            if keyword is not None and one.arg == keyword:
                return one.value
        plain = self.node.args
        if position is None or position >= len(plain):
            return None
        if any(isinstance(one, ast.Starred) for one in plain[: position + 1]):
            return None
        return plain[position]

    def argument(self, keyword: str | None = None, position: int | None = None) -> Value:
        """An argument's value: absent if it is not given, unknown if `*args` or `**kwargs` may give it."""
        written = self.expression(keyword, position)
        if written is not None:
            return self.module.resolve(written)
        for one in self.node.keywords:
            if one.arg is None and keyword is not None:
                entries = self.module.resolve(one.value).entries
                if entries is not None and keyword in entries:
                    return entries[keyword]
        return UNKNOWN if self.is_open else ABSENT

    def arguments(self) -> dict[str, Value]:
        """Every keyword with its value, those of a known `**mapping` included."""
        found: dict[str, Value] = {}
        for one in self.node.keywords:
            value = self.module.resolve(one.value)
            if one.arg is not None:
                found[one.arg] = value
            elif value.entries is not None:
                found.update({str(key): part for key, part in value.entries.items()})
        return found


class Module:
    """One Python text: a file, a notebook, a `%%writefile` cell or a fenced block.

    Attributes:
        unit: its text and where that comes from.
        project: what it is checked with.
    """

    def __init__(self, unit: Unit, root: ast.Module | None, project: Project) -> None:
        """A model of a unit; without a root, it is parsed when somebody asks for more than its text."""
        self.unit = unit
        self.project = project
        self._root = root

    @cached_property
    def tree(self) -> Tree:
        """Its syntax, indexed by node type, with parents; indexed when the first rule asks."""
        if self._root is not None:
            return Tree(self._root)
        found = self.project.module(self.unit)
        return found.tree if found is not None else Tree(ast.Module([], []))

    @cached_property
    def names(self) -> Names:
        """What its names stand for."""
        return Names(self.tree)

    @property
    def path(self) -> str:
        """The file as the user would write it."""
        return self.unit.path

    @property
    def title(self) -> str:
        """The file's last name, for messages: `train.py`."""
        return (self.unit.name or self.unit.path).rpartition("/")[2]

    def let_go(self) -> None:
        """Undo the circle of a model and its calls, so that both go at once; who still asks makes them anew."""
        for name in ("calls", "_calls_by_method", "_calls_by_node"):
            self.__dict__.pop(name, None)

    # Syntax

    def nodes(self, *types: type[Node]) -> list[Node]:
        """Every node of these types, in the order of the text."""
        return self.tree.nodes(*types)

    def parent(self, node: ast.AST) -> ast.AST | None:
        """The node around it."""
        return self.tree.parents.get(node)

    def enclosing(self, node: ast.AST, *types: type[Node]) -> Node | None:
        """The nearest node of these types around it."""
        return self.tree.nearest(node, *types)

    def function_of(self, node: ast.AST) -> FunctionNode | None:
        """The function that a node is in."""
        return self.tree.nearest(node, ast.FunctionDef, ast.AsyncFunctionDef)

    def loops_around(self, node: ast.AST) -> list[LoopNode]:
        """The loops that repeat it within its function, the innermost first."""
        loops: list[LoopNode] = []
        child = node
        for ancestor in self.tree.ancestors(node):
            if isinstance(ancestor, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)):
                break
            # What a `for` goes through is evaluated once; a `while` tests again each time.
            if isinstance(ancestor, (ast.For, ast.AsyncFor, ast.While)) and child is not getattr(
                ancestor, "iter", None
            ):
                loops.append(ancestor)
            child = ancestor
        return loops

    def span(self, node: ast.AST) -> Span:
        """Where a node stands."""
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
        """A node's source."""
        span = self.span(node)
        lines = self.unit.lines[span.line - 1 : span.end_line]
        if not lines:
            return ""
        lines[-1] = lines[-1][: span.end_column - 1]
        lines[0] = lines[0][span.column - 1 :]
        return "\n".join(lines)

    # Names

    def imports(self, *roots: str) -> bool:
        """Whether the file imports one of these modules or anything in it: `imports("torch", "sagemaker.pytorch")`."""
        return not self._imported.isdisjoint(roots)

    def qualified(self, node: ast.expr | None) -> str | None:
        """The qualified name of `tf.keras.Model`, through imports and through names bound once to such a name."""
        return self._qualified(node, 0)

    def reaching(self, name: ast.Name) -> list[Binding]:
        """The bindings that a use of a name may see."""
        return reaching(self.tree, self.names, name.id, name)

    def origin(self, node: ast.expr | None) -> ast.expr | None:
        """The expression that made what a node stands for, through names with one possible value; itself if none."""
        for _ in range(20):
            if not isinstance(node, ast.Name):
                return node
            bindings = self.reaching(node)
            if len(bindings) != 1 or bindings[0].kind not in ("assign", "with") or bindings[0].value is None:
                return node
            node = bindings[0].value
        return node

    def resolve(self, node: ast.expr | None) -> Value:
        """What an expression can be; unknown when in doubt."""
        from gpuproof.check.analysis.evaluate import resolve  # the resolver asks modules in turn

        return resolve(self, node)

    def tagged(self, node: ast.expr | None) -> Tagged:
        """What kind of thing an expression is and on which device; `Tagged()` when unknown."""
        from gpuproof.check.analysis.types import tagged  # the tags ask modules in turn

        return tagged(self, node)

    # Calls, functions, classes

    @cached_property
    def calls(self) -> list[Call]:
        """Every call, in the order of the text."""
        return [Call(node, self) for node in self.tree.nodes(ast.Call)]

    def calls_to(self, *names: str) -> list[Call]:
        """Calls whose qualified name is one of these; `torch.amp.*` takes everything below `torch.amp`."""
        found: list[Call] = []
        for name in names:
            if name.endswith(".*"):
                if self.imports(name.partition(".")[0]):
                    found += [one for one in self.calls if one.name and one.name.startswith(name[:-1])]
                continue
            last = name.rpartition(".")[2]
            written = (last, *self._written_as.get(last, ()))
            found += [
                one for word in written for one in self._calls_by_method.get(word, ()) if one.name == name
            ]
        return found

    def calls_of(self, *methods: str) -> list[Call]:
        """Calls of these methods or functions whatever stands before the last dot: `calls_of("backward")`."""
        return [one for method in methods for one in self._calls_by_method.get(method, ())]

    def call(self, node: ast.expr | None) -> Call | None:
        """The call that a node is, or that made what it names."""
        made = self.origin(node)
        return self._calls_by_node.get(made) if isinstance(made, ast.Call) else None

    @cached_property
    def functions(self) -> dict[str, FunctionNode]:
        """Functions at the top level, by name; the last definition wins."""
        nodes = self.tree.nodes(ast.FunctionDef, ast.AsyncFunctionDef)
        return {node.name: node for node in nodes if isinstance(self.names.scope(node), ast.Module)}

    @cached_property
    def classes(self) -> dict[str, ast.ClassDef]:
        """Classes, by name."""
        return {node.name: node for node in self.tree.nodes(ast.ClassDef)}

    def bases(self, node: ast.ClassDef) -> Iterator[str]:
        """Qualified names of everything that a class derives from, through classes of this file."""
        pending, seen = [node], {node}
        while pending:
            for base in pending.pop().bases:
                if name := self.qualified(base):
                    yield name
                own = self.classes.get(base.id) if isinstance(base, ast.Name) else None
                if own is not None and own not in seen:
                    seen.add(own)
                    pending.append(own)

    def own_function(self, call: Call) -> FunctionNode | None:
        """The function of this file that a call of a bare name runs."""
        if not isinstance(call.node.func, ast.Name):
            return None
        bindings = self.reaching(call.node.func)
        node = bindings[0].node if len(bindings) == 1 else None
        return node if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) else None

    def mentions(self, *words: str) -> bool:
        """Whether the text has one of these words anywhere, comments included: a quick way to skip a file."""
        return any(word in self.unit.source for word in words)

    def within(self, calls: Iterable[Call], around: ast.AST) -> list[Call]:
        """Those of the calls that stand inside a node."""
        return [one for one in calls if self.tree.is_within(one.node, around)]

    @cached_property
    def _imported(self) -> set[str]:
        """Every module and name that the file imports, and every package around them."""
        found: set[str] = set()
        pending = [*self.names.modules, *self.names.imports.values()]
        while pending:
            dotted = pending.pop()
            if dotted and dotted not in found:
                found.add(dotted)
                pending.append(dotted.rpartition(".")[0])
        return found

    @cached_property
    def _written_as(self) -> dict[str, list[str]]:
        """Other names that the file gives to a function: `L` for `load` after `from torch import load as L`."""
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

    @cached_property
    def _calls_by_method(self) -> dict[str, list[Call]]:
        return _group((one.method, one) for one in self.calls)

    @cached_property
    def _calls_by_node(self) -> dict[ast.Call, Call]:
        return {one.node: one for one in self.calls}

    def _qualified(self, node: ast.expr | None, depth: int) -> str | None:
        parts: list[str] = []
        while isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        if not isinstance(node, ast.Name):
            return None
        base = self.names.imports.get(node.id)
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
        """Names that something but an import binds, anywhere in the file."""
        stored = {node.id for node in self.tree.nodes(ast.Name) if isinstance(node.ctx, ast.Store)}
        defined = {node.name for node in self.tree.nodes(ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)}
        return stored | defined | {node.arg for node in self.tree.nodes(ast.arg)}

    @cached_property
    def _is_ascii(self) -> bool:
        return self.unit.source.isascii()

    def _column(self, line: int, offset: int) -> int:
        """Column from 1 in characters of an offset from 0 in bytes of UTF-8, which is what `ast` gives."""
        if self._is_ascii:
            return offset + 1
        lines = self.unit.lines
        text = lines[line - 1] if line <= len(lines) else ""
        return len(text.encode()[:offset].decode(errors="replace")) + 1


def _group(pairs: Iterable[tuple[str, Call]]) -> dict[str, list[Call]]:
    groups: dict[str, list[Call]] = defaultdict(list)
    for key, call in pairs:
        groups[key].append(call)
    return groups
