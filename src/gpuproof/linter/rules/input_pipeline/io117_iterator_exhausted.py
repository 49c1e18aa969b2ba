"""An iterator is made once, before the loop over the epochs: from the second epoch on it is empty.

`iter(loader)`, `zip(...)`, `enumerate(...)` and generators can be read once. The first epoch trains, the others run over nothing and end at
once, and the logs repeat the last loss. Loop over the loader itself, or make the iterator in each epoch.

Bad:

    import torch
    from torch.utils.data import DataLoader

    def train(model, optimizer, dataset, device):
        loader = DataLoader(dataset, batch_size=32, shuffle=True, num_workers=4)
        batches = enumerate(loader)
        for epoch in range(10):
            for index, (x, y) in batches:  # <-
                optimizer.zero_grad()
                torch.nn.functional.mse_loss(model(x.to(device)), y.to(device)).backward()
                optimizer.step()

Good:

    import torch
    from torch.utils.data import DataLoader

    def train(model, optimizer, dataset, device):
        loader = DataLoader(dataset, batch_size=32, shuffle=True, num_workers=4)
        for epoch in range(10):
            for index, (x, y) in enumerate(loader):
                optimizer.zero_grad()
                torch.nn.functional.mse_loss(model(x.to(device)), y.to(device)).backward()
                optimizer.step()

Quiet: made anew, or read in parts

    from torch.utils.data import DataLoader

    def train(step, dataset):
        loader = DataLoader(dataset, batch_size=32, shuffle=True, num_workers=4)
        batches, parts = iter(loader), enumerate(loader)
        for epoch in range(10):
            for x in batches:
                step(x)
            batches = iter(loader)
            for index, x in parts:
                if index % 100 == 99:
                    break
"""

import ast

from gpuproof.findings import Severity
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.knowledge.frameworks.torch import is_test
from gpuproof.linter.knowledge.training.training_steps import is_loader
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule

rule = Rule("IO117", "iterator-exhausted", Severity.ERROR, needs=("torch", "tensorflow"))

_ONCE = frozenset({"iter", "zip", "enumerate", "map"})


@rule.module
def check(module: Module, _: Project) -> Hits:
    if not module.imports("torch", "tensorflow") or is_test(module):
        return
    for loop in module.nodes(ast.For):
        name, outer = loop.iter, module.loops_around(loop)
        if not isinstance(name, ast.Name) or not outer:
            continue
        bindings = module.reaching(name)
        if (
            len(bindings) != 1
            or bindings[0].kind != "assign"
            or bindings[0].scope is not module.names.scope(name)
        ):
            continue
        made, around = bindings[0].value, module.loops_around(bindings[0].node)
        if not isinstance(made, ast.Call) or outer[0] in around or not _reads_loader(module, made):
            continue
        if any(isinstance(child, (ast.Break, ast.Return)) for child in ast.walk(loop)):
            continue
        yield rule.hit(
            module.span(loop.iter),
            f"`{name.id}` is `{module.text(made)}`, made once in line {module.unit.file_position(made.lineno, 1)[1]}: it is "
            "empty from the second iteration of the outer loop on.",
            remedy=f"Write `for ... in {module.text(made)}` here, or create the iterator in each iteration.",
        )


def _reads_loader(module: Module, made: ast.Call) -> bool:
    """Whether a call makes an iterator over loaders, which have an end."""
    if not isinstance(made.func, ast.Name) or made.func.id not in _ONCE or module.binds(made.func.id):
        return False
    data = made.args[1:] if made.func.id == "map" else made.args
    return bool(data) and all(is_loader(module, node) for node in data)
