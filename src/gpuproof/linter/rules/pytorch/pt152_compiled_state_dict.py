"""The weights of a compiled model are loaded into one that is not compiled: every key has the extra prefix `_orig_mod.`.

`torch.compile(model)` returns a wrapper, and the prefix is in the keys of its `state_dict()`. `load_state_dict` of the bare model raises
"Missing key(s) in state_dict", in the evaluation or when the endpoint starts. The model that was passed to `torch.compile` has the same
weights without the prefix, and `model.compile()` compiles in place.

Bad:

    # file: train.py
    import torch
    from net import Net

    model = torch.compile(Net().cuda())
    torch.save(model.state_dict(), "net.pt")
    # file: evaluate.py
    import torch
    from net import Net

    model = Net()
    model.load_state_dict(torch.load("net.pt", map_location="cpu"))  # <-
    # file: net.py
    import torch

    class Net(torch.nn.Linear):
        def __init__(self):
            super().__init__(4, 1)

Bad: in one script

    import os
    import torch

    def train(model_dir):
        net = torch.nn.Linear(4, 1).cuda()
        net = torch.compile(net, mode="max-autotune")
        torch.save({"model": net.state_dict(), "epoch": 3}, os.path.join(model_dir, "net.pt"))

    def model_fn(model_dir):
        net = torch.nn.Linear(4, 1)
        state = torch.load(os.path.join(model_dir, "net.pt"), map_location="cpu", weights_only=True)
        net.load_state_dict(state["model"])  # <-
        return net.eval().to("cuda" if torch.cuda.is_available() else "cpu")

Good:

    # file: train.py
    import torch
    from net import Net

    model = Net().cuda()
    fast = torch.compile(model)
    torch.save(model.state_dict(), "net.pt")
    # file: evaluate.py
    import torch
    from net import Net

    model = Net()
    model.load_state_dict(torch.load("net.pt", map_location="cpu"))
    # file: net.py
    import torch

    class Net(torch.nn.Linear):
        def __init__(self):
            super().__init__(4, 1)

Quiet: the prefix is removed, the loading model is compiled, another file

    # file: train.py
    import torch

    model = torch.compile(torch.nn.Linear(4, 1).cuda())
    torch.save(model.state_dict(), "net.pt")
    torch.save(model._orig_mod.state_dict(), "bare.pt")
    # file: evaluate.py
    import torch

    bare = torch.nn.Linear(4, 1)
    bare.load_state_dict(torch.load("bare.pt", map_location="cpu"))
    fast = torch.compile(torch.nn.Linear(4, 1))
    fast.load_state_dict(torch.load("net.pt", map_location="cpu"))
    # file: serve.py
    import torch

    state = torch.load("net.pt", map_location="cpu")
    net = torch.nn.Linear(4, 1)
    net.load_state_dict({key.removeprefix("_orig_mod."): value for key, value in state.items()})
"""

import ast
import re
from collections.abc import Iterator

from gpuproof.findings import Severity
from gpuproof.linter.analysis.call import Call, calls_named, calls_to, origin_call
from gpuproof.linter.analysis.evaluation.evaluate import evaluate
from gpuproof.linter.analysis.flow.sources import sources
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.usage import uses
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule

rule = Rule("PT152", "compiled-state-dict", Severity.ERROR, needs=("load_state_dict",))

_PREFIX = re.compile(r"_orig_mod")
_STATES = frozenset({"model", "state_dict", "model_state_dict", "weights", "net", "model_state"})
"""Keys under which checkpoints keep the model's weights."""


@rule.module
def check(module: Module, project: Project) -> Hits:
    if not module.imports("torch") or uses(module, _PREFIX, "string", "attribute", "name"):
        return
    for call in calls_named(module, "load_state_dict"):
        written = call.expression("state_dict", 0)
        if written is None or call.receiver is None or call.argument("strict", 1).flag is False:
            continue
        load = _load(module, written)
        name = _file_name(load, "f") if load is not None else None
        if name is None or _is_compiled(module, call.receiver) is not False:
            continue
        save = next(_saves(module, project, name), None)
        if save is not None:
            yield rule.hit(
                call.span,
                f"`{name}` has the weights of a compiled model (`{save.module.title}`, line {save.span.line}), whose keys start with "
                f"`_orig_mod.`: Missing key(s) in state_dict.",
                remedy="Save the model that was passed to torch.compile, or compile it in place: model.compile().",
            )


def _load(module: Module, written: ast.expr) -> Call | None:
    """The `torch.load` whose result, or an entry of it, is loaded."""
    if isinstance(written, ast.Subscript) and isinstance(written.slice, ast.Constant):
        written = written.value
    call = origin_call(module, written)
    return call if call is not None and call.name == "torch.load" else None


def _saves(module: Module, project: Project, name: str) -> Iterator[Call]:
    """The calls near the module that save the weights of a compiled model under a name, unless others save them, too."""
    above = f"{module.unit.absolute.parent.parent}/"
    found: list[Call] = []
    units = [
        unit
        for unit in project.workspace.units_with("torch.save", "python", "cell-file", "notebook")
        if name in unit.source and f"{unit.folder}/".startswith(above)
    ]
    if not any("compile" in unit.source for unit in units):
        return
    for unit in units:
        other = module if unit is module.unit else project.workspace.module(unit)
        saves = calls_to(other, "torch.save") if other is not None else []
        found += [save for save in saves if _file_name(save, "f", 1) == name]
    if found and all(_saves_compiled(save) for save in found):
        yield from found


def _saves_compiled(save: Call) -> bool:
    module = save.module
    written = save.expression("obj", 0)
    made = module.origin(written) if written is not None else None
    if isinstance(made, ast.Dict):
        made = next(
            (
                value
                for key, value in zip(made.keys, made.values, strict=True)
                if isinstance(key, ast.Constant) and key.value in _STATES
            ),
            None,
        )
    state = origin_call(module, made)
    return (
        state is not None
        and state.method == "state_dict"
        and state.receiver is not None
        and _is_compiled(module, state.receiver) is True
    )


def _is_compiled(module: Module, node: ast.expr) -> bool | None:
    """Whether every model that an expression may be is a result of `torch.compile`, or none is; None if it is unknown."""
    found = sources(module, node)
    if not found.complete or not found.found:
        return None
    compiled = {
        isinstance(source.node, ast.Call) and source.module.qualified(source.node.func) == "torch.compile"
        for source in found.found
    }
    return compiled.pop() if len(compiled) == 1 else None


def _file_name(call: Call, keyword: str, position: int = 0) -> str | None:
    """The last part of the path that a call gets."""
    written = call.expression(keyword, position)
    if written is None:
        return None
    value = evaluate(call.module, written)
    made = call.module.origin(written)
    text = value.text or value.suffix
    if not text and isinstance(made, ast.Call) and made.args:
        text = evaluate(call.module, made.args[-1]).text or ""
    name = text.rpartition("/")[2]
    return name if "." in name else None
