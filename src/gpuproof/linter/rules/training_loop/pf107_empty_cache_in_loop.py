"""`torch.cuda.empty_cache()` at every step waits for the GPU, and gives back memory that the next step asks for again.

PyTorch's allocator keeps freed memory for the next tensors. Emptying it does not make more memory available to PyTorch; each step then pays
for a synchronization and for new `cudaMalloc` calls, often 10 to 30 % of its time. Between phases, such as training and
validation, it is harmless.

Bad:

    import torch

    def train(model, loader, optimizer, device):
        for x, y in loader:
            optimizer.zero_grad()
            torch.nn.functional.mse_loss(model(x.to(device)), y.to(device)).backward()
            optimizer.step()
            torch.cuda.empty_cache()  # <-

Fixed:

    import torch

    def train(model, loader, optimizer, device):
        for x, y in loader:
            optimizer.zero_grad()
            torch.nn.functional.mse_loss(model(x.to(device)), y.to(device)).backward()
            optimizer.step()

Bad: in a function of its own

    import gc
    import torch

    def free_memory():
        gc.collect()
        torch.cuda.empty_cache()

    def train(model, loader, optimizer, device):
        for x, y in loader:
            optimizer.zero_grad()
            torch.nn.functional.mse_loss(model(x.to(device)), y.to(device)).backward()
            optimizer.step()
            free_memory()  # <-
        free_memory()

Good:

    import torch

    def train(model, loader, optimizer, device):
        for x, y in loader:
            optimizer.zero_grad()
            torch.nn.functional.mse_loss(model(x.to(device)), y.to(device)).backward()
            optimizer.step()
        torch.cuda.empty_cache()

Quiet: once an epoch, and after an error

    import torch

    def train(model, loader, optimizer, epochs):
        for epoch in range(epochs):
            for x in loader:
                try:
                    model(x).sum().backward()
                except torch.cuda.OutOfMemoryError:
                    torch.cuda.empty_cache()
                optimizer.step()
                optimizer.zero_grad()
            torch.cuda.empty_cache()
"""

import ast

from gpuproof.findings import Severity
from gpuproof.linter.analysis.blocks import block_of
from gpuproof.linter.analysis.call import calls_named, calls_to, calls_within
from gpuproof.linter.analysis.flow.call_sites import known_call_sites
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.fixing.edits import replace_node
from gpuproof.linter.knowledge.frameworks.torch import is_test
from gpuproof.linter.knowledge.training.training_steps import is_batch_loop
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule
from gpuproof.linter.source.edit import Edit, Fix
from gpuproof.linter.source.span import Span

rule = Rule("PF107", "empty-cache-in-loop", Severity.WARNING, needs=("empty_cache",))


@rule.module
def check(module: Module, _: Project) -> Hits:
    if is_test(module):
        return
    for call in calls_to(module, "torch.cuda.empty_cache"):
        for place, node in _places(module, call.node):
            yield rule.hit(
                place.span(node),
                "`torch.cuda.empty_cache()` at every step waits for the GPU, and the next step allocates the memory again.",
                remedy="Remove it, or call it once after the loop.",
                fix=_removal(place, node) if node is call.node else None,
            )


def _places(module: Module, node: ast.Call) -> list[tuple[Module, ast.Call]]:
    """Where each step empties the cache: the call itself, or the calls of its function."""
    function = module.function_of(node)
    if module.loops_around(node) or function is None:
        return [(module, node)] if _is_each_step(module, node) else []
    if module.enclosing(node, ast.If, ast.ExceptHandler) in _inside(module, function):
        return []
    return [
        (site.module, site.call)
        for site in known_call_sites(module, function)
        if _is_each_step(site.module, site.call)
    ]


def _is_each_step(module: Module, node: ast.Call) -> bool:
    loops = module.loops_around(node)
    if not loops or module.enclosing(node, ast.If, ast.ExceptHandler) in _inside(module, loops[0]):
        return False
    loop = loops[0]
    steps = calls_within(calls_named(module, "backward"), loop)
    return any(module.loops_around(each.node)[:1] == [loop] for each in steps) or is_batch_loop(module, loop)


def _inside(module: Module, around: ast.AST) -> list[ast.AST | None]:
    """The branches and handlers inside a loop or function."""
    return [node for node in module.nodes(ast.If, ast.ExceptHandler) if module.tree.is_within(node, around)]


def _removal(module: Module, node: ast.Call) -> Fix | None:
    statement = module.parent(node)
    block = block_of(module, node)
    if not isinstance(statement, ast.Expr) or block_of(module, statement) is not block:
        return None
    line = module.unit.lines[statement.lineno - 1]
    if len(block) < 2:
        return Fix("Remove it", (replace_node(module, statement, "pass"),), safe=True)
    if statement.lineno != statement.end_lineno or line.strip() != module.text(statement):
        return None
    whole = Span(module.unit, statement.lineno, 1, statement.lineno + 1, 1)
    return (
        Fix("Remove it", (Edit(whole, ""),), safe=True) if statement.lineno < len(module.unit.lines) else None
    )
