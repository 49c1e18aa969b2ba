"""`torch.load` has returned only weights since PyTorch 2.6: a state dict has no `eval()`, and a pickled module does not load.

`weights_only=True` became the default. A file from `torch.save(model)` raises UnpicklingError ("Weights only load
failed"), and a file from `torch.save(model.state_dict())` is a dict: "'collections.OrderedDict' object has no attribute
'eval'". In an endpoint, the first health check fails. Save the state dict and load it into a model that the code
creates; `weights_only=False` runs code from the file, so it is only for files that you wrote.

Bad:

    # file: requirements.txt
    torch==2.8.0
    # file: predict.py
    import torch

    model = torch.load("model.pt", map_location="cpu")
    model.eval()  # <-

Bad: in one expression, and with weights_only=True in any version

    import torch

    torch.load("model.pt", weights_only=True).to("cuda").eval()  # <-
    checkpoint = torch.load("checkpoint.pt", weights_only=True)
    checkpoint["model"].eval()  # <-

Good:

    # file: requirements.txt
    torch==2.8.0
    # file: predict.py
    import torch

    model = torch.nn.Linear(4, 2)
    model.load_state_dict(torch.load("model.pt", map_location="cpu"))
    model.eval()

Quiet: a module that the file may contain, an older version, and TorchScript

    # file: requirements.txt
    torch==2.5.1
    # file: predict.py
    import torch

    first = torch.load("model.pt", weights_only=False)
    first.eval()
    second = torch.load("model.pt")
    second.eval()
    third = torch.jit.load("model.pt")
    third.eval()

Quiet: the class is allowed, and a tensor

    # file: requirements.txt
    torch==2.8.0
    # file: predict.py
    import torch
    from net import Net

    torch.serialization.add_safe_globals([Net])
    model = torch.load("model.pt")
    model.eval()

Quiet: the version is unknown

    import torch

    model = torch.load("model.pt")
    model.eval()
"""

import ast

from gpuproof.findings import Severity
from gpuproof.linter.analysis.call import Call, calls_named, origin_call
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.knowledge.frameworks.framework_version import framework_is_at_least
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule

rule = Rule("PT123", "load-returns-weights", Severity.ERROR, needs=("load",))

_OF_MODULES = (
    "eval",
    "train",
    "parameters",
    "named_parameters",
    "state_dict",
    "load_state_dict",
    "modules",
    "zero_grad",
)
"""Methods that modules have, and neither tensors nor dicts."""
_MOVES = ("to", "cuda", "cpu", "half", "float", "double", "bfloat16")
_DATA_PACKAGES = ("numpy.", "argparse.", "collections.", "pathlib.", "datetime.", "omegaconf.", "pandas.")
_ALLOWS = ("add_safe_globals", "safe_globals")


@rule.module
def check(module: Module, project: Project) -> Hits:
    if not module.imports("torch") or any(map(_allows_modules, calls_named(module, *_ALLOWS))):
        return
    for call in calls_named(module, *_OF_MODULES):
        load = _loaded(module, call.receiver)
        if load is None:
            continue
        only = load.argument("weights_only")
        explicit = only.is_known and only.flag is True
        if not explicit and (
            not only.is_absent or framework_is_at_least(module, project, "pytorch", "2.6") != "yes"
        ):
            continue
        line = module.span(load.node).line
        why = "with weights_only=True" if explicit else "of PyTorch 2.6 and later"
        yield rule.hit(
            call.span,
            f"`torch.load` in line {line} {why} returns weights, which have no `{call.method}()`; "
            "a file with a whole module does not load.",
            remedy="Create the model and pass the result to model.load_state_dict(); for a file with a whole module that you "
            "wrote, load with weights_only=False.",
        )


def _allows_modules(allows: Call) -> bool:
    """Whether a list of safe globals may have classes of modules, and not only those of NumPy and the standard library."""
    given = allows.expression("safe_globals", 0)
    if not isinstance(given, (ast.List, ast.Tuple)):
        return True
    names = [allows.module.qualified(item) or "" for item in given.elts]
    return not all(name.startswith(_DATA_PACKAGES) for name in names)


def _loaded(module: Module, node: ast.expr | None) -> Call | None:
    """The `torch.load` whose result, or an item of it, an expression is."""
    for _ in range(8):
        if isinstance(node, ast.Subscript):
            node = node.value
            continue
        call = origin_call(module, node)
        if call is None:
            return None
        if call.name == "torch.load":
            return call
        if call.method not in _MOVES or call.receiver is None:
            return None
        node = call.receiver
    return None
