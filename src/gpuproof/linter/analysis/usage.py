"""What code uses: calls, names, attributes, keywords, strings; never comments, docstrings, parameters or annotations.

Rules that stay silent because a script does something ask here, so that a word in a comment does not silence them.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Literal, NamedTuple

from gpuproof.linter.analysis.call import Call, all_calls, calls_named, local_function
from gpuproof.linter.analysis.local_imports import local_modules
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.scopes import Binding
from gpuproof.linter.analysis.syntax_index import callee_name

UseKind = Literal["call", "name", "attribute", "keyword", "string"]
"""Kinds of uses, and their texts:

- `call`: the qualified name of what is called (`torch.no_grad`); through an object, as written (`model.eval`, `.cpu`)
- `name`: the qualified name of something imported, called or not, or the bare name of something unknown
- `attribute`: the name of an attribute that is read or assigned: `grad` of `x.grad`
- `keyword`: the name of an argument that a call passes
- `string`: a text; docstrings and other unused texts do not count, nor do messages for people
"""


class Use(NamedTuple):
    """One use.

    Attributes:
        text: its text, as the kind defines it.
        node: the syntax node.
    """

    text: str
    node: ast.AST


def uses(
    module: Module,
    pattern: re.Pattern[str],
    *kinds: UseKind,
    within: ast.AST | Iterable[ast.AST] | None = None,
) -> bool:
    """Whether code of a module uses something whose text matches a pattern.

    Args:
        within: only look inside this node, or inside any of these nodes.
    """
    return bool(find_matches(module, pattern, *kinds, within=within))


def find_matches(
    module: Module,
    pattern: re.Pattern[str],
    *kinds: UseKind,
    within: ast.AST | Iterable[ast.AST] | None = None,
) -> list[Use]:
    """The uses of these kinds whose text matches a pattern, in a module or inside nodes of it."""
    found = module.derived(_UseIndex).matching(pattern, kinds)
    return found if within is None or not found else _inside(module, found, within)


def find_uses(
    module: Module, *kinds: UseKind, within: ast.AST | Iterable[ast.AST] | None = None
) -> list[Use]:
    """The uses of these kinds in a module, or inside nodes of it."""
    index = module.derived(_UseIndex)
    found = [item for kind in kinds for item in index.of(kind)]
    if within is None:
        return found
    return _inside(module, found, within)


def _inside(module: Module, found: Iterable[Use], within: ast.AST | Iterable[ast.AST]) -> list[Use]:
    around = {within} if isinstance(within, ast.AST) else set(within)
    return [use for use in found if module.tree.is_within_any(use.node, around)]


def script_uses(script: Module, pattern: re.Pattern[str], *kinds: UseKind) -> bool:
    """Whether the script, or a project module that it imports, uses something that matches; computed once."""
    return script.loader.cached(
        f"uses {'/'.join(kinds)} {pattern.pattern}",
        script.unit,
        lambda: any(uses(module, pattern, *kinds) for module in local_modules(script)),
    )


_MESSAGES = re.compile(r"^(print|pprint|debug|info|warning|warn|error|critical|exception|log|secho|echo)$")
_WRITES_OUT = re.compile(
    r"^(format|str|repr|join|len|sorted|list|dict|vars|type|round|get|getenv|dumps|pformat)$"
)
"""Calls whose result in a message is only their argument, written out."""
_MESSAGE_ARGUMENTS = ("help", "description", "epilog", "metavar", "choices", "desc")


def is_message(module: Module, node: ast.AST) -> bool:
    """Whether a value goes only into a message for people: printed, logged, of an exception, or the help of an argument."""
    for ancestor in module.tree.ancestors(node):
        match ancestor:
            case ast.Raise():
                return True
            case ast.keyword(arg=name) if name in _MESSAGE_ARGUMENTS:
                return True
            case ast.Assert(msg=message):
                return message is not None and module.tree.is_within(node, message)
            case ast.Call(func=function) if not module.tree.is_within(node, function):
                if _MESSAGES.match(callee_name(ancestor)) or isinstance(module.parent(ancestor), ast.Raise):
                    return True
                if not _WRITES_OUT.match(callee_name(ancestor)):
                    return False
            case ast.stmt():
                return False
            case _:
                continue
    return False


def code_around(module: Module, node: ast.AST) -> list[ast.AST]:
    """The code that runs together with a node: its function, or the module's top-level statements, and what they use."""
    function = module.function_of(node)
    if function is not None:
        return reached(module, function)
    definitions = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    return reached(
        module, *(statement for statement in module.tree.root.body if not isinstance(statement, definitions))
    )


