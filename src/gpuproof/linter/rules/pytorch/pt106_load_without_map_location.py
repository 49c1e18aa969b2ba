"""A checkpoint stores the device of each tensor, and `torch.load` restores tensors to that device.

A checkpoint saved while the model was on a GPU cannot be loaded on a CPU endpoint: "Attempting to deserialize object
on a CUDA device but torch.cuda.is_available() is False". The endpoint then fails its first health check, minutes
after its creation. In a training script with one process per GPU, every process restores the checkpoint of rank 0
to GPU 0, whose memory runs out when training resumes. `map_location` sets the device to load to. The rule checks
inference handlers, unless every linked endpoint has a GPU, and scripts with several processes per host that load what
they saved themselves.

Bad:

    import os
    import torch

    def model_fn(model_dir):
        model = torch.nn.Linear(4, 2)
        model.load_state_dict(torch.load(os.path.join(model_dir, "model.pth")))  # <-
        return model

    def predict_fn(data, model):
        return model(data)

Fixed:

    import os
    import torch

    def model_fn(model_dir):
        model = torch.nn.Linear(4, 2)
        model.load_state_dict(torch.load(os.path.join(model_dir, "model.pth"), map_location="cpu"))
        return model

    def predict_fn(data, model):
        return model(data)

Bad: None is the default

    import torch

    def model_fn(model_dir):
        model = torch.nn.Linear(4, 2)
        model.load_state_dict(torch.load(model_dir + "/model.pth", map_location=None))  # <-
        return model

    def predict_fn(data, model):
        return model(data)

Good:

    import os
    import torch

    def model_fn(model_dir):
        device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        model = torch.nn.Linear(4, 2)
        model.load_state_dict(torch.load(os.path.join(model_dir, "model.pth"), map_location=device))
        return model.to(device)

Bad: every process loads the checkpoint of rank 0 onto GPU 0

    import os
    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    dist.init_process_group("nccl")
    rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(rank)
    model = DistributedDataParallel(torch.nn.Linear(8, 1).cuda(), device_ids=[rank])
    path = "/opt/ml/checkpoints/last.pt"
    if os.path.exists(path):
        state = torch.load(path)  # <-
        model.module.load_state_dict(state["model"])
    if dist.get_rank() == 0:
        torch.save({"model": model.module.state_dict()}, path)

Quiet: the checkpoint is saved from the CPU, only rank 0 loads it, or it is a dataset

    import os
    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    dist.init_process_group("nccl")
    rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(rank)
    data = torch.load("/opt/ml/input/data/training/last.pt")
    model = torch.nn.Linear(8, 1).cuda()
    if dist.get_rank() == 0 and os.path.exists("/opt/ml/checkpoints/last.pt"):
        model.load_state_dict(torch.load("/opt/ml/checkpoints/last.pt"))
    model = DistributedDataParallel(model, device_ids=[rank])
    if dist.get_rank() == 0:
        torch.save(model.module.state_dict(), "/opt/ml/checkpoints/last.pt")

Quiet: published weights, of which no device is known

    import os
    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    dist.init_process_group("nccl")
    rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(rank)
    model = torch.nn.Linear(8, 1)
    model.load_state_dict(torch.load("/opt/ml/input/data/pretrained/weights.pt"))
    model = DistributedDataParallel(model.cuda(), device_ids=[rank])
    if dist.get_rank() == 0:
        torch.save(model.module.state_dict(), os.path.join(os.environ["SM_MODEL_DIR"], "model.pt"))

Quiet: the same file saves the checkpoint from the CPU

    import torch

    def train(model):
        torch.save(model.cpu().state_dict(), "/opt/ml/model/model.pth")

    def model_fn(model_dir):
        model = torch.nn.Linear(4, 2)
        model.load_state_dict(torch.load(model_dir + "/model.pth"))
        return model

Bad: what is saved from the CPU is another file

    import os
    import torch

    def train(model, features):
        torch.save(features.cpu(), "/opt/ml/model/features.pt")

    def model_fn(model_dir):
        model = torch.nn.Linear(4, 2)
        model.load_state_dict(torch.load(os.path.join(model_dir, "model.pth")))  # <-
        return model

    def predict_fn(data, model):
        return model(data)

Quiet: the arguments may contain it

    import torch

    def model_fn(model_dir, **options):
        return torch.load(model_dir + "/model.pth", **options)
"""

