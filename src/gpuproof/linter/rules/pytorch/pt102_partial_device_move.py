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

Bad: DistributedDataParallel gets a GPU and a model on the CPU

    import os
    import torch
    from torch.nn.parallel import DistributedDataParallel
    from torchvision.models import resnet50

    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    model = DistributedDataParallel(resnet50(), device_ids=[local_rank])  # <-
    model(torch.ones(1, 3, 224, 224).cuda())

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

Quiet: a loss has no weights

    import torch

    criterion = torch.nn.CrossEntropyLoss()
    loss = criterion(torch.ones(2, 2).cuda(), torch.ones(2).long().cuda())
"""

import ast
import re

from gpuproof.findings import Severity
from gpuproof.linter.analysis.call import Call, all_calls, calls_named, origin_call
from gpuproof.linter.analysis.connections import takes_part
from gpuproof.linter.analysis.flow.creations import creations
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.types import InferredType, TypeKind, type_of
from gpuproof.linter.analysis.usage import moves_name, reached, uses
from gpuproof.linter.knowledge.torch import (
    imports_device_manager,
    is_collated,
    is_inside_with,
    is_test,
    moves_to_gpu,
    runs_without_gpu,
)
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hit, Hits, Rule

rule = Rule("PT102", "partial-device-move", Severity.ERROR, needs=("cuda",))

_MOVES_INPUT = re.compile(r"(^|\.)(set_default_device|set_default_tensor_type)$")
_LOSS_FUNCTION = re.compile(
    r"^torch\.nn\.functional\.(\w+_loss|cross_entropy|binary_cross_entropy\w*|kl_div)$"
)
_LOSS_CLASS = re.compile(r"^torch\.nn\.\w*Loss$")
_SHAPES = frozenset(
    {"squeeze", "unsqueeze", "view", "reshape", "flatten", "float", "sigmoid", "softmax", "log_softmax"}
)
_MAX_DEPTH = 8
_MOVES = re.compile(r"(^|\.)(to|cuda|pin_memory|DataLoader|pipeline|send_to_device)$")
_DEVICE = re.compile(r"^(device|device_map)$")
_WRAPPER = re.compile(r"DataParallel$")
_WEIGHTLESS = re.compile(
    r"torch\.nn\.(\w*Loss|\w*ReLU\w*|Softmax\w*|Sigmoid|Tanh|Flatten|Upsample|\w*Pool\w*|Dropout\w*|\w+Similarity)$"
)


@rule.module
def check(module: Module, project: Project) -> Hits:
    if (
        not module.imports("torch")
        or is_test(module)
        or imports_device_manager(module)
        or runs_without_gpu(module, project)
    ):
        return
    yield from _wrapped_on_the_cpu(module)
    defaults = [call for call in all_calls(module) if _MOVES_INPUT.search(call.name or call.method)]
    if not all(map(_is_of_cpu, defaults)):
        return
    moves = [candidate for candidate in calls_named(module, "to", "cuda") if moves_to_gpu(candidate)]
    for call in all_calls(module):
        if not moves or not isinstance(call.node.func, ast.Name) or not call.node.args:
            continue
        model, batch = type_of(module, call.node.func), _input_type(module, call)
        if (
            model.kind is not TypeKind.MODULE
            or batch.kind is not TypeKind.TENSOR
            or _has_no_weights(module, call)
        ):
            continue
        if (model.device, batch.device) not in (("gpu", "cpu"), ("cpu", "gpu")):
            continue
        made = module.origin(call.node.func) or call.node
        stays = batch.device == "cpu" and _in_place(module, call.node.args[0])
        if stays or any(is_inside_with(module, item, ("device",)) for item in (call.node, made)):
            continue
        if (
            _is_wrapped(module, call.node.func)
            or is_collated(module, call.node)
            or _moves_inside(module, call.node)
        ):
            continue
        yield _hit(module, call, model)
    for call in _losses(module) if moves else ():
        output, labels = call.node.args[0], call.node.args[1]
        devices = (_output_device(module, output), type_of(module, labels))
        if devices[1].kind is not TypeKind.TENSOR or (devices[0], devices[1].device) != ("gpu", "cpu"):
            continue
        if (
            _in_place(module, labels)
            or is_inside_with(module, call.node, ("device",))
            or is_collated(module, call.node)
            or _moves_inside(module, call.node)
        ):
            continue
        yield rule.hit(
            module.span(labels),
            f"`{module.text(output)}` is on the GPU but `{module.text(labels)}` is not: RuntimeError on a GPU instance.",
            remedy=f"Pass {module.text(labels)}.to(device).",
        )


def _is_of_cpu(default: Call) -> bool:
    """Whether a default device or type is that of the CPU: `"cpu"`, `torch.FloatTensor`."""
    given = default.expression("device", 0)
    if given is None:
        return False
    name = default.module.qualified(given) or ""
    if name.startswith("torch.") and name.endswith("Tensor"):
        return ".cuda." not in name
    made = origin_call(default.module, given)
    text = (
        made.argument("type", 0)
        if made is not None and made.name == "torch.device"
        else default.argument("device", 0)
    )
    return text.is_known and str(text.text).startswith(("cpu", "torch.FloatTensor", "torch.DoubleTensor"))


def _input_type(module: Module, call: Call) -> InferredType:
    """The type of a model's input: whatever is moved to a device is a tensor, and so is what a handler's `input_fn` returns."""
    given = call.node.args[0]
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


def _losses(module: Module) -> list[Call]:
    """The calls of losses of PyTorch with an output and its labels."""
    found: list[Call] = []
    for call in all_calls(module):
        if len(call.node.args) < 2:
            continue
        if call.name is not None:
            if _LOSS_FUNCTION.match(call.name):
                found.append(call)
            continue
        made = (
            creations(module, call.node.func)
            if isinstance(call.node.func, (ast.Name, ast.Attribute, ast.Call))
            else []
        )
        if made and all(_LOSS_CLASS.match(created.name or "") for created in made):
            found.append(call)
    return found


def _output_device(module: Module, node: ast.expr, depth: int = 0) -> str | None:
    """The device of what a model returns, through names and methods of the tensor; None if it is unknown."""
    if depth > _MAX_DEPTH:
        return None
    if isinstance(node, ast.Name):
        bindings = module.reaching(node)
        devices = {
            _output_device(module, binding.value, depth + 1)
            if binding.kind == "assign" and binding.value
            else None
            for binding in bindings
        }
        return devices.pop() if len(devices) == 1 else None
    if not isinstance(node, ast.Call):
        return None
    if isinstance(node.func, ast.Name):
        model = type_of(module, node.func)
        is_moved = model.kind is TypeKind.MODULE and model.device == "gpu"
        # With both on the GPU; the other cases are reported at this call.
        return "gpu" if is_moved and node.args and type_of(module, node.args[0]).device == "gpu" else None
    if isinstance(node.func, ast.Attribute) and node.func.attr in _SHAPES:
        return _output_device(module, node.func.value, depth + 1)
    return None


def _wrapped_on_the_cpu(module: Module) -> Hits:
    """Models that are given to DistributedDataParallel with GPUs, and are certainly not there."""
    for call in calls_named(module, "DistributedDataParallel", "DDP"):
        model = call.expression("module", 0)
        devices = module.origin(call.expression("device_ids", 1))
        if not (call.name or "").startswith("torch.") or not isinstance(devices, (ast.List, ast.Tuple)):
            continue
        inferred = type_of(module, model)
        if not devices.elts or inferred.kind is not TypeKind.MODULE or inferred.device != "cpu":
            continue
        name = module.text(model) if model is not None else "model"
        yield rule.hit(
            call.span,
            f"`{name}` is on the CPU, and DistributedDataParallel with device_ids needs it on that GPU: ValueError.",
            remedy=f"Pass {name}.to(local_rank).",
        )


def _hit(module: Module, call: Call, model: InferredType) -> Hit:
    name, batch = module.text(call.node.func), module.text(call.node.args[0])
    on, off = (name, batch) if model.device == "gpu" else (batch, name)
    return rule.hit(
        call.span,
        f"`{on}` is moved to the GPU but `{off}` is not: RuntimeError on a GPU instance.",
        remedy=f"Write {name}({batch}.to(device))."
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
    if not isinstance(node, ast.Name):
        return False
    values = [binding.value for binding in module.reaching(node) if binding.value is not None]
    return uses(module, _WRAPPER, "call", within=values)


def _has_no_weights(module: Module, call: Call) -> bool:
    origin = module.origin(call.node.func)
    name = module.qualified(origin.func) if isinstance(origin, ast.Call) else None
    return name is not None and _WEIGHTLESS.match(name) is not None


def _in_place(module: Module, node: ast.expr) -> bool:
    """Whether `x.data = x.data.cuda()` or `x = x.cuda()` in a branch may have moved it."""
    return isinstance(node, ast.Name) and moves_name(module, node, calls_named(module, "cuda", "to"))
