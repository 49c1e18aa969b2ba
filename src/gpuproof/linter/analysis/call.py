"""The calls of a module: by name, by qualified name, and their arguments as values."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterable
from functools import cached_property

from gpuproof.linter.analysis.evaluation.evaluate import evaluate
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.scopes import Binding
from gpuproof.linter.analysis.syntax_index import FunctionNode, argument_node, callee_name
from gpuproof.linter.analysis.values import ABSENT, UNKNOWN, Value
from gpuproof.linter.source.span import Span


class Call:
    """One call in a module.

    Attributes:
        node: its syntax node.
        method: the last part of the callee: `backward` of `loss.backward()`, `load` of `torch.load`.
        receiver: the expression before the last dot; None for a bare name.
        module: the module that contains it.
    """

    def __init__(self, node: ast.Call, module: Module) -> None:
        function = node.func
        self.node = node
        self.module = module
        self.receiver = function.value if isinstance(function, ast.Attribute) else None
        self.method = callee_name(node)

    @cached_property
    def name(self) -> str | None:
        """The callee's qualified name through imports, such as `torch.load` or `sagemaker.pytorch.PyTorch`.

        None for methods of objects and for names that this file binds itself.
        """
        return self.module.qualified(self.node.func)

    @property
    def span(self) -> Span:
        """The position of the call."""
        return self.module.span(self.node)

    @property
    def keywords(self) -> dict[str, ast.expr]:
        """The keyword arguments, without `**rest`."""
        return {keyword.arg: keyword.value for keyword in self.node.keywords if keyword.arg is not None}

    @property
    def is_open(self) -> bool:
        """Whether `*args` or an unknown `**kwargs` may pass more arguments."""
        if any(isinstance(argument, ast.Starred) for argument in self.node.args):
            return True
        splats = (
            evaluate(self.module, keyword.value) for keyword in self.node.keywords if keyword.arg is None
        )
        return any(splat.entries is None or not splat.entries.complete for splat in splats)

    def expression(self, keyword: str | None = None, position: int | None = None) -> ast.expr | None:
        """The expression of an argument, by keyword or else by position from 0; None if it is not written."""
        return argument_node(self.node, keyword, position)

    def argument(self, keyword: str | None = None, position: int | None = None) -> Value:
        """The value of an argument: absent if it is not passed, unknown if `*args` or `**kwargs` may pass it."""
        written = self.expression(keyword, position)
        if written is not None:
            return evaluate(self.module, written)
        for node in self.node.keywords:
            if node.arg is None and keyword is not None:
                entries = evaluate(self.module, node.value).entries
                if entries is not None and keyword in entries:
                    return entries[keyword]
        return UNKNOWN if self.is_open else ABSENT

    def arguments(self) -> dict[str, Value]:
        """The values of keyword arguments, including those of a known `**mapping`."""
        found: dict[str, Value] = {}
        for keyword in self.node.keywords:
            value = evaluate(self.module, keyword.value)
            if keyword.arg is not None:
                found[keyword.arg] = value
            elif value.entries is not None:
                found.update({str(key): part for key, part in value.entries.items()})
        return found


def all_calls(module: Module) -> list[Call]:
    """Every call of a module, in the order of the text."""
    return module.derived(_CallIndex).calls


def calls_named(module: Module, *names: str) -> list[Call]:
    """Calls of functions or methods by their last name, on any receiver: `calls_named(module, "backward")`."""
    by_name = module.derived(_CallIndex).by_name
    return [definition for name in names for definition in by_name.get(name, ())]


def calls_to(module: Module, *names: str) -> list[Call]:
    """Calls by qualified name: `calls_to(module, "torch.load")`; `torch.amp.*` takes everything below `torch.amp`."""
    index = module.derived(_CallIndex)
    found: list[Call] = []
    for name in names:
        if name.endswith(".*"):
            if module.imports(name.partition(".")[0]):
                found += [call for call in index.calls if call.name and call.name.startswith(name[:-1])]
            continue
        last = name.rpartition(".")[2]
        written = (last, *module.aliases.get(last, ()))
        found += [
            definition
            for word in written
            for definition in index.by_name.get(word, ())
            if definition.name == name
        ]
    return found


def origin_call(module: Module, node: ast.expr | None) -> Call | None:
    """The call that an expression is, or that made the value of a name; None for anything else."""
    made = module.origin(node)
    return module.derived(_CallIndex).by_node.get(made) if isinstance(made, ast.Call) else None


def call_of(module: Module, node: ast.expr) -> Call | None:
    """The call that an expression is; None for anything else."""
    return module.derived(_CallIndex).by_node.get(node) if isinstance(node, ast.Call) else None


def passed_arguments(module: Module, parameter: Binding) -> list[ast.expr | None]:
    """What each call of a function in its file passes for a parameter; None where that is unknown."""
    function = parameter.scope
    if not isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return []
    names = [argument.arg for argument in (*function.args.posonlyargs, *function.args.args)]
    place = names.index(parameter.name) if parameter.name in names else None
    return [
        call.expression(parameter.name, place)
        for call in calls_named(module, function.name)
        if local_function(call) is function
    ]


def calls_within(calls: Iterable[Call], around: ast.AST) -> list[Call]:
    """Those of the calls that are inside a node."""
    return [call for call in calls if call.module.tree.is_within(call.node, around)]


def local_function(call: Call) -> FunctionNode | None:
    """The function of the same file that a call of a bare name runs."""
    if not isinstance(call.node.func, ast.Name):
        return None
    bindings = call.module.reaching(call.node.func)
    node = bindings[0].node if len(bindings) == 1 else None
    return node if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) else None


class _CallIndex:
    def __init__(self, module: Module) -> None:
        self.calls = [Call(node, module) for node in module.tree.nodes(ast.Call)]

    @cached_property
    def by_name(self) -> dict[str, list[Call]]:
        groups: dict[str, list[Call]] = defaultdict(list)
        for call in self.calls:
            groups[call.method].append(call)
        return groups

    @cached_property
    def by_node(self) -> dict[ast.Call, Call]:
        return {call.node: call for call in self.calls}
