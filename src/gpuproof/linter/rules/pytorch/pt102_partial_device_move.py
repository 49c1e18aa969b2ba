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
from gpuproof.linter.analysis.flow.sources import sources
from gpuproof.linter.analysis.local_imports import program_modules
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.types import UNKNOWN_TYPE, InferredType, TypeKind, type_of
from gpuproof.linter.analysis.usage import moves_name, reached, uses
from gpuproof.linter.knowledge.losses import loss_calls, output_device
from gpuproof.linter.knowledge.models import may_be_model
from gpuproof.linter.knowledge.torch import (
    imports_device_manager,
    is_collated,
    is_inside_with,
    is_test,
    moves_to_gpu,
    program_may_use_cuda,
    runs_without_gpu,
)
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hit, Hits, Rule

rule = Rule("PT102", "partial-device-move", Severity.ERROR, needs=("torch",))

_MOVES_INPUT = re.compile(r"(^|\.)(set_default_device|set_default_tensor_type)$")
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
    if not program_may_use_cuda(module) or not _chooses_gpu(module):
        return
    for call in all_calls(module):
        if (found := _mismatch(module, call)) is not None:
            yield found
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
    given = _input(call)
    model = type_of(module, function) if given is not None else UNKNOWN_TYPE
    if given is None or model.kind is not TypeKind.MODULE or model.device is None:
        return None
    batch = _input_type(module, call, given)
    if batch.kind not in (TypeKind.TENSOR, TypeKind.BATCH) or batch.device in (None, model.device):
        return None
    if _has_no_weights(module, call):
        return None
    made = module.origin(function) or call.node
    if batch.device == "cpu" and _in_place(module, given):
        return None
    if is_inside_with(module, made, ("device",)) or _is_wrapped(module, function):
        return None
    return None if _is_placed_around(module, call.node) else _hit(module, call, given, model)


def _input(call: Call) -> ast.expr | None:
    """The first input of a model: `model(x)`, `model(**batch)`."""
    if call.node.args:
        return call.node.args[0] if not isinstance(call.node.args[0], ast.Starred) else None
    return next((keyword.value for keyword in call.node.keywords if keyword.arg is None), None)


def _chooses_gpu(module: Module) -> bool:
    """Whether the program moves anything to a GPU, and leaves it to no default device."""
    modules = [other for other in program_modules(module) if other.mentions("cuda", ".to(", "set_default")]
    return all(map(_keeps_default, modules)) and any(map(_moves_anything, modules))


def _keeps_default(module: Module) -> bool:
    """Whether new tensors of a module are on the CPU."""
    return module.loader.cached(
        "keeps the default device",
        module.unit,
        lambda: all(
            _is_of_cpu(call) for call in all_calls(module) if _MOVES_INPUT.search(call.name or call.method)
        ),
    )


def _moves_anything(module: Module) -> bool:
    return module.loader.cached(
        "moves to a GPU", module.unit, lambda: any(map(moves_to_gpu, calls_named(module, "to", "cuda")))
    )


def _is_placed_around(module: Module, node: ast.Call) -> bool:
    """Whether a `with` around a call sets the device, or the loader's or the model's own code moves what they get."""
    return (
        is_inside_with(module, node, ("device",)) or is_collated(module, node) or _moves_inside(module, node)
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
    return bool(made) and all(_WEIGHTLESS.match(each.name or "") for each in made)


def _in_place(module: Module, node: ast.expr) -> bool:
    """Whether `x.data = x.data.cuda()` or `x = x.cuda()` in a branch may have moved it."""
    return isinstance(node, ast.Name) and moves_name(module, node, calls_named(module, "cuda", "to"))
