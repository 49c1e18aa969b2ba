"""DistributedDataParallel waits for the gradient of every parameter that it was given, also of one that is never used.

A layer that `forward` does not use, or a parameter that is frozen after the model was wrapped, gets no gradient: the
second step fails with "Expected to have finished reduction in the prior iteration before starting a new one", or the
ranks wait for each other until NCCL's time limit, with all GPUs billed. Delete the layer, freeze before wrapping, or pass
`find_unused_parameters=True`, which costs some time in each step. On one GPU, without DDP, the same model trains.

Bad: a layer that nothing uses

    import torch
    from torch.nn.parallel import DistributedDataParallel

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.body = torch.nn.Linear(8, 8)
            self.auxiliary = torch.nn.Linear(8, 2)

        def forward(self, x):
            return self.body(x)

    model = DistributedDataParallel(Net().cuda())  # <-
    model(torch.ones(1, 8)).sum().backward()

Bad: frozen too late

    import torch
    from torch.nn.parallel import DistributedDataParallel as DDP
    import torchvision

    model = DDP(torchvision.models.resnet18().cuda())
    for parameter in model.module.layer1.parameters():
        parameter.requires_grad = False  # <-
    model(torch.ones(1, 3, 8, 8)).sum().backward()

Good:

    import os
    import torch
    from torch.nn.parallel import DistributedDataParallel as DDP
    import torchvision

    torch.distributed.init_process_group("nccl")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    model = torchvision.models.resnet18()
    for parameter in model.layer1.parameters():
        parameter.requires_grad = False
    model = DDP(model.cuda())
    model(torch.ones(1, 3, 8, 8)).sum().backward()

Quiet: DDP looks for them

    import torch
    from torch.nn.parallel import DistributedDataParallel

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.body = torch.nn.Linear(8, 8)
            self.auxiliary = torch.nn.Linear(8, 2)

        def forward(self, x):
            return self.body(x)

    model = DistributedDataParallel(Net().cuda(), find_unused_parameters=True)
    model(torch.ones(1, 8)).sum().backward()

Quiet: used through all children

    import torch
    from torch.nn.parallel import DistributedDataParallel

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.first = torch.nn.Linear(8, 8)
            self.second = torch.nn.Linear(8, 2)

        def forward(self, x):
            for layer in self.children():
                x = layer(x)
            return x

    model = DistributedDataParallel(Net().cuda())
    model(torch.ones(1, 8)).sum().backward()
"""

import ast
import re
from collections.abc import Iterator

from gpuproof.findings import Severity
from gpuproof.linter.analysis.call import Call, calls_named, calls_to
from gpuproof.linter.analysis.flow.call_targets import find_definition
from gpuproof.linter.analysis.flow.creations import creations
from gpuproof.linter.analysis.local_imports import local_modules
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.usage import uses
from gpuproof.linter.knowledge.frameworks.torch import is_test
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule

rule = Rule("DS126", "ddp-unused-parameters", Severity.ERROR, needs=("DistributedDataParallel",))

_WITH_PARAMETERS = re.compile(
    r"^torch\.nn\.(Linear|LazyLinear|Bilinear|Conv\w*|Embedding\w*|LSTM\w*|GRU\w*|RNN\w*|(Batch|Layer|Group)Norm\w*|MultiheadAttention"
    r"|Transformer\w*|Parameter|PReLU)$"
)
_ANY_CHILD = re.compile(
    r"(^|\.)(children|named_children|modules|named_modules|parameters|_modules|_parameters|getattr|__dict__|get_submodule)$"
)


@rule.module
def check(module: Module, _: Project) -> Hits:
    if is_test(module):
        return
    wraps = calls_to(
        module,
        "torch.nn.parallel.DistributedDataParallel",
        "torch.nn.parallel.distributed.DistributedDataParallel",
    )
    for wrap in wraps:
        if wrap.is_open or any(
            not wrap.argument(name).is_absent and wrap.argument(name).value is not False
            for name in ("find_unused_parameters", "static_graph")
        ):
            continue
        for name, owner in _unused_layers(module, wrap):
            yield rule.hit(
                wrap.span,
                f"`{owner}.{name}` is never used, but DDP waits for its gradient: the second step fails or hangs.",
                remedy=f"Delete self.{name}, use it in forward, or pass find_unused_parameters=True.",
            )
        for statement in _frozen_later(module, wrap):
            yield rule.hit(
                module.span(statement),
                "Parameters are frozen after the model was wrapped in DDP, which still waits for their gradients: the second "
                "step fails or hangs.",
                remedy="Freeze them before DistributedDataParallel(model).",
            )


def _unused_layers(module: Module, wrap: Call) -> Iterator[tuple[str, str]]:
    """The layers with parameters of the wrapped model's class that no code reads, and the name of the class."""
    made = creations(module, wrap.expression("module", 0))
    if len(made) != 1:
        return
    found = find_definition(made[0].module, made[0].node.func)
    if found is None or not isinstance(found.node, ast.ClassDef):
        return
    home, owner = found.module, found.node
    if [home.qualified(base) for base in owner.bases] != ["torch.nn.Module"] or uses(
        home, _ANY_CHILD, "call", "attribute", within=owner
    ):
        return
    modules = {*local_modules(module), *local_modules(home)}
    read = {
        node.attr
        for other in modules
        for node in other.nodes(ast.Attribute)
        if isinstance(node.ctx, ast.Load)
    }
    texts = {
        node.value for other in modules for node in other.nodes(ast.Constant) if isinstance(node.value, str)
    }
    for node in home.nodes(ast.Assign):
        target = node.targets[0]
        if not isinstance(target, ast.Attribute) or not home.tree.is_within(node, owner):
            continue
        is_own = isinstance(target.value, ast.Name) and target.value.id == "self"
        in_branch = home.enclosing(node, ast.If) is not None
        if not is_own or in_branch or target.attr in read or target.attr in texts:
            continue
        if isinstance(node.value, ast.Call) and _WITH_PARAMETERS.match(home.qualified(node.value.func) or ""):
            yield target.attr, owner.name


def _frozen_later(module: Module, wrap: Call) -> Iterator[ast.AST]:
    """Statements after the wrapping, in the same function, that freeze parameters of the wrapped model."""
    statement = module.tree.statement(wrap.node)
    names = {
        module.text(target)
        for target in (statement.targets if isinstance(statement, ast.Assign) else ())
        if isinstance(target, (ast.Name, ast.Attribute))
    }
    function = module.function_of(wrap.node)
    if module.loops_around(wrap.node) or module.enclosing(wrap.node, ast.If) is not None:
        return
    for node in module.nodes(ast.Assign):
        target = node.targets[0]
        if not isinstance(target, ast.Attribute) or target.attr != "requires_grad":
            continue
        if (
            not (isinstance(node.value, ast.Constant) and node.value.value is False)
            or module.function_of(node) is not function
        ):
            continue
        loop = module.enclosing(node, ast.For)
        if loop is not None and node.lineno > wrap.node.lineno and _is_of(module, loop.iter, names):
            yield node
    for call in calls_named(module, "requires_grad_"):
        is_off = call.argument("requires_grad", 0).flag is False
        later = call.node.lineno > wrap.node.lineno and module.function_of(call.node) is function
        if is_off and later and call.receiver is not None and _is_of(module, call.receiver, names):
            yield call.node


def _is_of(module: Module, node: ast.expr, names: set[str]) -> bool:
    """Whether an expression is about one of these variables: `model.module.layer1.parameters()`."""
    return any(
        isinstance(child, (ast.Name, ast.Attribute)) and module.text(child) in names
        for child in ast.walk(node)
    )
