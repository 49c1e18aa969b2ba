"""Follows a value forwards through the modules of a script, to the calls that receive it.

A declaration is not a use: `add_argument("--model-dir", default=...)`, `device = ...` and the field of a dataclass lead to
the places that read them, which may not exist.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable
from typing import NamedTuple

from gpuproof.linter.analysis.flow.call_targets import Definition, find_definition, find_method
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.syntax_index import FunctionNode, callee_name

Carries = Callable[[Module, ast.Call], bool]
"""Whether the result of a call carries the value of an argument or receiver: `os.path.join(folder, name)`."""

MAX_STEPS = 4_000


class Arrival(NamedTuple):
    """A place that receives the value.

    Attributes:
        node: the expression that holds the value there.
        call: the call that receives it as an argument or receiver; None if it goes anywhere else, such as a `with`.
    """

    module: Module
    node: ast.AST
    call: ast.Call | None


def follow(
    modules: Iterable[Module],
    starts: Iterable[tuple[Module, ast.expr]],
    carries: Carries,
) -> list[Arrival]:
    """The places that receive the value of some expressions.

    Values are followed through names, attributes (by name), parameters of the project's own functions, fields of its classes,
    `argparse`, containers and returned values. A test of the value, such as `if folder:`, receives nothing.

    Args:
        modules: the script and the project's modules that it imports.
    """
    flow = _Flow(list(modules), carries)
    flow.pending += starts
    return flow.run()


def follow_object(modules: Iterable[Module], module: Module, node: ast.expr) -> list[Arrival]:
    """The places that receive an object as a whole; reads of its attributes and entries end there."""
    flow = _ObjectFlow(list(modules), lambda _, call: callee_name(call) in ("vars", "dict", "asdict", "copy"))
    flow.pending.append((module, node))
    return flow.run()


class _Flow:
    def __init__(self, modules: list[Module], carries: Carries) -> None:
        self.pending: list[tuple[Module, ast.AST]] = []
        self._modules = modules
        self._carries = carries
        self._arrivals: list[Arrival] = []
        self._seen: set[ast.AST] = set()
        self._attributes: set[str] = set()

    def run(self) -> list[Arrival]:
        steps = 0
        while self.pending:
            module, node = self.pending.pop()
            if node in self._seen:
                continue
            self._seen.add(node)
            steps += 1
            if steps > MAX_STEPS:
                self._arrive(module, node)
                break
            self._climb(module, node)
        return self._arrivals

    def _arrive(self, module: Module, node: ast.AST, call: ast.Call | None = None) -> None:
        self._arrivals.append(Arrival(module, node, call))

    def _climb(self, module: Module, node: ast.AST) -> None:
        parent = module.parent(node)
        match parent:
            case ast.IfExp(test=test) if test is node:
                pass
            case (
                ast.JoinedStr()
                | ast.FormattedValue()
                | ast.BinOp()
                | ast.BoolOp()
                | ast.IfExp()
                | ast.Starred()
                | ast.Tuple()
                | ast.List()
                | ast.Set()
                | ast.Await()
                | ast.ListComp()
                | ast.SetComp()
                | ast.GeneratorExp()
            ):
                self.pending.append((module, parent))
            case ast.NamedExpr(target=target):
                self._bind(module, target)
                self.pending.append((module, parent))
            case ast.Lambda(body=body) if body is node:
                self.pending.append((module, parent))
            case ast.Dict():
                self._follow_entry(module, parent, node)
            case ast.Subscript():
                self._follow_item(module, parent, node)
            case ast.Attribute(ctx=ast.Load()):
                self._follow_member(module, parent)
            case ast.Call():
                self._follow_argument(module, parent, node, None)
            case ast.keyword(arg=name):
                call = module.parent(parent)
                if isinstance(call, ast.Call):
                    self._follow_argument(module, call, node, name)
            case ast.Assign(targets=targets, value=value) if value is node:
                for target in targets:
                    self._bind(module, target)
            case ast.AnnAssign(target=target, value=value) if value is node:
                self._bind(module, target)
            case ast.AugAssign(target=target, value=value) if value is node:
                self._bind(module, target)
            case ast.For(target=target, iter=iterated) | ast.AsyncFor(target=target, iter=iterated):
                if iterated is node:
                    self._bind(module, target)
            case ast.comprehension(target=target, iter=iterated) if iterated is node:
                self._bind(module, target)
            case ast.withitem(context_expr=value, optional_vars=target) if value is node:
                self._arrive(module, node)
                if target is not None:
                    self._bind(module, target)
            case ast.Return():
                function = module.function_of(node)
                if function is not None:
                    self._follow_returned(function)
            case ast.arguments():
                self._follow_default(module, parent, node)
            case ast.Yield() | ast.YieldFrom() | ast.FunctionDef() | ast.ClassDef():
                self._arrive(module, node)
            case _:
                # Tests, expression statements and everything else that keeps nothing.
                pass

    def _bind(self, module: Module, target: ast.AST) -> None:
        match target:
            case ast.Name(id=name):
                self._follow_name(module, name, target)
            case ast.Attribute(attr=name):
                self._follow_attribute(name)
            case ast.Tuple(elts=items) | ast.List(elts=items):
                for item in items:
                    self._bind(module, item)
            case ast.Starred(value=value):
                self._bind(module, value)
            case ast.Subscript(slice=ast.Constant(value=str(key))):
                self._follow_key(key)
            case _:
                self._arrive(module, target)

    def _follow_name(self, module: Module, name: str, bound: ast.AST) -> None:
        for use in module.tree.uses_of(name):
            if any(binding.node is bound for binding in module.reaching(use)):
                self.pending.append((module, use))
        scope = _scope_of(module, bound)
        for node in module.nodes(ast.AugAssign):
            # `path += "/1"` is a new binding of the same value.
            target = node.target
            if not isinstance(target, ast.Name) or target.id != name or target in self._seen:
                continue
            if module.names.scope(node) is scope:
                self._seen.add(target)
                self._follow_name(module, name, target)
        if isinstance(scope, ast.ClassDef):
            self._follow_attribute(name)
        elif isinstance(scope, ast.Module):
            self._follow_imported(module, name)

    def _follow_imported(self, module: Module, name: str) -> None:
        for other in self._modules:
            if other is module:
                continue
            for local, dotted in other.names.imports.items():
                if dotted.rpartition(".")[2] == name:
                    self.pending += [(other, use) for use in other.tree.uses_of(local)]
            self.pending += [(other, node) for node in _loads(other, name)]

    def _follow_attribute(self, name: str) -> None:
        if name in self._attributes:
            return
        self._attributes.add(name)
        for module in self._modules:
            self.pending += [(module, node) for node in _loads(module, name)]
            for call in module.nodes(ast.Call):
                if callee_name(call) == "getattr" and len(call.args) > 1 and _is_text(call.args[1], name):
                    self.pending.append((module, call))

    def _follow_key(self, key: str) -> None:
        """The reads of an entry: `config["key"]`, `config.get("key")`, `config.key`."""
        self._follow_attribute(key)
        for module in self._modules:
            for node in module.nodes(ast.Subscript):
                if isinstance(node.ctx, ast.Load) and _is_text(node.slice, key):
                    self.pending.append((module, node))
            for call in module.nodes(ast.Call):
                if callee_name(call) in ("get", "pop") and call.args and _is_text(call.args[0], key):
                    self.pending.append((module, call))

    def _follow_entry(self, module: Module, mapping: ast.Dict, node: ast.AST) -> None:
        key = next(
            (key for key, value in zip(mapping.keys, mapping.values, strict=True) if value is node), None
        )
        if isinstance(key, ast.Constant) and isinstance(key.value, str):
            self._follow_key(key.value)
        self._follow_object(module, mapping)

    def _follow_item(self, module: Module, subscript: ast.Subscript, node: ast.AST) -> None:
        if not isinstance(subscript.ctx, ast.Load):
            return
        if subscript.value is node or module.qualified(subscript.value) == "os.environ":
            self.pending.append((module, subscript))

    def _follow_member(self, module: Module, attribute: ast.Attribute) -> None:
        call = module.parent(attribute)
        if not isinstance(call, ast.Call) or call.func is not attribute:
            self.pending.append((module, attribute))
        elif self._carries(module, call):
            self.pending.append((module, call))
        else:
            self._arrive(module, attribute, call)

    def _follow_argument(self, module: Module, call: ast.Call, node: ast.AST, keyword: str | None) -> None:
        if call.func is node:
            return
        if callee_name(call) == "add_argument":
            if keyword == "default":
                self._follow_flag(module, call)
            return
        found = find_definition(module, call.func)
        if found is not None and not isinstance(node, ast.Starred):
            self._follow_parameter(found, call, node, keyword)
        elif self._carries(module, call):
            self.pending.append((module, call))
        else:
            self._arrive(module, node, call)

    def _follow_flag(self, module: Module, call: ast.Call) -> None:
        """The reads of a command-line argument, and calls that receive all of them."""
        flags = [text for flag in call.args if (text := _text(flag))]
        long = [flag for flag in flags if flag.startswith("--")] or flags
        dest = next(
            (text for item in call.keywords if item.arg == "dest" and (text := _text(item.value))), None
        )
        if dest is None and not long:
            self._arrive(module, call)
            return
        self._follow_key(dest or long[0].lstrip("-").replace("-", "_"))
        for other in self._modules:
            for parse in other.nodes(ast.Call):
                if callee_name(parse) in ("parse_args", "parse_known_args"):
                    self._follow_object(other, parse)

    def _follow_object(self, module: Module, node: ast.expr) -> None:
        """The calls that receive an object as a whole, whose attributes and entries are followed by name."""
        self._arrivals += follow_object(self._modules, module, node)

    def _follow_parameter(
        self, found: Definition, call: ast.Call, node: ast.AST, keyword: str | None
    ) -> None:
        module, definition = found
        if isinstance(definition, ast.ClassDef):
            method = find_method(found, "__init__")
            if method is None:
                self._follow_field(definition, call, node, keyword)
                return
            module, definition = method
        assert not isinstance(definition, ast.ClassDef)
        own = definition.args
        names = [item.arg for item in (*own.posonlyargs, *own.args)]
        if keyword is not None:
            name = keyword if keyword in (*names, *(item.arg for item in own.kwonlyargs)) else None
        else:
            bound = isinstance(module.parent(definition), ast.ClassDef) and names[:1] in (["self"], ["cls"])
            index = call.args.index(node) + bound if node in call.args else len(names)  # pyright: ignore[reportArgumentType]
            name = names[index] if index < len(names) else None
        if name is None:
            # `*args` or `**kwargs` of the function, which may pass it on.
            self._arrive(module, node, call)
            return
        self._follow_name(module, name, _parameter(definition, name))

    def _follow_field(self, owner: ast.ClassDef, call: ast.Call, node: ast.AST, keyword: str | None) -> None:
        fields = [
            statement.target.id
            for statement in owner.body
            if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name)
        ]
        index = call.args.index(node) if node in call.args else len(fields)  # pyright: ignore[reportArgumentType]
        name = keyword or (fields[index] if index < len(fields) else None)
        if name is not None:
            self._follow_attribute(name)

    def _follow_returned(self, function: FunctionNode) -> None:
        for module in self._modules:
            self.pending += [
                (module, call) for call in module.nodes(ast.Call) if callee_name(call) == function.name
            ]
        if any(
            isinstance(decorator, ast.Name) and "property" in decorator.id
            for decorator in function.decorator_list
        ):
            self._follow_attribute(function.name)

    def _follow_default(self, module: Module, arguments: ast.arguments, node: ast.AST) -> None:
        positional = [*arguments.posonlyargs, *arguments.args]
        pairs = [
            *zip(positional[len(positional) - len(arguments.defaults) :], arguments.defaults, strict=True),
            *zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True),
        ]
        for argument, value in pairs:
            if value is node:
                self._follow_name(module, argument.arg, argument)


class _ObjectFlow(_Flow):
    """Follows an object as a whole: reads of its attributes and entries end here."""

    def _follow_member(self, module: Module, attribute: ast.Attribute) -> None:
        if attribute.attr == "__dict__":
            self.pending.append((module, attribute))

    def _follow_item(self, module: Module, subscript: ast.Subscript, node: ast.AST) -> None:
        pass

    def _follow_key(self, key: str) -> None:
        self._follow_attribute(key)


def _scope_of(module: Module, bound: ast.AST) -> ast.AST | None:
    """The scope of a bound name: for a parameter its function, which is not where its default is evaluated."""
    return (
        module.parent(module.parent(bound) or bound)
        if isinstance(bound, ast.arg)
        else module.names.scope(bound)
    )


def _parameter(function: FunctionNode, name: str) -> ast.arg:
    own = function.args
    return next(item for item in (*own.posonlyargs, *own.args, *own.kwonlyargs) if item.arg == name)


def _loads(module: Module, name: str) -> list[ast.Attribute]:
    return [
        node for node in module.nodes(ast.Attribute) if node.attr == name and isinstance(node.ctx, ast.Load)
    ]


def _is_text(node: ast.AST, text: str) -> bool:
    return isinstance(node, ast.Constant) and node.value == text


def _text(node: ast.AST) -> str | None:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None
