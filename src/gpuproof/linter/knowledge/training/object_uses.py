"""What a script does with an object that it keeps in a variable: the methods that it calls, and whether the object goes elsewhere."""

from __future__ import annotations

import ast
from typing import NamedTuple

from gpuproof.linter.analysis.call import Call
from gpuproof.linter.analysis.module import Module


class ObjectUses(NamedTuple):
    """The uses of an object.

    Attributes:
        methods: names of its methods and attributes that code uses.
        passed_to: the calls that get it as an argument.
        escapes: whether it is returned, stored, put into a list, or used in another way that is not followed.
    """

    methods: frozenset[str]
    passed_to: tuple[ast.Call, ...]
    escapes: bool


def uses_of_created(module: Module, made: Call) -> ObjectUses | None:
    """The uses of what a call creates and a statement assigns to one name, or to one attribute of `self`.

    None if it is used in another way. The attribute counts wherever the module has one of that name.
    """
    statement = module.parent(made.node)
    if (
        not isinstance(statement, ast.Assign)
        or len(statement.targets) != 1
        or statement.value is not made.node
    ):
        return None
    target = statement.targets[0]
    if isinstance(target, ast.Name):
        nodes: list[ast.expr] = [
            use
            for use in module.tree.uses_of(target.id)
            if not module.reaching(use) or any(binding.node is target for binding in module.reaching(use))
        ]
    elif (
        isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name) and target.value.id == "self"
    ):
        nodes = [
            node
            for node in module.nodes(ast.Attribute)
            if node.attr == target.attr and isinstance(node.ctx, ast.Load)
        ]
    else:
        return None
    methods, passed, escapes = set[str](), list[ast.Call](), False
    for node in nodes:
        match module.parent(node):
            case ast.Attribute(attr=name):
                methods.add(name)
            case ast.Call() as call if call.func is not node:
                passed.append(call)
            case ast.keyword() as keyword:
                call = module.parent(keyword)
                if isinstance(call, ast.Call):
                    passed.append(call)
            case ast.Compare() | ast.If() | ast.IfExp(test=_) | ast.UnaryOp():
                pass
            case _:
                escapes = True
    return ObjectUses(frozenset(methods), tuple(passed), escapes)
