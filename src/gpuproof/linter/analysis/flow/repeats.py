"""Loops that repeat a place: around it, or around the calls of its function, in the whole program."""

from __future__ import annotations

import ast
from typing import NamedTuple

from gpuproof.linter.analysis.flow.call_sites import known_call_sites
from gpuproof.linter.analysis.flow.called import calls_within_program
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.syntax_index import LoopNode, callee_name

MAX_CALLERS = 24
_TRAINS = frozenset({"backward", "train_on_batch", "GradientTape", "manual_backward"})


class Repeat(NamedTuple):
    """A loop that repeats a place."""

    module: Module
    loop: LoopNode


def repeats(module: Module, node: ast.AST) -> list[Repeat]:
    """The loops that repeat a node, the nearest first."""
    found: list[Repeat] = []
    pending = [(module, node)]
    seen: set[ast.AST] = set()
    for here, place in pending:
        found += [Repeat(here, loop) for loop in here.loops_around(place)]
        function = here.function_of(place)
        if function is None or function in seen or len(seen) > MAX_CALLERS:
            continue
        seen.add(function)
        pending += [(site.module, site.call) for site in known_call_sites(here, function)]
    return found


def is_repeated(module: Module, node: ast.AST) -> bool:
    """Whether a node certainly runs in a loop, of its function or of one that calls it."""
    return bool(repeats(module, node))


def in_training_loop(module: Module, node: ast.AST) -> bool:
    """Whether a node runs in a loop that trains: `backward()` or the like runs in it, directly or in what it calls."""
    return any(trains(repeat.module, repeat.loop) for repeat in repeats(module, node))


def trains(module: Module, around: ast.AST) -> bool:
    """Whether code inside a node computes gradients, directly or in the functions that it calls."""
    return any(callee_name(call) in _TRAINS for _, call in calls_within_program(module, around))
