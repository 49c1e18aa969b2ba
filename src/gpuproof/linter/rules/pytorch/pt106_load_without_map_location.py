"""A checkpoint stores the device of each tensor, and `torch.load` restores tensors to that device.

A checkpoint saved while the model was on a GPU cannot be loaded on a CPU endpoint: "Attempting to deserialize object
on a CUDA device but torch.cuda.is_available() is False". The endpoint then fails its first health check, minutes
after its creation. `map_location` sets the device to load to. The rule only checks inference handlers, and does not
report them if every linked endpoint has a GPU.

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

Good:

    import os
    import torch

    def model_fn(model_dir):
        device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        model = torch.nn.Linear(4, 2)
        model.load_state_dict(torch.load(os.path.join(model_dir, "model.pth"), map_location=device))
        return model.to(device)

Quiet: the same file saves the checkpoint from the CPU

    import torch

    def train(model):
        torch.save(model.cpu().state_dict(), "/opt/ml/model/model.pth")

    def model_fn(model_dir):
        model = torch.nn.Linear(4, 2)
        model.load_state_dict(torch.load(model_dir + "/model.pth"))
        return model

Quiet: the arguments may contain it

    import torch

    def model_fn(model_dir, **options):
        return torch.load(model_dir + "/model.pth", **options)
"""

import ast
import re

from gpuproof.findings import Severity
from gpuproof.linter.analysis.call import Call, calls_named, calls_to, calls_within, origin_call
from gpuproof.linter.analysis.local_imports import local_modules
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.usage import moves_name
from gpuproof.linter.fixing.edits import add_keyword
from gpuproof.linter.knowledge.inference_handlers import is_handler
from gpuproof.linter.knowledge.instances import gpus_per_host
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule
from gpuproof.linter.source.edit import Fix

rule = Rule("PT106", "load-without-map-location", Severity.WARNING, needs=("torch.load", "load("))

_NO_MODEL = re.compile(r"vocab|info|config|param|args|label|class|word", re.IGNORECASE)


@rule.module
def check(module: Module, project: Project) -> Hits:
    if not is_handler(module):
        return
    endpoints = [job for job in project.jobs_running(module) if job.kind in ("endpoint", "transform")]
    if endpoints and all(gpus_per_host(project, job) for job in endpoints):
        return
    trained = [
        job.model.script for job in endpoints if job.model is not None and job.model.script is not None
    ]
    if any(_saves_from_cpu(local) for script in (module, *trained) for local in local_modules(script)):
        return
    for call in calls_to(module, "torch.load"):
        function = module.function_of(call.node)
        if function is None or not call.argument("map_location", 1).is_absent or _loads_no_model(call):
            continue
        others = calls_within(calls_to(module, "torch.load"), function)
        if any(not other.argument("map_location", 1).is_absent for other in others):
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
                (add_keyword(call, f"map_location={target}"),),
                safe=into_model and not known,
            ),
        )


def _saves_from_cpu(module: Module) -> bool:
    """Whether a `torch.save` of a module certainly saves what was moved to the CPU before."""
    for save in calls_to(module, "torch.save"):
        saved, function = save.expression("obj", 0), module.function_of(save.node)
        moves = [
            call
            for call in calls_named(module, "cpu", "to")
            if (call.method == "cpu" or call.argument("device", 0).text == "cpu")
            and module.function_of(call.node) is function
        ]
        if saved is None:
            continue
        made = module.origin(saved)
        if any(
            module.tree.is_within(move.node, each)
            for move in moves
            for each in (saved, made)
            if each is not None
        ):
            return True
        before = [move for move in moves if move.node.lineno <= save.node.lineno]
        names = [node for node in ast.walk(made or saved) if isinstance(node, ast.Name)]
        if any(moves_name(module, name, before) for name in names):
            return True
    return False


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
