"""A script that a job runs uses a name that is defined nowhere: a NameError when the line is reached, often after hours of training.

`os.path.join(...)` without `import os` in the line that saves the model, or `scheduler` instead of `self.scheduler`, fails after the first
epoch or at the very end, and the model is lost. ruff (F821) and pyright find undefined names in all files; this rule reports those of
scripts that jobs run, where they cost the job.

Bad:

    # file: launch.py
    from sagemaker.pytorch import PyTorch

    PyTorch(entry_point="train.py", role="r", instance_count=1, instance_type="ml.g5.xlarge").fit()
    # file: train.py
    import torch

    model = torch.nn.Linear(4, 1).cuda()
    torch.save(model.state_dict(), os.path.join("/opt/ml/model", "model.pt"))  # <-

Good:

    # file: train.py
    import os
    import torch

    model = torch.nn.Linear(4, 1).cuda()
    torch.save(model.state_dict(), os.path.join("/opt/ml/model", "model.pt"))

Quiet: defined in another way

    # file: launch.py
    from sagemaker.pytorch import PyTorch

    PyTorch(entry_point="train.py", role="r", instance_count=1, instance_type="ml.g5.xlarge").fit()
    # file: train.py
    import torch

    try:
        unicode
    except NameError:
        unicode = str

    def run(values):
        global total
        total = sum(x for x in values)
        try:
            print(__file__, [y for y in values if (z := y)], z, lambda w: w)
        except ValueError as error:
            print(error)
        match values:
            case [first, *rest]:
                print(first, rest)

    class Settings:
        size = 3
        shape = (size, size)

    run([1])
    print(total)
"""

import ast
import builtins

from gpuproof.findings import Severity
from gpuproof.linter.analysis.call import all_calls
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule
from gpuproof.linter.source.test_files import is_test_file

rule = Rule("PF157", "undefined-name", Severity.ERROR, when="link")

_KNOWN = frozenset(dir(builtins)) | {
    "__file__", "__name__", "__doc__", "__package__", "__spec__", "__path__", "__loader__", "__builtins__", "__class__",
    "__annotations__", "__debug__", "__module__", "__qualname__", "__dict__", "WindowsError", "reveal_type",
    "get_ipython", "display", "In", "Out", "spark", "sc",
}  # fmt: skip
_DYNAMIC = frozenset({"exec", "eval", "globals", "locals", "vars", "setattr"})


@rule.module
def check(module: Module, project: Project) -> Hits:
    if module.unit.path.endswith((".ipynb", ".md")) or is_test_file(module.unit) or module.names.has_star:
        return
    if not project.jobs_running(module) or any(call.method in _DYNAMIC for call in all_calls(module)):
        return
    known = _KNOWN | module.names.imports.keys() | _other_bindings(module)
    seen = set[str]()
    for node in module.nodes(ast.Name):
        if not isinstance(node.ctx, ast.Load) or node.id in known or node.id in seen:
            continue
        if module.names.visible(node.id, node) or _is_handled(module, node):
            continue
        seen.add(node.id)
        own = _attribute_of_self(module, node)
        yield rule.hit(
            module.span(node),
            f"`{node.id}` is not defined: a NameError when this line runs.",
            remedy=f"Write self.{node.id}." if own else f"Define or import {node.id}.",
        )


def _other_bindings(module: Module) -> set[str]:
    """Names that are bound by something other than an assignment, a parameter, a definition or an import."""
    found = {node.name for node in module.nodes(ast.ExceptHandler) if node.name}
    found |= {node.name for node in module.nodes(ast.MatchAs, ast.MatchStar) if node.name}
    found |= {node.rest for node in module.nodes(ast.MatchMapping) if node.rest}
    found |= {name for node in module.nodes(ast.Global, ast.Nonlocal) for name in node.names}
    for node in module.nodes(ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef):
        found |= {getattr(parameter, "name", "") for parameter in getattr(node, "type_params", [])}
    return found


def _is_handled(module: Module, node: ast.Name) -> bool:
    """Whether code catches the error, or every error, around a name."""
    around = module.enclosing(node, ast.Try)
    while around is not None:
        for handler in around.handlers:
            caught = module.text(handler.type) if handler.type is not None else "Exception"
            if "NameError" in caught or "Exception" in caught:
                return True
        around = module.enclosing(around, ast.Try)
    return False


def _attribute_of_self(module: Module, node: ast.Name) -> bool:
    owner = module.enclosing(node, ast.ClassDef)
    return owner is not None and any(
        other.attr == node.id
        and isinstance(other.ctx, ast.Store)
        and isinstance(other.value, ast.Name)
        and other.value.id == "self"
        and module.tree.is_within(other, owner)
        for other in module.nodes(ast.Attribute)
    )
