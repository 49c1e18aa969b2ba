"""A method is used without being called: `Adam(model.parameters)`, `total += loss.item`, `with torch.no_grad:`.

The method itself is passed on, or added, instead of its result. Most of these are a TypeError or an AttributeError at the first step;
`torch.save(model.state_dict, path)` works, and pickles the model's method instead of its weights.

Bad:

    import torch

    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.Adam(model.parameters, lr=1e-3)  # <-

Fixed:

    import torch

    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

Bad: contexts, losses, weights

    import torch

    def test(model, loader, criterion):
        total = 0.0
        with torch.no_grad:  # <-
            for x, y in loader:
                loss = criterion(model(x), y)
                total += loss.item  # <-
        torch.save(model.state_dict, "/opt/ml/model/model.pt")  # <-
        return total / len(loader)

Good:

    import torch

    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    with torch.no_grad():
        torch.save(model.state_dict(), "/opt/ml/model/model.pt")

Quiet: an attribute of the same name

    import torch

    class Resumed:
        def load(self, checkpoint):
            self.state_dict = checkpoint["scheduler"]

        def start(self, optimizer):
            self.scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 10)
            self.scheduler.load_state_dict(self.state_dict)

Quiet: a decorator, a function that is passed on, an attribute of another object

    import torch

    @torch.no_grad
    def test(model, order):
        total = order.price + order.item
        return map(model.parameters, [total])
"""

import ast
import re
from collections.abc import Iterator

from gpuproof.findings import Severity
from gpuproof.linter.analysis.flow.references import attribute_stores
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.syntax_index import callee_name
from gpuproof.linter.fixing.edits import replace_node
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule
from gpuproof.linter.source.edit import Fix

rule = Rule("PT130", "method-used-as-value", Severity.ERROR, needs=("torch",))

_CONTEXTS = frozenset(
    {
        "torch.no_grad",
        "torch.inference_mode",
        "torch.enable_grad",
        "torch.autograd.no_grad",
        "torch.cuda.amp.autocast",
    }
)
_LOSS = re.compile(r"(^|[._])(\w*loss\w*|acc|accuracy|correct)$")


@rule.module
def check(module: Module, _: Project) -> Hits:
    if not module.imports("torch"):
        return
    for node, problem in _methods(module):
        text = module.text(node)
        yield rule.hit(
            module.span(node),
            f"`{text}` is not called: {problem}.",
            remedy=f"Write {text}().",
            fix=Fix("Call it", (replace_node(module, node, f"{text}()"),), safe=True),
        )


def _methods(module: Module) -> Iterator[tuple[ast.expr, str]]:
    """Methods that stand where only their results make sense, and what happens."""
    for block in module.nodes(ast.With):
        for item in block.items:
            if isinstance(item.context_expr, (ast.Name, ast.Attribute)) and (
                module.qualified(item.context_expr) in _CONTEXTS
            ):
                yield item.context_expr, "a function is not a context manager (AttributeError or TypeError)"
    for node in module.nodes(ast.Attribute):
        if attribute_stores(module, node.attr):
            continue  # no method
        parent = module.parent(node)
        match node.attr, parent:
            case "parameters", ast.Call(args=[first, *_]) if first is node:
                if (module.qualified(parent.func) or "").startswith("torch.optim."):
                    yield node, "the optimizer needs an iterable of parameters (TypeError)"
            case "state_dict", ast.Call(args=[first, *_]) if first is node:
                if module.qualified(parent.func) == "torch.save":
                    yield node, "the method is saved instead of the weights"
                elif callee_name(parent) == "load_state_dict":
                    yield node, "a method is not a state dict (TypeError)"
            case "state_dict", ast.Dict():
                if _is_saved(module, parent):
                    yield node, "the method is saved instead of the weights"
            case "item", ast.AugAssign(value=value) | ast.BinOp(left=value) if value is node:
                if _LOSS.search(module.text(node.value)):
                    yield node, "a method cannot be added to a number (TypeError)"
            case "item", ast.BinOp() | ast.FormattedValue():
                if _LOSS.search(module.text(node.value)):
                    yield node, "the method is used instead of the number"
            case _:
                pass


def _is_saved(module: Module, mapping: ast.Dict) -> bool:
    """Whether a mapping goes to `torch.save`."""
    parent = module.parent(mapping)
    return isinstance(parent, ast.Call) and module.qualified(parent.func) == "torch.save"
