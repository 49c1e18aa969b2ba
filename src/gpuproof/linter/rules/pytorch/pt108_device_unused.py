"""The script picks a device and never uses it: the model and the data stay on the CPU.

`device = torch.device("cuda" ...)` moves nothing. The rule reports a name that holds a device, in a script that trains a
model, if no code reads it and nothing in the script moves a model or a batch.

Bad:

    import torch

    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")  # <-
    model = torch.nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, y in loader:
        optimizer.zero_grad()
        model(x).sum().backward()
        optimizer.step()

Good:

    import torch

    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = torch.nn.Linear(4, 2).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, y in loader:
        optimizer.zero_grad()
        model(x.to(device)).sum().backward()
        optimizer.step()

Quiet: another module imports it

    # file: common.py
    import torch

    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    # file: train.py
    import torch
    from common import device

    model = torch.nn.Linear(4, 2).to(device)
    for x, y in loader:
        model(x.to(device)).sum().backward()

Quiet: the model is moved in another way

    import torch

    device = torch.device("cuda")
    model = torch.nn.Linear(4, 2).cuda()
    for x, y in loader:
        model(x.cuda()).sum().backward()
"""

import ast

from gpuproof.findings import Severity
from gpuproof.linter.analysis.call import calls_named, calls_to
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.knowledge.frameworks.torch import imports_device_manager, is_test
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule

rule = Rule("PT108", "device-unused", Severity.WARNING, needs=("torch.device", "import device"))


@rule.module
def check(module: Module, _: Project) -> Hits:
    if not calls_named(module, "backward") or is_test(module) or imports_device_manager(module):
        return
    if module.names.has_star or calls_named(
        module, "to", "cuda", "to_empty", "set_default_device", "set_device"
    ):
        return
    read = {node.id for node in module.nodes(ast.Name) if isinstance(node.ctx, ast.Load)}
    for call in calls_to(module, "torch.device"):
        statement = module.parent(call.node)
        if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
            continue
        target = statement.targets[0]
        if isinstance(target, ast.Name) and target.id not in read and not _is_exported(module, target):
            yield rule.hit(
                module.span(statement),
                f"`{target.id}` is never used: the model and the batches stay on the CPU.",
                remedy=f"Move both: model.to({target.id}), and x.to({target.id}) for each batch.",
            )


def _is_exported(module: Module, target: ast.Name) -> bool:
    """Whether other modules may import the name: the file has no training of its own at its top level or in `main`."""
    if module.function_of(target) is not None:
        return any(target.id in (*node.names,) for node in module.nodes(ast.Global, ast.Nonlocal))
    return any(
        isinstance(node, ast.Constant) and node.value == target.id for node in module.nodes(ast.Constant)
    )