import ast
import re
from collections.abc import Iterable

from gpuproof.findings import Severity
from gpuproof.linter.analysis.call import Call, calls_named, calls_to, calls_within, origin_call
from gpuproof.linter.analysis.evaluation.evaluate import evaluate
from gpuproof.linter.analysis.local_imports import local_modules
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.usage import moves_name, script_uses
from gpuproof.linter.fixing.edits import add_keyword, replace_node
from gpuproof.linter.knowledge.aws.instances import gpus_per_host
from gpuproof.linter.knowledge.contract.inference_handlers import is_handler
from gpuproof.linter.knowledge.distribution.ranks import (
    has_one_gpu_per_host,
    process_group_inits,
    runs_on_every_rank,
    runs_several_processes_per_host,
)
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule
from gpuproof.linter.source.edit import Edit, Fix

rule = Rule("PT106", "load-without-map-location", Severity.WARNING, needs=("torch.load", "load("))

_SHARDED = re.compile(r"(^|\.)(FullyShardedDataParallel|FSDP|fully_shard|deepspeed(\.|$))")
_NO_MODEL = re.compile(r"vocab|info|config|param|args|label|class|word", re.IGNORECASE)


@rule.module
def check(module: Module, project: Project) -> Hits:
    if not is_handler(module):
        yield from _on_every_rank(module, project)
        return
    endpoints = [job for job in project.jobs_running(module) if job.kind in ("endpoint", "transform")]
    if endpoints and all(gpus_per_host(project, job) for job in endpoints):
        return
    trained = [
        job.model.script for job in endpoints if job.model is not None and job.model.script is not None
    ]
    from_cpu = _saved_from_cpu(local for script in (module, *trained) for local in local_modules(script))
    for call in calls_to(module, "torch.load"):
        function = module.function_of(call.node)
        if function is None or _has_location(call) or _loads_no_model(call) or _may_be(call, from_cpu):
            continue
        # `if cuda: load(path) else: load(path, map_location="cpu")`
        branches = [
            around
            for around in module.tree.ancestors(call.node)
            if isinstance(around, (ast.If, ast.IfExp, ast.Try)) and module.function_of(around) is function
        ]
        loads = calls_to(module, "torch.load")
        if any(_has_location(other) for around in branches for other in calls_within(loads, around)):
            continue
        known = any(name.id == "device" for name in ast.walk(function) if isinstance(name, ast.Name))
        target = "device" if known else '"cpu"'
        parent = origin_call(module, call.node) and module.parent(call.node)
        into_model = isinstance(parent, ast.Call) and module.text(parent.func).endswith("load_state_dict")
        where = f" ({endpoints[0].title})" if endpoints else ""
        yield rule.hit(
            call.span,
            f"`torch.load` without map_location: a checkpoint saved on a GPU does not load on a CPU endpoint{where}.",
            remedy=f"Pass map_location={target}.",
            fix=Fix(
                f"Pass map_location={target}",
                _set_location(call, target),
                safe=into_model and not known,
            ),
        )


def _has_location(call: Call) -> bool:
    """Whether a load may be given a device: `map_location=None` is none."""
    return not call.argument("map_location", 1).is_unset


def _set_location(call: Call, target: str) -> tuple[Edit, ...]:
    written = call.expression("map_location", 1)
    if written is not None:
        return (replace_node(call.module, written, target),)
    return (add_keyword(call, f"map_location={target}"),)


