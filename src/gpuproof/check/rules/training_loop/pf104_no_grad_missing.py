"""Evaluation with autograd enabled keeps every layer's activations for a backward pass that never happens.

This takes several times the GPU memory and some time; a validation batch that fits under `torch.inference_mode()` may
not fit without it. `model.eval()` does not disable autograd. The rule checks functions that put a model into
evaluation mode, or that a serving toolkit calls, and that run the model.

Bad:

    import torch
    from torch.utils.data import DataLoader

    def test(model, loader):
        model.eval()
        hits = 0
        for x, y in loader:
            hits += (model(x).argmax(1) == y).sum().item()  # <-
        return hits

Bad: an inference handler

    import torch

    def model_fn(model_dir):
        return torch.jit.load(model_dir + "/model.pt").eval()

    def predict_fn(data, model):
        return model(data)  # <-

Good:

    import torch

    def test(model, loader):
        model.eval()
        hits = 0
        with torch.inference_mode():
            for x, y in loader:
                hits += (model(x).argmax(1) == y).sum().item()
        return hits

Quiet: the caller disables it

    import torch

    def test(model, loader):
        model.eval()
        return [model(x) for x, y in loader]

    with torch.no_grad():
        test(torch.nn.Linear(1, 1), [])

Quiet: generate() runs without gradients

    import torch

    def predict_fn(data, model):
        model.eval()
        return model.generate(data)

Quiet: gradients of the input are needed

    import torch

    def attack(model, x, y):
        model.eval()
        x.requires_grad = True
        model(x).sum().backward()
        return x.grad.sign()
"""

import ast
import re

from gpuproof.check.analysis.call import Call, all_calls, calls_named
from gpuproof.check.analysis.local_imports import local_modules
from gpuproof.check.analysis.module import Module
from gpuproof.check.analysis.syntax_index import FunctionNode
from gpuproof.check.knowledge.inference_handlers import is_handler
from gpuproof.check.knowledge.torch import imports_device_manager, is_inside_with, is_test
from gpuproof.check.project import Project
from gpuproof.check.rule import Hits, Rule
from gpuproof.findings import Severity

rule = Rule("PF104", "no-grad-missing", Severity.WARNING, needs=(".eval()", "predict_fn", "transform_fn"))

_SWITCHES = re.compile(
    r"no_grad|inference_mode|grad_enabled|backward|autograd|requires_grad|\.grad\b|hook|captum|\.step\(|train_step|yield"
)
_WITHOUT = ("transformers.pipeline", "diffusers", "sentence_transformers")


@rule.module
def check(module: Module, _: Project) -> Hits:
    if not module.imports("torch") or imports_device_manager(module) or is_test(module):
        return
    if module.mentions("set_grad_enabled(False)", "keras"):
        return
    handler = is_handler(module)
    for function in module.nodes(ast.FunctionDef):
        run = _runs_model(module, function, handler)
        if run is None or _SWITCHES.search(module.text(function)) or _is_called_without(module, function):
            continue
        yield rule.hit(
            run.span,
            f"`{module.text(run.node)[:50]}` in `{function.name}` runs with autograd enabled: activations stay in GPU memory "
            "for a backward pass that never happens.",
            remedy="Put it under `with torch.inference_mode():`.",
        )


def _runs_model(module: Module, function: FunctionNode, handler: bool) -> Call | None:
    """The first call of a model that the function put into evaluation mode or received from a toolkit."""
    calls = [one for one in all_calls(module) if module.function_of(one.node) is function]
    evaluated = {
        module.text(one.receiver) for one in calls if one.method == "eval" and one.receiver is not None
    }
    if handler and function.name in ("predict_fn", "transform_fn"):
        names = [one.arg for one in function.args.args]
        index = 1 if function.name == "predict_fn" else 0
        served = names[index] if index < len(names) else ""
        if _loads_module(module):
            evaluated.add(served)
    return next((one for one in calls if module.text(one.node.func) in evaluated), None)


def _loads_module(module: Module) -> bool:
    """Whether the handler's model is certainly a `torch.nn.Module` and not a pipeline that disables autograd itself."""
    load = module.functions.get("model_fn")
    if load is None or module.imports(*_WITHOUT) or module.mentions("pipeline(", "SentenceTransformer"):
        return False
    text = module.text(load)
    return any(word in text for word in ("jit.load", "load_state_dict", ".eval()", "torch.load"))


def _is_called_without(module: Module, function: FunctionNode) -> bool:
    """Whether the function is decorated, or called where autograd is disabled."""
    if function.decorator_list:
        return True
    for other in local_modules(module):
        for call in calls_named(other, function.name):
            if is_inside_with(other, call.node, ("no_grad", "inference_mode", "set_grad_enabled")):
                return True
            around = other.function_of(call.node)
            if around is not None and around is not function and _SWITCHES.search(_heads(other, around)):
                return True
    return False


def _heads(module: Module, function: FunctionNode) -> str:
    return " ".join(module.text(one) for one in function.decorator_list)
