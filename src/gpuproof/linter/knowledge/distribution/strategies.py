"""TensorFlow's strategies for several hosts: which calls create them, and what is built in their scope."""

from __future__ import annotations

import ast

from gpuproof.linter.analysis.call import Call, origin_call
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.jobs.definition import JobDefinition
from gpuproof.linter.knowledge.distribution.launchers import enabled_launchers

_DISTRIBUTE = ("tensorflow.distribute", "tensorflow.distribute.experimental")
MULTI_WORKER = frozenset(f"{package}.MultiWorkerMirroredStrategy" for package in _DISTRIBUTE)
PARAMETER_SERVER = frozenset(f"{package}.ParameterServerStrategy" for package in _DISTRIBUTE)
RUNTIME = "gpuproof.runtime.strategy"
_RUNTIME_KINDS = {
    None: frozenset({"multi_worker_mirrored_strategy", "parameter_server", ""}),
    "multi-worker": frozenset({"multi_worker_mirrored_strategy", "parameter_server", ""}),
    "parameter-server": frozenset({"parameter_server", ""}),
}
_NO_LAUNCHER = ""


def strategy_across_hosts(module: Module, node: ast.expr, job: JobDefinition) -> str | None:
    """The name of a strategy that certainly joins the hosts of a job, such as `MultiWorkerMirroredStrategy`.

    Args:
        node: an expression whose value may be a strategy; None if it is none, works on one host, or has several values.
    """
    call = _only_call(module, node)
    if call is None or call.name is None:
        return None
    launchers = enabled_launchers(job)
    if launchers is None or len(launchers) > 1:
        return None
    launcher = launchers[0] if launchers else _NO_LAUNCHER
    if call.name == RUNTIME:
        kind = call.argument("kind", 0)
        name = None if kind.is_absent else kind.text
        if not kind.is_absent and name is None:
            return None
        return "gpuproof.runtime.strategy()" if launcher in _RUNTIME_KINDS.get(name, ()) else None
    # Without TF_CONFIG, each host is a cluster of its own.
    if call.name in MULTI_WORKER and launcher == "multi_worker_mirrored_strategy":
        return "MultiWorkerMirroredStrategy"
    return None


def scope_around(module: Module, node: ast.AST) -> ast.expr | None:
    """The strategy in whose scope a node is: `strategy` of `with strategy.scope():`; None outside of any."""
    block = module.enclosing(node, ast.With)
    while block is not None:
        for item in block.items if isinstance(block, ast.With) else ():
            match item.context_expr:
                case ast.Call(func=ast.Attribute(value=strategy, attr="scope")):
                    return strategy
                case _:
                    pass
        block = module.enclosing(block, ast.With)
    return None


def is_conditional(module: Module, node: ast.AST) -> bool:
    """Whether a node is in a branch or a `try`, other than `if __name__ == "__main__"`."""
    block = module.enclosing(node, ast.If, ast.IfExp, ast.Try)
    while isinstance(block, ast.If) and any(
        isinstance(child, ast.Name) and child.id == "__name__" for child in ast.walk(block.test)
    ):
        block = module.enclosing(block, ast.If, ast.IfExp, ast.Try)
    return block is not None


def _only_call(module: Module, node: ast.expr) -> Call | None:
    """The call that made the value of an expression, if no other may have made it."""
    if isinstance(node, ast.Name):
        bindings = module.reaching(node)
        if len(bindings) != 1 or bindings[0].kind != "assign" or bindings[0].value is None:
            return None
        # In a branch, the script may choose by the number of hosts.
        if is_conditional(module, bindings[0].value):
            return None
    return origin_call(module, node)
