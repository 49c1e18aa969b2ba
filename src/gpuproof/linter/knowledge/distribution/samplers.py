"""How a script gives each rank its share of the data: samplers, shards, and what is computed from the rank."""

from __future__ import annotations

import ast
import re

from gpuproof.linter.analysis.call import Call, calls_named
from gpuproof.linter.analysis.local_imports import local_modules
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.usage import find_uses

_SPLITS = re.compile(
    r"(^|\.)(split_dataset_by_node|split_by_(node|worker)|IterableDataset|StatefulDataLoader|shard\w*|partition\w*"
    r"|DTensor|parallelize_module|PipelineStage|Pipe)$|^(webdataset|wds|torch\.distributed\.(rpc|pipelining|tensor))\."
)
"""Datasets and functions that give each rank its own data."""
_SIZE = re.compile(r"(^|\.)(get_)?world_size(\(\))?$|(^|\.)num_processes$")
_DISTRIBUTED = re.compile(r"(^|\.)(distributed|is_distributed|use_ddp|ddp|is_initialized\(\))$")


def sampler_of_one_process(module: Module) -> Call | None:
    """A sampler for ranks that is created only if there is no other rank: `... if world_size == 1 else None`."""
    for call in calls_named(module, "DistributedSampler"):
        inside: ast.AST = call.node
        for ancestor in module.tree.ancestors(call.node):
            if isinstance(ancestor, ast.IfExp) or (isinstance(ancestor, ast.If) and not ancestor.orelse):
                body = ancestor.body if isinstance(ancestor.body, list) else [ancestor.body]
                if inside in body and _holds_alone(module, ancestor.test):
                    return call
            inside = ancestor
    return None


def _holds_alone(module: Module, test: ast.expr) -> bool:
    """Whether a condition certainly is true for one process only: `world_size == 1`, `not dist.is_initialized()`."""
    match test:
        case ast.Compare(left=left, ops=[ast.Eq() | ast.LtE()], comparators=[ast.Constant(value=1)]):
            return _SIZE.search(module.text(left)) is not None
        case ast.Compare(left=left, ops=[ast.Lt()], comparators=[ast.Constant(value=2)]):
            return _SIZE.search(module.text(left)) is not None
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return _DISTRIBUTED.search(module.text(operand)) is not None
        case _:
            return False


def seeds_by_rank(module: Module) -> bool:
    """Whether code computes something from the rank, such as a seed or the start of a slice."""
    nodes = (*module.nodes(ast.BinOp), *module.nodes(ast.Slice))
    return any(
        isinstance(node, ast.Name) and "rank" in node.id and "local" not in node.id
        for node in nodes
        for node in ast.iter_child_nodes(node)
    )


def splits_data(script: Module) -> bool:
    """Whether something may give each rank its own data; `text.partition(":")` splits a text."""
    return any(
        _SPLITS.search(use.text)
        and not (
            isinstance(use.node, ast.Call)
            and use.text.endswith("partition")
            and any(
                isinstance(given, ast.Constant) and isinstance(given.value, str) for given in use.node.args
            )
        )
        for module in local_modules(script)
        for use in find_uses(module, "call", "name")
    )
