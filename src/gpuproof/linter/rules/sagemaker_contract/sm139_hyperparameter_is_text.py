"""The script reads a number from `hyperparameters.json`, where SageMaker writes every value as text.

`{"epochs": 3}` of the job is `{"epochs": "3"}` in `/opt/ml/input/config/hyperparameters.json`: `range("3")` and
`DataLoader(batch_size="64")` raise an exception when the job has started and downloaded its data. The toolkits of
AWS's containers convert the values; a script that reads the file itself must do so.
Source: https://docs.aws.amazon.com/sagemaker/latest/dg/your-algorithms-training-algo-running-container.html, 2026-11-29.

Bad:

    import json
    import torch
    from torch.utils.data import DataLoader

    with open("/opt/ml/input/config/hyperparameters.json") as file:
        params = json.load(file)
    loader = DataLoader(dataset, batch_size=params["batch_size"], shuffle=True, num_workers=4)  # <-
    for epoch in range(params["epochs"]):  # <-
        print(epoch)

Bad: through a function and a name

    import json
    from pathlib import Path
    import torch

    PREFIX = Path("/opt/ml")

    def hyperparameters():
        return json.loads((PREFIX / "input/config/hyperparameters.json").read_text())

    def train(model):
        hp = hyperparameters()
        lr = hp.get("lr", 0.001)
        return torch.optim.Adam(model.parameters(), lr=lr)  # <-

Good:

    import json
    import torch
    from torch.utils.data import DataLoader

    with open("/opt/ml/input/config/hyperparameters.json") as file:
        params = json.load(file)
    loader = DataLoader(dataset, batch_size=int(params["batch_size"]), shuffle=True, num_workers=4)
    for epoch in range(int(params["epochs"])):
        print(epoch)

Quiet: converted as a whole

    import json
    from torch.utils.data import DataLoader

    with open("/opt/ml/input/config/hyperparameters.json") as file:
        params = {name: json.loads(value) for name, value in json.load(file).items()}
    loader = DataLoader(dataset, batch_size=params["batch_size"], num_workers=4)

Quiet: another file, and the variable of the toolkit

    import json
    import os
    from torch.utils.data import DataLoader

    with open("hyperparameters.json") as file:
        local = json.load(file)
    params = json.loads(os.environ["SM_HPS"])
    loader = DataLoader(dataset, batch_size=params["batch_size"], num_workers=local["workers"])
"""

import ast
import re

from gpuproof.findings import Severity
from gpuproof.linter.analysis.call import Call
from gpuproof.linter.analysis.evaluation.evaluate import evaluate
from gpuproof.linter.analysis.flow.sources import sources
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule

rule = Rule("SM139", "hyperparameter-is-text", Severity.ERROR, needs=("hyperparameters.json",))

_FILE = "/opt/ml/input/config/hyperparameters.json"
_NUMERIC = re.compile(
    r"^range$|^torch\.nn\.(?!Module|Sequential|init|functional)\w+$|^torch\.optim\.\w+$|^torch\.optim\.lr_scheduler\.\w+$"
    r"|^torch\.manual_seed$|^(tensorflow\.)?keras\.(optimizers|layers)\.\w+$|^numpy\.(zeros|ones|arange|linspace)$"
)
"""Calls whose arguments are numbers, if they are none of `_TEXTS`."""
_TEXTS = frozenset(
    {"activation", "padding", "padding_mode", "mode", "nonlinearity", "device", "dtype", "name", "reduction"}
)
_LOADER = ("batch_size", "num_workers", "prefetch_factor")
_FIT = ("epochs", "batch_size", "steps_per_epoch", "validation_steps")
_ORDER = (ast.Lt, ast.Gt, ast.LtE, ast.GtE)


@rule.module
def check(module: Module, _: Project) -> Hits:
    for node in module.nodes(ast.Subscript, ast.Call):
        read = _read(module, node)
        if read is None or not _is_from_file(module, read[0]):
            continue
        for place in _places(module, node):
            what = _needs_number(module, place)
            if what is not None:
                yield rule.hit(
                    module.span(place),
                    f"`{read[1]}` is text in hyperparameters.json, and {what} a number: the job fails.",
                    remedy=f"Convert it: int({module.text(node)}) or float(...).",
                )
                break