def reached(module: Module, *nodes: ast.AST) -> list[ast.AST]:
    """Nodes, and what they use of the same file, directly or not: functions, classes, and the values of global names."""
    found: list[ast.AST] = list(nodes)
    for node in found:
        for name in ast.walk(node):
            if not isinstance(name, ast.Name) or not isinstance(name.ctx, ast.Load):
                continue
            for binding in module.reaching(name):
                if binding.kind == "definition":
                    other = binding.node
                elif binding.kind == "assign" and isinstance(binding.scope, ast.Module):
                    other = binding.value
                else:
                    continue
                if other is not None and other not in found and len(found) < len(nodes) + _MAX_REACHED:
                    found.append(other)
    return found


_MAX_REACHED = 40


def is_same_variable(module: Module, first: ast.expr, second: ast.expr) -> bool:
    """Whether two names certainly have the same value: the same bindings reach both, or the same import."""
    if not isinstance(first, ast.Name) or not isinstance(second, ast.Name) or first.id != second.id:
        return False
    bindings = module.reaching(first)
    if bindings:
        return bindings == module.reaching(second)
    return first.id in module.names.imports and not module.reaching(second)


def moves_name(module: Module, name: ast.Name, calls: Iterable[Call]) -> bool:
    """Whether a method of one of these calls is called on the variable that a name stands for.

    A variable of the same name in another function does not count, unless the variable is passed to that function.
    """
    bindings = module.reaching(name)
    scopes = {binding.scope for binding in bindings}
    for call in calls:
        receiver = call.receiver
        while isinstance(receiver, ast.Attribute):
            receiver = receiver.value
        if not isinstance(receiver, ast.Name):
            continue
        others = module.reaching(receiver)
        if receiver.id == name.id and (
            not others or not scopes or any(item.scope in scopes for item in others)
        ):
            return True
        if any(_gets(module, item, bindings) for item in others if item.kind == "parameter"):
            return True
    return False


def _gets(module: Module, parameter: Binding, bindings: list[Binding]) -> bool:
    """Whether a call in the file passes a variable with one of these bindings for a parameter."""
    function = parameter.scope
    if not isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return False
    names = [argument.arg for argument in (*function.args.posonlyargs, *function.args.args)]
    position = names.index(parameter.name) if parameter.name in names else None
    for call in calls_named(module, function.name):
        given = call.expression(parameter.name, position) if local_function(call) is function else None
        if isinstance(given, ast.Name) and any(binding in bindings for binding in module.reaching(given)):
            return True
    return False


class _UseIndex:
    """The uses of each kind, collected when they are first asked for."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self._by_kind: dict[UseKind, list[Use]] = {}
        self._matching: dict[tuple[re.Pattern[str], tuple[UseKind, ...]], list[Use]] = {}

    def of(self, kind: UseKind) -> list[Use]:
        if kind not in self._by_kind:
            self._by_kind[kind] = list(_COLLECTORS[kind](self._module))
        return self._by_kind[kind]

    def matching(self, pattern: re.Pattern[str], kinds: tuple[UseKind, ...]) -> list[Use]:
        """The uses whose text matches; rules ask for the same ones inside many nodes."""
        key = (pattern, kinds)
        if key not in self._matching:
            self._matching[key] = [use for kind in kinds for use in self.of(kind) if pattern.search(use.text)]
        return self._matching[key]


def _calls(module: Module) -> Iterator[Use]:
    for call in all_calls(module):
        if text := call.name or _written(call.node.func):
            yield Use(text, call.node)


def _keywords(module: Module) -> Iterator[Use]:
    for call in all_calls(module):
        for keyword in call.node.keywords:
            if keyword.arg:
                yield Use(keyword.arg, keyword)


def _attributes(module: Module) -> Iterator[Use]:
    called = {call.node.func for call in all_calls(module)}
    for node in module.nodes(ast.Attribute):
        if node not in called:
            yield Use(node.attr, node)


def _names(module: Module) -> Iterator[Use]:
    parents = module.tree.parents
    for node in module.nodes(ast.Name, ast.Attribute):
        if not isinstance(node.ctx, ast.Load) or isinstance(parents.get(node), ast.Attribute):
            continue
        qualified = module.qualified(node)
        if qualified is None and isinstance(node, ast.Name):
            is_own = module.binds(node.id) and module.names.visible(node.id, node)
            qualified = None if is_own else node.id
        if qualified is not None:
            yield Use(qualified, node)


def _strings(module: Module) -> Iterator[Use]:
    for node in module.nodes(ast.Constant):
        if not isinstance(node.value, str) or isinstance(module.parent(node), ast.Expr):
            continue
        if not is_message(module, node):
            yield Use(node.value, node)


_COLLECTORS: Mapping[UseKind, Callable[[Module], Iterator[Use]]] = {
    "call": _calls,
    "name": _names,
    "attribute": _attributes,
    "keyword": _keywords,
    "string": _strings,
}


def _written(node: ast.expr) -> str:
    """A callee as written: `model.eval`; `.cpu` where the object is not a name."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    base = node.id if isinstance(node, ast.Name) else ""
    return ".".join((base, *reversed(parts))) if parts or base else ""
