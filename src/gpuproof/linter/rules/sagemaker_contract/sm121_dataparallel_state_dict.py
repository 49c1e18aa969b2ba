"""The weights are saved from the wrapper but loaded into the bare model: every key has the extra prefix `module.`.

DataParallel and DistributedDataParallel keep the model in `.module`, which is also in the keys of their
`state_dict()`. `load_state_dict` of the bare model then raises "Missing key(s) in state_dict", usually when the
endpoint starts, long after the training was paid for. `model.module.state_dict()` can be loaded into any model.

Bad:

    import os
    import torch

    def train(model_dir):
        model = torch.nn.DataParallel(torch.nn.Linear(8, 1))
        torch.save(model.state_dict(), os.path.join(model_dir, "model.pth"))  # <-

    def model_fn(model_dir):
        model = torch.nn.Linear(8, 1)
        model.load_state_dict(torch.load(os.path.join(model_dir, "model.pth")))
        return model

Fixed:

    import os
    import torch

    def train(model_dir):
        model = torch.nn.DataParallel(torch.nn.Linear(8, 1))
        torch.save(model.module.state_dict(), os.path.join(model_dir, "model.pth"))

    def model_fn(model_dir):
        model = torch.nn.Linear(8, 1)
        model.load_state_dict(torch.load(os.path.join(model_dir, "model.pth")))
        return model

Good:

    import os
    import torch

    def train(model_dir):
        model = torch.nn.DataParallel(torch.nn.Linear(8, 1))
        torch.save(model.module.state_dict(), os.path.join(model_dir, "model.pth"))

    def model_fn(model_dir):
        model = torch.nn.Linear(8, 1)
        model.load_state_dict(torch.load(os.path.join(model_dir, "model.pth"), map_location="cpu"))
        return model

Quiet: the same wrapper when loading

    import os
    import torch

    def train(model_dir):
        model = torch.nn.DataParallel(torch.nn.Linear(8, 1))
        torch.save(model.state_dict(), os.path.join(model_dir, "model.pth"))

    def model_fn(model_dir):
        model = torch.nn.DataParallel(torch.nn.Linear(8, 1))
        model.load_state_dict(torch.load(os.path.join(model_dir, "model.pth")))
        return model

Quiet: the loading code is unknown

    import torch

    model = torch.nn.DataParallel(torch.nn.Linear(8, 1))
    torch.save(model.state_dict(), "model.pth")
"""

import ast
import re

from gpuproof.findings import Severity
from gpuproof.linter.analysis.call import Call, calls_named, calls_to, calls_within, origin_call
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.usage import reached, uses
from gpuproof.linter.fixing.edits import replace_node
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule
from gpuproof.linter.source.edit import Fix

rule = Rule("SM121", "dataparallel-state-dict", Severity.ERROR, needs=("DataParallel",))

_WRAPPERS = (
    "torch.nn.DataParallel",
    "torch.nn.parallel.DataParallel",
    "torch.nn.parallel.DistributedDataParallel",
)
_STRIPS = re.compile(r"(^|\.)(consume_prefix\w*|removeprefix|\w*DataParallel|DDP)$")
_PREFIX = re.compile(r"^module\.")
"""With any of these, the loading function may remove the prefix, or load into a wrapped model."""


@rule.module
def check(module: Module, _: Project) -> Hits:
    loader = module.functions.get("model_fn")
    if loader is None or not calls_within(calls_named(module, "load_state_dict"), loader):
        return
    code = reached(module, loader)
    if uses(module, _STRIPS, "call", "name", within=code) or uses(module, _PREFIX, "string", within=code):
        return
    if any(
        call.argument("strict", 1).flag is False
        for call in calls_within(calls_named(module, "load_state_dict"), loader)
    ):
        return
    for save in calls_to(module, "torch.save"):
        state = origin_call(module, save.expression("obj", 0))
        if state is None or state.method != "state_dict" or state.receiver is None:
            continue
        if not _is_wrapped(module, state.receiver):
            continue
        name = module.text(state.receiver)
        edit = replace_node(module, state.receiver, f"{name}.module")
        yield rule.hit(
            save.span,
            f"`{name}` is wrapped, so the keys of its state dict start with `module.`; `model_fn` loads them into the bare "
            "model: Missing key(s) in state_dict.",
            remedy=f"Save {name}.module.state_dict().",
            fix=Fix(f"Save {name}.module.state_dict()", (edit,), safe=False),
        )


def _is_wrapped(module: Module, node: ast.expr) -> bool:
    """Whether every possible value of the name is a wrapper."""
    if not isinstance(node, ast.Name):
        return False
    bindings = module.reaching(node)
    calls: list[Call | None] = [
        origin_call(module, binding.value)
        if binding.kind == "assign" and isinstance(binding.value, ast.Call)
        else None
        for binding in bindings
    ]
    return bool(calls) and all(call is not None and call.name in _WRAPPERS for call in calls)
