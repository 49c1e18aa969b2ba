"""Collective operations: calls that every rank of a group must make, or those that made it wait forever."""

from __future__ import annotations

import ast
import re

from gpuproof.linter.analysis.call import Call, all_calls
from gpuproof.linter.analysis.flow.call_targets import Definition, find_definition
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.syntax_index import FunctionNode

_OF_TORCH = re.compile(
    r"^torch\.distributed\.(\w+\.)*(barrier|monitored_barrier|all_reduce|all_gather\w*|broadcast|broadcast_object_list|reduce"
    r"|reduce_scatter\w*|gather|gather_object|scatter|scatter_object_list|all_to_all\w*)$"
)
_OF_HOROVOD = re.compile(r"^horovod\.[\w.]+\.(allreduce|allgather|broadcast\w*|alltoall|barrier|join)$")
_OF_ACCELERATOR = ("wait_for_everyone", "gather", "gather_for_metrics", "reduce", "pad_across_processes")
_ACCELERATOR = re.compile(r"(^|\.|_)accelerator$", re.IGNORECASE)
_HOLDS = re.compile(
    r"(^|\.)((is_|use_)?(distributed|ddp|dist)|is_initialized|is_available|is_dist_avail_and_initialized|world_size|get_world_size)\b"
)
"""Conditions that hold on every rank of a distributed run."""

BARRIERS = ("barrier", "monitored_barrier", "wait_for_everyone", "synchronize", "rendezvous")


def collective_calls(module: Module) -> list[Call]:
    """The calls of a module that every rank of the default group must make."""
    return module.derived(_collectives)


def has_own_group(call: Call) -> bool:
    """Whether a collective may be for a group of some ranks only."""
    return any(not call.argument(name).is_unset for name in ("group", "process_group", "process_set"))


def collective_in(definition: Definition) -> Call | None:
    """A collective that a function of the project always calls in a distributed run; None if there is none."""
    module, function = definition
    if isinstance(function, ast.ClassDef):
        return None
    for call in collective_calls(module):
        if (
            module.function_of(call.node) is function
            and not has_own_group(call)
            and _always(module, call, function)
        ):
            return call
    return None


def called_collective(call: Call) -> Call | None:
    """The collective that a call of a function of the project always makes."""
    found = find_definition(call.module, call.node.func)
    return collective_in(found) if found is not None else None


def _always(module: Module, call: Call, function: FunctionNode) -> bool:
    inside: ast.AST = call.node
    for ancestor in module.tree.ancestors(call.node):
        if ancestor is function:
            break
        match ancestor:
            case ast.If(test=test, body=body):
                if inside is not test and not (inside in body and _HOLDS.search(module.text(test))):
                    return False
            case ast.IfExp() | ast.Try() | ast.Lambda() | ast.BoolOp() | ast.While():
                return False
            case _:
                pass
        inside = ancestor
    # A function that returns early on some ranks, or without a group.
    return not any(
        isinstance(node, ast.Return) and node.lineno < call.node.lineno
        for node in ast.walk(function)
        if isinstance(node, ast.Return)
    )


def _collectives(module: Module) -> list[Call]:
    found: list[Call] = []
    for call in all_calls(module):
        name = call.name
        if name is not None:
            if _OF_TORCH.match(name) or _OF_HOROVOD.match(name):
                found.append(call)
        elif (
            call.method in _OF_ACCELERATOR
            and call.receiver is not None
            and _ACCELERATOR.search(module.text(call.receiver))
        ):
            found.append(call)
    return found
