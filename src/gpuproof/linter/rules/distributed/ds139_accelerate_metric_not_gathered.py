"""The metric of a prepared evaluation loader is never gathered: each process reports the result of its own share.

`prepare()` gives each process a part of the validation data. A metric of the process's own predictions covers an N-th of the data, and what is printed is the result of the process that prints it. `accelerator.gather_for_metrics()` collects the
predictions of all processes, and drops the samples that were repeated to fill the last batch.
Source: https://huggingface.co/docs/accelerate/basic_tutorials/migration, "Evaluate".

Bad:

    import evaluate
    import torch
    from accelerate import Accelerator
    from torch.utils.data import DataLoader

    accelerator = Accelerator()
    model = torch.nn.Linear(8, 2)
    metric = evaluate.load("accuracy")
    model, val_loader = accelerator.prepare(model, DataLoader(torch.rand(64, 8), batch_size=8))
    model.eval()
    for x in val_loader:
        with torch.no_grad():
            predictions = model(x).argmax(dim=-1)
        metric.add_batch(predictions=predictions, references=x[:, 0].long())  # <-
    accelerator.print(metric.compute())

Bad: counted by hand

    import torch
    from accelerate import Accelerator
    from torch.utils.data import DataLoader

    def evaluate(model, loader):
        correct = 0
        with torch.no_grad():
            for x, y in loader:
                correct += (model(x).argmax(dim=-1) == y).sum().item()  # <-
        return correct

    accelerator = Accelerator()
    model, loader = accelerator.prepare(torch.nn.Linear(8, 2), DataLoader(torch.rand(64, 8), batch_size=8))
    accelerator.print(evaluate(model, loader))

Good:

    import evaluate
    import torch
    from accelerate import Accelerator
    from torch.utils.data import DataLoader

    accelerator = Accelerator()
    model = torch.nn.Linear(8, 2)
    metric = evaluate.load("accuracy")
    model, val_loader = accelerator.prepare(model, DataLoader(torch.rand(64, 8), batch_size=8, num_workers=4))
    model.eval()
    for x in val_loader:
        with torch.no_grad():
            predictions = model(x).argmax(dim=-1)
        predictions, references = accelerator.gather_for_metrics((predictions, x[:, 0].long()))
        metric.add_batch(predictions=predictions, references=references)
    accelerator.print(metric.compute())

Quiet: each process has all validation data

    import evaluate
    import torch
    from accelerate import Accelerator
    from torch.utils.data import DataLoader

    accelerator = Accelerator()
    model = accelerator.prepare(torch.nn.Linear(8, 2))
    metric = evaluate.load("accuracy")
    val_loader = DataLoader(torch.rand(64, 8), batch_size=8)
    for x in val_loader:
        metric.add_batch(predictions=model(x).argmax(dim=-1), references=x[:, 0].long())
"""

import ast
import re

from gpuproof.findings import Severity
from gpuproof.linter.analysis.call import Call, calls_named
from gpuproof.linter.analysis.local_imports import local_modules
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.syntax_index import callee_name
from gpuproof.linter.analysis.usage import script_uses
from gpuproof.linter.knowledge.distribution.accelerate import (
    accelerators,
    has_accelerator_only,
    is_from_prepare,
)
from gpuproof.linter.knowledge.frameworks.torch import is_inside_with
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule

rule = Rule("DS139", "accelerate-metric-not-gathered", Severity.WARNING, needs=("Accelerator",))

_GATHERS = re.compile(r"gather|(^|\.)(all_)?reduce$|broadcast|torchmetrics|(^|\.)is_last_process$")
_COUNTED = re.compile(r"correct|hits|num_right|(^|_)(acc|accuracy|matches)(_|$)", re.IGNORECASE)


@rule.module
def check(module: Module, _: Project) -> Hits:
    if not accelerators(module) or not has_accelerator_only(module):
        return
    if script_uses(module, _GATHERS, "call", "name"):
        return
    for home in local_modules(module):
        for call in calls_named(home, "add_batch"):
            if _is_of_prepared(home, call.node):
                yield rule.hit(
                    call.span,
                    "Each process computes this metric on its own share of the data: nothing gathers the predictions.",
                    remedy="Gather them first: accelerator.gather_for_metrics((predictions, references)).",
                )
                return
        for node in home.nodes(ast.AugAssign):
            is_count = isinstance(node.op, ast.Add) and _COUNTED.search(home.text(node.target))
            if is_count and _evaluates(home, node) and _is_of_prepared(home, node):
                yield rule.hit(
                    home.span(node),
                    f"`{home.text(node.target)}` counts this process's share of the data only: nothing gathers it.",
                    remedy="Gather predictions and labels first: accelerator.gather_for_metrics((predictions, labels)).",
                )
                return


def _evaluates(module: Module, node: ast.AST) -> bool:
    loops = module.loops_around(node)
    backwards: list[Call] = calls_named(module, "backward")
    trains = any(module.tree.is_within(call.node, loop) for loop in loops[:1] for call in backwards)
    return not trains and (
        is_inside_with(module, node, ("no_grad", "inference_mode"))
        or any(is_inside_with(module, loop, ("no_grad", "inference_mode")) for loop in loops)
        or any(
            is_inside_with(module, call.node, ("no_grad", "inference_mode"))
            for loop in loops[:1]
            for call in calls_named(module, "model")
            if module.tree.is_within(call.node, loop)
        )
    )


def _is_of_prepared(module: Module, node: ast.AST) -> bool:
    """Whether a node is in a loop over a loader that is prepared."""
    for loop in module.loops_around(node)[:1]:
        data = getattr(loop, "iter", None)
        while isinstance(data, ast.Call) and callee_name(data) in ("enumerate", "tqdm") and data.args:
            data = data.args[0]
        if isinstance(data, ast.expr) and is_from_prepare(module, data):
            return True
    return False