def _read(module: Module, node: ast.expr) -> tuple[ast.expr, str] | None:
    """The mapping and the key that an expression reads: `params["lr"]`, `params.get("lr", 0.1)`."""
    match node:
        case ast.Subscript(value=holder, slice=ast.Constant(value=str(key)), ctx=ast.Load()):
            return holder, key
        case ast.Call(func=ast.Attribute(value=holder, attr="get"), args=[ast.Constant(value=str(key)), *_]):
            return (holder, key) if module.qualified(node.func) is None else None
        case _:
            return None


def _is_from_file(module: Module, holder: ast.expr) -> bool:
    """Whether a mapping is certainly what `json.load` read from the job's hyperparameters."""
    found = sources(module, holder)
    made = found.found[0] if len(found.found) == 1 and found.complete else None
    if made is None or not isinstance(made.node, ast.Call) or not made.node.args:
        return False
    call, source = Call(made.node, made.module), made.node.args[0]
    if call.name == "json.load" and isinstance(source, ast.Name):
        bindings = made.module.reaching(source)
        opened = bindings[0].value if len(bindings) == 1 and bindings[0].kind in ("with", "assign") else None
    elif call.name in ("json.load", "json.loads"):
        opened = source
    else:
        return False
    return opened is not None and _path(made.module, opened) == _FILE


def _path(module: Module, opened: ast.expr) -> str | None:
    """The path of the file that an expression opens or reads."""
    match opened:
        case ast.Call(func=ast.Name(id="open"), args=[path, *_]):
            return evaluate(module, path).text
        case ast.Call(func=ast.Attribute(value=ast.Call() as inner, attr="read")):
            return _path(module, inner)
        case ast.Call(func=ast.Attribute(value=path, attr="open" | "read_text" | "read_bytes")):
            return evaluate(module, path).text
        case _:
            return None


def _places(module: Module, node: ast.expr) -> list[ast.expr]:
    """An expression, and the uses of the name that only it is assigned to."""
    statement = module.parent(node)
    if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
        return [node]
    target = statement.targets[0]
    if not isinstance(target, ast.Name):
        return [node]
    return [
        name
        for name in module.nodes(ast.Name)
        if name.id == target.id
        and isinstance(name.ctx, ast.Load)
        and [binding.value for binding in module.reaching(name)] == [node]
    ]


def _needs_number(module: Module, node: ast.expr) -> str | None:
    """What needs a number where an expression is; None if a text may be right."""
    parent = module.parent(node)
    keyword = parent.arg if isinstance(parent, ast.keyword) else None
    holder = module.parent(parent) if isinstance(parent, ast.keyword) else parent
    match holder:
        case ast.Call() if node is not holder.func:
            return _argument(Call(holder, module), keyword, node)
        case ast.BinOp(op=ast.Sub() | ast.Div() | ast.FloorDiv() | ast.Pow()):
            return "a calculation needs"
        case ast.BinOp(op=ast.Add(), left=left, right=right):
            other = evaluate(module, right if left is node else left)
            return "a calculation needs" if other.number is not None else None
        case ast.Compare(ops=[operator], left=left, comparators=[right]) if isinstance(operator, _ORDER):
            other = evaluate(module, right if left is node else left)
            return "a comparison needs" if other.number is not None else None
        case _:
            return None


def _argument(call: Call, keyword: str | None, node: ast.expr) -> str | None:
    name = call.name or (call.method if call.receiver is None else "")
    needed = f"`{call.method}` needs"
    if keyword in _TEXTS or any(isinstance(argument, ast.Starred) for argument in call.node.args):
        return None
    if name.startswith("torch.utils.data.") and name.endswith("DataLoader"):
        is_number = keyword in _LOADER or (keyword is None and node in call.node.args[1:2])
        return needed if is_number else None
    if _NUMERIC.search(name):
        return needed
    if call.method == "fit" and call.name is None and keyword in _FIT:
        return needed
    return None
