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

from gpuproof.check.analysis.call import Call, calls_to, calls_within, origin_call
from gpuproof.check.analysis.local_imports import local_modules
from gpuproof.check.analysis.module import Module
from gpuproof.check.fixing.edits import add_keyword
from gpuproof.check.knowledge.inference_handlers import is_handler
from gpuproof.check.knowledge.instances import gpus_per_host
from gpuproof.check.project import Project
from gpuproof.check.rule import Hits, Rule
from gpuproof.check.source.edit import Fix
from gpuproof.findings import Severity

rule = Rule("PT106", "load-without-map-location", Severity.WARNING, needs=("torch.load", "load("))

_FROM_CPU = re.compile(r"\.cpu\(\)|\.to\(\s*[\"']cpu[\"']|torch\.device\(\s*[\"']cpu[\"']\s*\)")
_NO_MODEL = re.compile(r"vocab|info|config|param|args|label|class|word", re.IGNORECASE)


@rule.module
def check(module: Module, project: Project) -> Hits:
    if not is_handler(module):
        return
    endpoints = [job for job in project.jobs_running(module) if job.kind in ("endpoint", "transform")]
    if endpoints and all(gpus_per_host(project, job) for job in endpoints):
        return
    scripts = [job.script for job in project.jobs if job.script is not None]
    if any(_FROM_CPU.search(one.unit.source) for one in (*local_modules(module), *scripts)):
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


def _loads_no_model(call: Call) -> bool:
    """Whether a vocabulary or a configuration is loaded, which is small and has no device."""
    statement = call.module.tree.statement(call.node)
    target = ""
    if isinstance(statement, ast.Assign) and statement.value is call.node:
        target = call.module.text(statement.targets[0])
    argument = call.module.origin(call.expression("f", 0))
    return bool(
        _NO_MODEL.search(target) or (argument is not None and _NO_MODEL.search(call.module.text(argument)))
    )
