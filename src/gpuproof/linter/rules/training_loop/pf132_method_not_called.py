"""`optimizer.step` without parentheses names the method and does not call it: nothing is trained, and nothing says so.

The same holds for `loss.backward`, `optimizer.zero_grad`, `model.eval`, `model.train`, `scheduler.step` and functions such as
`torch.cuda.synchronize`. The statement is valid Python and has no effect.

Bad:

    import torch

    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, y in torch.utils.data.DataLoader([]):
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(x), y).backward()
        optimizer.step  # <-

Fixed:

    import torch

    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, y in torch.utils.data.DataLoader([]):
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(x), y).backward()
        optimizer.step()

Bad: in a class

    import torch

    class Trainer:
        def validate(self, loader):
            self.model.eval  # <-
            with torch.no_grad():
                return [self.model(x) for x in loader]

Good:

    import torch

    device = torch.device("cuda")
    model = torch.nn.Linear(4, 1).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, y in torch.utils.data.DataLoader([]):
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(x.to(device)), y.to(device)).backward()
        optimizer.step()

Quiet: the method is passed on

    import torch

    model = torch.nn.Linear(4, 1)
    run = model.eval
    run()

Quiet: an attribute of something else

    import torch

    class Counter:
        step = 0

    Counter.step
"""

import ast
import re

from gpuproof.findings import Severity
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.fixing.edits import replace_node
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule
from gpuproof.linter.source.edit import Fix

rule = Rule("PF132", "method-not-called", Severity.ERROR, needs=("torch", "accelerate", "lightning"))

_METHODS = {
    "backward": re.compile(r"loss|err|cost|accelerator|total|out|engine"),
    "step": re.compile(r"opt|sched|scaler|engine|accelerator"),
    "zero_grad": re.compile(r""),
    "eval": re.compile(r"model|net|encoder|decoder|generator|discriminator|teacher|student|critic|module"),
    "train": re.compile(r"model|net|encoder|decoder|generator|discriminator|student|critic|module|trainer"),
    "update": re.compile(r"scaler|ema"),
}
"""Methods, and the names of the objects that have them: without the parentheses, they may be attributes of others."""
_FUNCTIONS = frozenset(
    {
        "torch.cuda.synchronize",
        "torch.cuda.empty_cache",
        "torch.distributed.barrier",
        "torch.distributed.destroy_process_group",
        "torch.distributed.init_process_group",
    }
)


@rule.module
def check(module: Module, _: Project) -> Hits:
    if not module.imports("torch", "accelerate", "lightning", "pytorch_lightning"):
        return
    for statement in module.nodes(ast.Expr):
        node = statement.value
        if not isinstance(node, ast.Attribute) or not _is_method(module, node):
            continue
        text = module.text(node)
        yield rule.hit(
            module.span(node),
            f"`{text}` without parentheses does nothing: the method is not called.",
            remedy=f"Write {text}().",
            fix=Fix(
                "Call it",
                (replace_node(module, node, f"{text}()"),),
                safe=node.attr != "init_process_group",
            ),
        )


def _is_method(module: Module, node: ast.Attribute) -> bool:
    if module.qualified(node) in _FUNCTIONS:
        return True
    names = _METHODS.get(node.attr)
    return names is not None and names.search(module.text(node.value).lower()) is not None