def _on_every_rank(module: Module, project: Project) -> Hits:
    """Loads of a script's own checkpoints by each of several processes on a host."""
    if not process_group_inits(module) or not runs_several_processes_per_host(module):
        return
    if has_one_gpu_per_host(module, project) or script_uses(module, _SHARDED, "name", "call"):
        return
    from_cpu = _saved_from_cpu(local_modules(module))
    saved = [path for save in calls_to(module, "torch.save") if (path := save.expression("f", 1)) is not None]
    for call in calls_to(module, "torch.load"):
        path = call.expression("f", 0)
        if path is None or _has_location(call) or _loads_no_model(call) or _may_be(call, from_cpu):
            continue
        if not any(_is_same_path(module, path, other) for other in saved) or not _fills_model(call):
            continue
        if runs_on_every_rank(module, call.node):
            yield rule.hit(
                call.span,
                "`torch.load` without map_location: every process restores the checkpoint to the GPU that saved it, GPU 0.",
                remedy='Pass map_location="cpu", or the device of the process.',
                fix=Fix('Pass map_location="cpu"', _set_location(call, '"cpu"'), safe=False),
            )


def _is_same_path(module: Module, path: ast.expr, other: ast.expr) -> bool:
    """Whether two expressions certainly are the same file."""
    texts = evaluate(module, path).texts
    if texts:
        return texts == evaluate(module, other).texts
    return module.origin(path) is module.origin(other) or module.text(path) == module.text(other)


def _fills_model(call: Call) -> bool:
    """Whether what is loaded goes to a model or an optimizer."""
    module = call.module
    for filled in calls_named(module, "load_state_dict"):
        for node in (child for argument in filled.node.args for child in ast.walk(argument)):
            if node is call.node or (isinstance(node, ast.Name) and module.origin(node) is call.node):
                return True
    return False


def _file_name(call: Call, position: int) -> str | None:
    """The last part of the path of a file; None if it is unknown."""
    path = call.argument("f", position)
    return (path.text or path.suffix).rpartition("/")[2] or None


def _may_be(load: Call, files: set[str | None]) -> bool:
    """Whether the file that is loaded may be one of these; an unknown name may be any."""
    name = _file_name(load, 0)
    return bool(files) and (name is None or None in files or name in files)


def _saved_from_cpu(modules: Iterable[Module]) -> set[str | None]:
    """The names of the files to which a `torch.save` certainly saves what was moved to the CPU before."""
    return {
        _file_name(save, 1)
        for module in modules
        for save in calls_to(module, "torch.save")
        if _is_from_cpu(module, save)
    }


def _is_from_cpu(module: Module, save: Call) -> bool:
    saved, function = save.expression("obj", 0), module.function_of(save.node)
    moves = [
        call
        for call in calls_named(module, "cpu", "to")
        if (call.method == "cpu" or call.argument("device", 0).text == "cpu")
        and module.function_of(call.node) is function
    ]
    if saved is None:
        return False
    made = module.origin(saved)
    if any(
        module.tree.is_within(move.node, each) for move in moves for each in (saved, made) if each is not None
    ):
        return True
    before = [move for move in moves if move.node.lineno <= save.node.lineno]
    names = [node for node in ast.walk(made or saved) if isinstance(node, ast.Name)]
    return any(moves_name(module, name, before) for name in names)


def _loads_no_model(call: Call) -> bool:
    """Whether a vocabulary or a configuration is loaded, which is small and has no device."""
    statement = call.module.tree.statement(call.node)
    target = ""
    if isinstance(statement, ast.Assign) and statement.value is call.node:
        target = call.module.text(statement.targets[0])
    argument = call.module.origin(call.expression("f", 0))
    if argument is None:
        return bool(_NO_MODEL.search(target))
    # `args.checkpoint` names a checkpoint: only the last part of a dotted name counts.
    parts = [node for node in ast.walk(argument) if not isinstance(call.module.parent(node), ast.Attribute)]
    words = [
        part.attr
        if isinstance(part, ast.Attribute)
        else part.id
        if isinstance(part, ast.Name)
        else str(part.value)
        for part in parts
        if isinstance(part, (ast.Attribute, ast.Name, ast.Constant))
    ]
    return any(_NO_MODEL.search(word) for word in (target, *words))
