"""`backward()` runs on a tensor that is not connected to the model: nothing is learned, or it fails.

`torch.tensor(loss, requires_grad=True)` and `loss.detach().requires_grad_()` silence the error "element 0 of tensors does not require grad", and
cut the loss off from the model: its gradients reach no weight. The error is there for a reason, such as `argmax`, `.item()` or `.detach()`
on the way from the model to the loss.

Bad:

    import torch

    def train(model, loader, optimizer, device):
        for x, y in loader:
            optimizer.zero_grad()
            error = (model(x.to(device)).argmax(1) != y.to(device)).sum()
            loss = torch.tensor(float(error), requires_grad=True)
            loss.backward()  # <-
            optimizer.step()

Bad: in one line

    import torch

    def train(model, loader, criterion, optimizer, device):
        for x, y in loader:
            optimizer.zero_grad()
            loss = criterion(model(x.to(device)), y.to(device))
            loss = loss.detach().requires_grad_(True)
            loss.backward()  # <-
            optimizer.step()

Good:

    import torch

    def train(model, loader, criterion, optimizer, device):
        for x, y in loader:
            optimizer.zero_grad()
            loss = criterion(model(x.to(device)), y.to(device))
            loss.backward()
            optimizer.step()

Quiet: a tensor that is optimized itself, or a sum that starts from one

    import torch

    x = torch.tensor(3.0, requires_grad=True)
    (x * x).backward()
    total = torch.tensor(0.0, requires_grad=True)
    for value in [x, x + 1]:
        total = total + value
    total.backward()
"""

import ast
import re

from gpuproof.findings import Severity
from gpuproof.linter.analysis.call import Call, calls_named
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.knowledge.frameworks.torch import is_test
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule

rule = Rule("PF153", "loss-without-graph", Severity.ERROR, needs=("backward",))

_NEW = re.compile(r"^torch\.(tensor|as_tensor|FloatTensor|Tensor|from_numpy)$|^torch\.autograd\.Variable$")


@rule.module
def check(module: Module, _: Project) -> Hits:
    if not module.imports("torch") or is_test(module):
        return
    for call in calls_named(module, "backward"):
        if not isinstance(call.receiver, ast.Name) or not module.loops_around(call.node):
            continue
        bindings = module.reaching(call.receiver)
        if len(bindings) != 1 or bindings[0].kind != "assign" or not _is_cut(module, bindings[0].value):
            continue
        yield rule.hit(
            call.span,
            f"`{call.receiver.id}` is a new tensor (`{module.excerpt(bindings[0].value or call.node, 50)}`): its gradients reach no weight "
            "of the model.",
            remedy="Compute the loss from the model's output with operations that have gradients, and call backward() on it.",
        )


def _is_cut(module: Module, node: ast.expr | None) -> bool:
    """Whether an expression makes a tensor of a number, or of a detached one, that requires gradients itself."""
    if not isinstance(node, ast.Call):
        return False
    call = Call(node, module)
    if call.name is not None:
        requires = call.argument("requires_grad")
        data = node.args[0] if node.args else None
        is_constant = isinstance(data, (ast.Constant, ast.List, ast.UnaryOp))
        if call.name.endswith("Variable") and not _is_detached(data):
            return False
        return (
            _NEW.match(call.name) is not None
            and requires.is_known
            and requires.flag is True
            and data is not None
            and not is_constant
        )
    return call.method == "requires_grad_" and _is_detached(call.receiver)


def _is_detached(node: ast.expr | None) -> bool:
    """Whether an expression is without its history: `loss.detach()`, `loss.data`, `loss.item()`."""
    match node:
        case ast.Call(func=ast.Attribute(attr="detach" | "item" | "numpy")):
            return True
        case ast.Call(func=ast.Attribute(attr="clone" | "cpu", value=inner)):
            return _is_detached(inner)
        case ast.Attribute(attr="data"):
            return True
        case _:
            return False
