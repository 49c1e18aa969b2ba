"""The model is on the GPU but its input is not, or vice versa: the first step fails, and only on a GPU instance.

The error is "Input type (torch.FloatTensor) and weight type (torch.cuda.FloatTensor) should be the same", or
"Expected all tensors to be on the same device". On a laptop both are on the CPU and the script runs, so the error
only occurs on a running instance that is billed. The rule follows a model and its batches to the call that uses both,
and the model's output and the labels to their loss.

Bad:

    import torch
    from torch.utils.data import DataLoader

    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = torch.nn.Sequential(torch.nn.Linear(4, 2)).to(device)
    for x, y in DataLoader([]):
        scores = model(x)  # <-

Bad: the labels stay behind

    import torch
    from torch.utils.data import DataLoader

    device = torch.device("cuda")
    model = torch.nn.Sequential(torch.nn.Linear(4, 2)).to(device)
    criterion = torch.nn.CrossEntropyLoss()
    for images, labels in DataLoader([]):
        images = images.to(device)
        loss = criterion(model(images), labels)  # <-

Bad: the batch is moved, the model is not

    import torch
    from torch.utils.data import DataLoader

    device = torch.device("cuda")
    model = torch.nn.Sequential(torch.nn.Linear(4, 2))
    for x, y in DataLoader([]):
        x, y = x.to(device), y.to(device)
        scores = model(x)  # <-

Bad: a handler moves the model, and nothing moves its input

    import json
    import torch

    DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")

    def model_fn(model_dir):
        model = torch.nn.Linear(4, 2)
        model.load_state_dict(torch.load(f"{model_dir}/model.pt", map_location="cpu"))
        model.to(DEVICE).eval()
        return model

    def input_fn(body, content_type):
        return torch.tensor(json.loads(body))

    def predict_fn(data, model):
        with torch.inference_mode():
            return model(data)  # <-

Bad: a handler moves the input, and nothing moves the model

    import json
    import torch

    DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")

    def model_fn(model_dir):
        model = torch.nn.Linear(4, 2)
        model.load_state_dict(torch.load(f"{model_dir}/model.pt", map_location="cpu"))
        model.eval()
        return model

    def predict_fn(data, model):
        with torch.inference_mode():
            return model(data.to(DEVICE))  # <-

Bad: a class moves the batches, and nothing the model

    import torch

    class Batches:
        def __init__(self, data, device):
            self.data = data.to(device)

        def __iter__(self):
            yield from self.data.split(64)

    batches = Batches(torch.ones(256, 8), torch.device("cuda"))
    model = torch.nn.Linear(8, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x in batches:
        optimizer.zero_grad()
        model(x).mean().backward()  # <-
        optimizer.step()

Bad: the model creates a tensor on the CPU

    import torch

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.body = torch.nn.Linear(8, 8)
            self.positions = torch.nn.Embedding(64, 8)

        def forward(self, x):
            places = torch.arange(x.size(1))
            return self.body(x) + self.positions(places)  # <-

    model = Net().to("cuda")

Quiet: it is created where the input is, or is a buffer

    import torch

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.positions = torch.nn.Embedding(64, 8)
            self.register_buffer("scale", torch.ones(8))

        def forward(self, x):
            return x * self.scale + self.positions(torch.arange(x.size(1), device=x.device)) * torch.tensor(0.5)

    model = Net().to("cuda")

Quiet: the toolkit's own input_fn moves its tensor

    import torch

    DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")

    def model_fn(model_dir):
        model = torch.nn.Linear(4, 2)
        model.load_state_dict(torch.load(f"{model_dir}/model.pt", map_location="cpu"))
        return model.to(DEVICE).eval()

    def predict_fn(data, model):
        with torch.inference_mode():
            return model(data)

Good:

    import torch
    from torch.utils.data import DataLoader

    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = torch.nn.Sequential(torch.nn.Linear(4, 2)).to(device)
    for x, y in DataLoader([]):
        scores = model(x.to(device))

Quiet: forward moves its input

    import torch
    from torch.utils.data import DataLoader

    class Net(torch.nn.Module):
        def forward(self, x):
            return x.to("cuda") * 2

    model = Net().to("cuda")
    for x, y in DataLoader([]):
        scores = model(x)

Quiet: the loader's own function moves the batch

    import torch
    from torch.utils.data import DataLoader

    def on_gpu(items):
        return torch.stack(items).cuda(), None

    model = torch.nn.Sequential(torch.nn.Linear(4, 2)).cuda()
    for x, y in DataLoader([], collate_fn=on_gpu):
        scores = model(x)

Quiet: a loss has no weights, neither PyTorch's nor one's own

    import torch

    class FocalLoss(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.entropy = torch.nn.CrossEntropyLoss(reduction="none")

        def forward(self, scores, labels):
            entropy = self.entropy(scores, labels)
            return ((1 - torch.exp(-entropy)) ** 2 * entropy).mean()

    scores, labels = torch.ones(2, 2).cuda(), torch.ones(2).long().cuda()
    loss = torch.nn.CrossEntropyLoss()(scores, labels)
    criterion = FocalLoss()
    loss = criterion(scores, labels)

Quiet: a part of a model, which moves with the whole

    import torch
    from megatron.model.module import MegatronModule

    class Backbone(MegatronModule):
        def __init__(self):
            super().__init__()
            self.embeddings = torch.nn.Embedding(16, 8)
            self.position_ids = torch.arange(16).cuda()

        def forward(self, x):
            return x + self.embeddings(self.position_ids)
"""

