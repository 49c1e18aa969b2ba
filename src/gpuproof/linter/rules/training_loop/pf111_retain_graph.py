"""`backward(retain_graph=True)` keeps the step's activations after the gradients are computed, which wastes memory.

The flag is meant for a second backward pass through the same graph. An ordinary training loop has none, and the flag
often hides the actual bug: a hidden state that was not detached, whose graph then grows with every step.

Bad:

    import torch
    from torch.utils.data import DataLoader

    model = torch.nn.Linear(4, 1)
    for x, y in DataLoader([]):
        loss = model(x).sum()
        loss.backward(retain_graph=True)  # <-

Good:

    import torch
    from torch.utils.data import DataLoader

    model = torch.nn.Linear(4, 1)
    for x, y in DataLoader([]):
        loss = model(x).sum()
        loss.backward()

Quiet: two losses share a graph

    import torch
    from torch.utils.data import DataLoader

    model = torch.nn.Linear(4, 1)
    for x, y in DataLoader([]):
        out = model(x)
        out.sum().backward(retain_graph=True)
        out.mean().backward()

Quiet: gradients of gradients

    import torch

    model = torch.nn.Linear(4, 1)
    for x in range(3):
        loss = model(torch.ones(4)).sum()
        loss.backward(retain_graph=True)
        torch.autograd.grad(loss, model.parameters())
"""

import ast
import re

from gpuproof.findings import Severity
from gpuproof.linter.analysis.call import all_calls, calls_named
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.usage import code_around, uses
from gpuproof.linter.fixing.edits import remove_keyword
from gpuproof.linter.knowledge.frameworks.torch import imports_device_manager, is_test
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule
from gpuproof.linter.source.edit import Fix

_SECOND_PASS = re.compile(r"^torch\.autograd\.(grad|functional\.\w+)$|^higher\.")
_GRAPH = re.compile(r"^grad_fn$")

rule = Rule("PF111", "retain-graph", Severity.WARNING, needs=("retain_graph",))


@rule.module
def check(module: Module, _: Project) -> Hits:
    if not module.imports("torch") or is_test(module) or imports_device_manager(module):
        return
    for call in calls_named(module, "backward"):
        flag, loops = call.argument("retain_graph"), module.loops_around(call.node)
        if call.receiver is None or not flag.is_known or flag.flag is not True or not loops:
            continue
        # Another backward in the file, in any function, may be the second pass.
        if len(calls_named(module, "backward")) > 1 or module.enclosing(call.node, ast.ClassDef) is not None:
            continue
        if len(loops) > 1 and not _is_over_batches(loops[0]):
            continue
        around = code_around(module, call.node)
        if uses(module, _SECOND_PASS, "call", within=around) or uses(
            module, _GRAPH, "attribute", within=around
        ):
            continue
        if any(
            not (given := other.argument("create_graph")).is_unset and given.flag is not False
            for other in all_calls(module)
            if module.tree.is_within_any(other.node, set(around))
        ):
            continue
        edit = remove_keyword(call, "retain_graph")
        yield rule.hit(
            call.span,
            f"`{module.text(call.node)}` keeps each step's graph although no second backward pass uses it.",
            remedy="Remove retain_graph, and detach() state that is carried from one step to the next.",
            fix=Fix("Remove retain_graph", (edit,)) if edit is not None else None,
        )


def _is_over_batches(loop: ast.AST) -> bool:
    """Whether a loop iterates over something like a loader, and not over several losses of one step."""
    iterated = getattr(loop, "iter", None)
    names = (
        [node for node in ast.walk(iterated) if isinstance(node, (ast.Name, ast.Attribute))]
        if iterated
        else []
    )
    return any("load" in (name.id if isinstance(name, ast.Name) else name.attr).lower() for name in names)
