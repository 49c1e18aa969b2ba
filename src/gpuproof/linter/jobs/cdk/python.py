"""Reads the constructs of a CDK program in Python."""

from __future__ import annotations

import ast

from gpuproof.linter.analysis.call import Call, all_calls, origin_call
from gpuproof.linter.analysis.evaluation.evaluate import evaluate
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.values import Entries, Value, known
from gpuproof.linter.jobs.cdk.constructs import (
    Construct,
    enumeration,
    is_construct,
    is_raw,
    properties_of,
    qualified_name,
    result_of,
    with_platform,
)

_METHODS = ("add_container", "add_to_policy", "add_to_role_policy", "add_nodegroup_capacity")
_MAX_DEPTH = 16


def constructs(module: Module) -> list[Construct]:
    """The constructs that a program creates, in order; values inside others are not listed by themselves."""
    found: list[Construct] = []
    for call in all_calls(module):
        name = call.name or ""
        if name.startswith("aws_cdk."):
            shared = qualified_name(name)
            if is_construct(shared):
                identity = evaluate(module, call.node.args[1]).text if len(call.node.args) > 1 else ""
                found.append(Construct(shared, identity or "", _keywords(call, 0), call.span))
        elif call.method in _METHODS and call.receiver is not None:
            first = evaluate(module, call.node.args[0]).text if call.node.args else ""
            properties = _keywords(call, 0)
            created = origin_call(module, call.receiver)
            if created is not None and (created.name or "").endswith(".FargateTaskDefinition"):
                properties = with_platform(properties, "FARGATE")
            if call.method.startswith("add_to_") and call.node.args:
                properties = _value(module, call.node.args[0], 0)
            found.append(Construct(call.method, first or "", properties, call.span))
    return found


def _keywords(call: Call, depth: int) -> Value:
    members = {
        name: _value(call.module, node, depth + 1, raw=is_raw(name)) for name, node in call.keywords.items()
    }
    return properties_of(members, complete=not call.is_open, span=call.span)


def _value(module: Module, node: ast.expr, depth: int, *, raw: bool = False) -> Value:
    if depth > _MAX_DEPTH:
        return Value("unknown")
    span = module.span(node)
    made = module.origin(node)
    match made:
        case ast.Call():
            name = module.qualified(made.func) or ""
            call = Call(made, module)
            if name.startswith("aws_cdk."):
                positional = [_value(module, argument, depth + 1) for argument in made.args]
                return result_of(qualified_name(name), positional, _keywords(call, depth), span)
            return evaluate(module, node)
        case ast.List() | ast.Tuple():
            return known(tuple(_value(module, item, depth + 1) for item in made.elts), span)
        case ast.Dict() if not raw:
            return _mapping(module, made, depth)
        case ast.Attribute():
            name = module.qualified(made) or ""
            found = enumeration(qualified_name(name), span) if name.startswith("aws_cdk.") else None
            return found if found is not None else evaluate(module, node)
        case _:
            return evaluate(module, node)


def _mapping(module: Module, node: ast.Dict, depth: int) -> Value:
    members: dict[str, Value] = {}
    complete = True
    for key, value in zip(node.keys, node.values, strict=True):
        name = evaluate(module, key).text if key is not None else None
        if name is None:
            complete = False
        else:
            members[name] = _value(module, value, depth + 1, raw=is_raw(name))
    if any(not name.isidentifier() for name in members):
        return known(Entries(members), module.span(node))
    return properties_of(members, complete=complete, span=module.span(node))