import ast
import re

from gpuproof.findings import Severity
from gpuproof.linter.analysis.call import Call, all_calls, calls_named, calls_within, origin_call
from gpuproof.linter.analysis.connections import takes_part
from gpuproof.linter.analysis.flow.creations import creations
from gpuproof.linter.analysis.flow.sources import sources
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.types import UNKNOWN_TYPE, InferredType, TypeKind, type_of
from gpuproof.linter.analysis.usage import moves_name, reached, uses
from gpuproof.linter.knowledge.devices.default_device import program_moves_to_gpu
from gpuproof.linter.knowledge.devices.forward_tensors import cpu_tensors
from gpuproof.linter.knowledge.devices.left_behind import is_trained_on_cpu
from gpuproof.linter.knowledge.frameworks.torch import (
    imports_device_manager,
    is_collated,
    is_inside_with,
    is_test,
    moves_to_gpu,
    program_may_use_cuda,
    runs_without_gpu,
)
from gpuproof.linter.knowledge.training.losses import loss_calls, output_device, weighted_losses
from gpuproof.linter.knowledge.training.models import holds_no_tensors, inputs_of, may_be_model
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hit, Hits, Rule

rule = Rule("PT102", "partial-device-move", Severity.ERROR, needs=("torch",))

_MOVES = re.compile(r"(^|\.)(to|cuda|pin_memory|DataLoader|pipeline|send_to_device)$")
_DEVICE = re.compile(r"^(device|device_map)$")
_WRAPPER = re.compile(r"DataParallel$")


@rule.module
def check(module: Module, project: Project) -> Hits:
    if (
        not module.imports("torch")
        or is_test(module)
        or imports_device_manager(module)
        or runs_without_gpu(module, project)
    ):
        return
    if not program_may_use_cuda(module) or not program_moves_to_gpu(module):
        return
    for call in all_calls(module):
        if (found := _mismatch(module, call)) is not None:
            yield found
    for owner, node in cpu_tensors(module):
        yield rule.hit(
            module.span(node),
            f"`{module.excerpt(node, 50)}` is created on the CPU and `{owner.name}` is on the GPU: RuntimeError on a GPU instance.",
            remedy="Create it on the device of the input (device=x.device), or register it as a buffer.",
        )
    for call, weight in weighted_losses(module):
        if output_device(module, call.node.args[0]) == "gpu" and not _is_placed_around(module, call.node):
            yield rule.hit(
                weight.module.span(weight.node),
                f"The class weights stay on the CPU, and `{module.text(call.node.args[0])}` is on the GPU: RuntimeError.",
                remedy="Move the loss with criterion.to(device), or its weights.",
            )
    for call in loss_calls(module):
        output, labels = call.node.args[0], call.node.args[1]
        devices = (output_device(module, output), type_of(module, labels))
        if devices[1].kind is not TypeKind.TENSOR or (devices[0], devices[1].device) != ("gpu", "cpu"):
            continue
        if _in_place(module, labels) or _is_placed_around(module, call.node):
            continue
        yield rule.hit(
            module.span(labels),
            f"`{module.text(output)}` is on the GPU but `{module.text(labels)}` is not: RuntimeError on a GPU instance.",
            remedy=f"Pass {module.text(labels)}.to(device).",
        )


def _mismatch(module: Module, call: Call) -> Hit | None:
    """The finding about a call of a model whose input is not where the model is."""
    function = call.node.func
    if call.name is not None or not may_be_model(module, function):
        return None
    inputs = inputs_of(call)
    model = type_of(module, function) if inputs else UNKNOWN_TYPE
    if model.kind is not TypeKind.MODULE or model.device is None:
        return None
    given = next((item for item in inputs if _is_elsewhere(module, call, item, model)), None)
    if given is None:
        is_known = any(type_of(module, item).device == "cpu" for item in inputs)
        return _left_behind(module, call) if model.device == "cpu" and not is_known else None
    batch = _input_type(module, call, given)
    if _has_no_weights(module, call):
        return None
    made = module.origin(function) or call.node
    if batch.device == "cpu" and _in_place(module, given):
        return None
    if is_inside_with(module, made, ("device",)) or _is_wrapped(module, function):
        return None
    return None if _is_placed_around(module, call.node) else _hit(module, call, given, model)


