"""Layers in a Python list or dict are not part of the module: they are neither trained, nor moved, nor saved.

`nn.Module` registers layers that are attributes, and those in `nn.ModuleList`, `nn.ModuleDict` and `nn.Sequential`. In a plain list,
`model.parameters()` does not contain them, `model.to(device)` leaves them on the CPU (the forward pass fails on a GPU), and
`state_dict()` lacks their weights.

Bad:

    from torch import nn

    class Net(nn.Module):
        def __init__(self, depth):
            super().__init__()
            self.layers = [nn.Linear(8, 8) for _ in range(depth)]  # <-
            self.heads = []  # <-
            for _ in range(depth):
                self.heads.append(nn.Linear(8, 2))

        def forward(self, x):
            for layer in self.layers:
                x = layer(x)
            return [head(x) for head in self.heads]

Good:

    from torch import nn

    class Net(nn.Module):
        def __init__(self, depth):
            super().__init__()
            self.layers = nn.ModuleList([nn.Linear(8, 8) for _ in range(depth)])

        def forward(self, x):
            for layer in self.layers:
                x = layer(x)
            return x

Quiet: registered as well, or not layers with weights

    from torch import nn

    class Net(nn.Module):
        def __init__(self, depth):
            super().__init__()
            self.parts = [nn.Linear(8, 8) for _ in range(depth)]
            self.net = nn.Sequential(*self.parts)
            self.names = ["a", "b"]
            self.activations = [nn.ReLU(), nn.GELU()]
            blocks = []
            blocks.append(nn.Linear(8, 8))
            self.blocks = nn.ModuleList(blocks)
"""

import ast
import re

from gpuproof.findings import Severity
from gpuproof.linter.analysis.call import calls_named
from gpuproof.linter.analysis.flow.call_targets import find_definition, methods
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule

rule = Rule("PT132", "layers-in-plain-list", Severity.ERROR, needs=("Module",))

_WEIGHTED = re.compile(
    r"^torch\.nn\.(Lazy)?(Linear|Bilinear|Conv\w+|BatchNorm\w+|LayerNorm|GroupNorm|Embedding\w*|LSTM|GRU|RNN|\w*Cell|MultiheadAttention"
    r"|Transformer\w*)$"
)
_REGISTERS = re.compile(
    r"^(ModuleList|ModuleDict|Sequential|add_module|register_module|setattr|ParameterList|extend)$"
)


@rule.module
def check(module: Module, _: Project) -> Hits:
    if not module.imports("torch"):
        return
    for owner in module.classes.values():
        if not any(base == "torch.nn.Module" for base in module.bases(owner)):
            continue
        start = next((method for method in methods(owner) if method.name == "__init__"), None)
        if start is None:
            continue
        for statement in start.body:
            match statement:
                case ast.Assign(targets=[ast.Attribute(value=ast.Name(id="self")) as target], value=value):
                    pass
                case _:
                    continue
            if _holds_layers(module, value, target, owner) and not _is_registered(module, target, owner):
                text = module.text(target)
                yield rule.hit(
                    module.span(statement),
                    f"The layers in `{text}` are not part of `{owner.name}`: they are not in its parameters(), and to(device) leaves "
                    "them on the CPU.",
                    remedy="Use nn.ModuleList (or nn.ModuleDict).",
                )


def _holds_layers(module: Module, value: ast.expr, target: ast.Attribute, owner: ast.ClassDef) -> bool:
    """Whether a value is a list or dict of layers with weights, certainly."""
    match value:
        case ast.List(elts=[]) | ast.Dict(keys=[]):
            text = module.text(target)
            added = [
                call
                for call in calls_named(module, "append")
                if call.receiver is not None
                and module.text(call.receiver) == text
                and module.tree.is_within(call.node, owner)
            ]
            return bool(added) and all(
                len(call.node.args) == 1 and _is_layer(module, call.node.args[0]) for call in added
            )
        case ast.List(elts=items):
            return any(_is_layer(module, item) for item in items)
        case ast.Dict(values=items):
            return any(_is_layer(module, item) for item in items)
        case ast.ListComp(elt=item):
            return _is_layer(module, item)
        case _:
            return False


def _is_layer(module: Module, node: ast.expr) -> bool:
    if not isinstance(node, ast.Call):
        return False
    name = module.qualified(node.func) or ""
    if _WEIGHTED.match(name):
        return True
    if name == "torch.nn.Sequential":
        return any(_is_layer(module, item) for item in node.args)
    found = find_definition(module, node.func)
    return (
        found is not None
        and isinstance(found.node, ast.ClassDef)
        and any(base == "torch.nn.Module" for base in found.module.bases(found.node))
    )


def _is_registered(module: Module, target: ast.Attribute, owner: ast.ClassDef) -> bool:
    """Whether the class, or code outside of it, registers or trains the layers in another way."""
    for node in module.nodes(ast.Attribute):
        if node.attr != target.attr or not isinstance(node.ctx, ast.Load):
            continue
        if not module.tree.is_within(node, owner):
            return True
        around = module.parent(node)
        for _ in range(4):
            if isinstance(around, ast.Call) and isinstance(around.func, (ast.Name, ast.Attribute)):
                name = around.func.attr if isinstance(around.func, ast.Attribute) else around.func.id
                if _REGISTERS.match(name) and around.func is not node:
                    return True
            around = module.parent(around) if around is not None else None
    return any(
        module.tree.is_within(call.node, owner)
        for call in calls_named(module, "add_module", "register_module", "setattr")
    )