def _left_behind(module: Module, call: Call) -> Hit | None:
    """The finding about a model that is trained and never moved, in a program that moves its data or another model."""
    if not is_trained_on_cpu(module, call) or _is_placed_around(module, call.node):
        return None
    name = module.text(call.node.func)
    return rule.hit(
        call.span,
        f"`{name}` is trained on the CPU: other things are moved to the GPU, and the model never is.",
        remedy=f"Call {name}.to(device) before the optimizer is created.",
    )


def _is_elsewhere(module: Module, call: Call, given: ast.expr, model: InferredType) -> bool:
    """Whether an input certainly is not where the model is."""
    found = _input_type(module, call, given)
    return found.kind in (TypeKind.TENSOR, TypeKind.BATCH) and found.device not in (None, model.device)


def _is_placed_around(module: Module, node: ast.Call) -> bool:
    """Whether a `with` around a call sets the device, or the loader's or the model's own code moves what they get."""
    return (
        is_inside_with(module, node, ("device",)) or is_collated(module, node) or _moves_inside(module, node)
    )


def _input_type(module: Module, call: Call, given: ast.expr) -> InferredType:
    """The type of a model's input: whatever is moved to a device is a tensor, and so is what a handler's `input_fn` returns."""
    found = type_of(module, given)
    if found.kind is not None:
        return found
    moved = origin_call(module, given)
    if moved is not None and moved.method in ("to", "cuda") and moves_to_gpu(moved):
        return InferredType(TypeKind.TENSOR, "gpu")
    function = module.function_of(call.node)
    if not isinstance(given, ast.Name) or function is None or function.name != "predict_fn":
        return found
    own = module.functions.get("input_fn")
    is_data = bool(function.args.args) and function.args.args[0].arg == given.id
    if own is None or not is_data or any(item.kind != "parameter" for item in module.reaching(given)):
        return found
    reads = reached(module, own, function)
    if uses(module, _MOVES, "call", within=reads) or uses(module, _DEVICE, "keyword", within=reads):
        return found
    return InferredType(TypeKind.TENSOR, "cpu")


def _hit(module: Module, call: Call, given: ast.expr, model: InferredType) -> Hit:
    name, batch = module.text(call.node.func), module.text(given)
    on, off = (name, batch) if model.device == "gpu" else (batch, name)
    return rule.hit(
        call.span,
        f"`{on}` is moved to the GPU but `{off}` is not: RuntimeError on a GPU instance.",
        remedy=f"Pass {batch}.to(device) to {name}."
        if off == batch
        else f"Call {name}.to(device) once, before the loop.",
    )


def _moves_inside(module: Module, node: ast.Call) -> bool:
    """Whether a model or dataset of a call moves tensors in its own methods, such as `forward`."""
    owners: list[ast.ClassDef] = []
    for call in calls_named(module, "to", "cuda"):
        owner = module.enclosing(call.node, ast.ClassDef)
        if call.receiver is not None and owner is not None and owner not in owners:
            owners.append(owner)
    return any(
        takes_part(module, owner, node)
        for owner in owners
        if any(base.startswith("torch.") for base in module.bases(owner))
    )


def _is_wrapped(module: Module, node: ast.expr) -> bool:
    """Whether the model is in `DataParallel`, which moves its input."""
    made = sources(module, node).found
    values = [source.node for source in made if source.module.unit is module.unit]
    if isinstance(node, ast.Name):
        values += [binding.value for binding in module.reaching(node) if binding.value is not None]
    return uses(module, _WRAPPER, "call", within=values) or any(
        uses(source.module, _WRAPPER, "call", within=source.node) for source in made
    )


def _has_no_weights(module: Module, call: Call) -> bool:
    made = creations(module, call.node.func)
    return bool(made) and all(map(holds_no_tensors, made))


def _in_place(module: Module, node: ast.expr) -> bool:
    """Whether `x.data = x.data.cuda()`, `x = x.cuda()` in a branch, or a loop over its items may have moved it."""
    if isinstance(node, ast.Call) and len(node.args) == 1:
        node = node.args[0]  # `list(targets)`
    if not isinstance(node, ast.Name):
        return False
    calls = calls_named(module, "cuda", "to")
    loops = [use for use in module.tree.uses_of(node.id) if isinstance(module.parent(use), ast.For)]
    if any(calls_within(calls, loop) for loop in map(module.parent, loops) if loop is not None):
        return True
    moves = [
        call
        for call in calls
        if isinstance(module.tree.statement(call.node), (ast.Assign, ast.Expr))
        and _is_stored_in(module.tree.statement(call.node), node.id)
    ]
    return moves_name(module, node, moves)


def _is_stored_in(statement: ast.stmt | None, name: str) -> bool:
    """Whether a statement assigns a name or something of it; one that keeps nothing may be a module's move."""
    if not isinstance(statement, ast.Assign):
        return True
    return any(
        isinstance(part, ast.Name) and part.id == name
        for target in statement.targets
        for part in ast.walk(target)
    )
