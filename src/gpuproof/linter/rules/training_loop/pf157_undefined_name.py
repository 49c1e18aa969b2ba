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

Bad: a variable of another function

    # file: launch.py
    from sagemaker.pytorch import PyTorch

    PyTorch(entry_point="train.py", role="role", instance_count=1, instance_type="ml.g5.xlarge").fit()
    # file: train.py
    import os
    import torch

    def train():
        device = torch.device("cuda")
        model = torch.nn.Linear(4, 1).to(device)
        return model

    model = train()
    x = torch.rand(8, 4).to(device)  # <-
    torch.save(model.state_dict(), os.path.join(os.environ["SM_MODEL_DIR"], "model.pt"))

Bad: an import that is missing, in a module of the script

    # file: run.sh
    #SBATCH --gpus=1
    srun python train.py
    # file: train.py
    from losses import smooth

    print(smooth(1.0))
    # file: losses.py
    import torch

    def smooth(x):
        return F.relu(x)  # <-

Quiet: no job runs the script

    import torch

    print(modle)

Quiet: another module binds the names

    # file: run.sh
    #SBATCH --gpus=1
    srun python train.py
    # file: train.py
    import torch
    from settings import *

    print(learning_rate)
"""

import ast

from gpuproof.findings import Severity
from gpuproof.linter.analysis.flow.call_sites import known_call_sites
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.undefined_names import undefined_names
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule, lowered
from gpuproof.linter.source.test_files import is_test_file

rule = Rule("PF157", "undefined-name", Severity.ERROR, when="link", needs=("import",))


@rule.module
def check(module: Module, project: Project) -> Hits:
    if module.unit.kind not in ("python", "cell-file") or is_test_file(module.unit):
        return
    jobs = project.jobs_running(module)
    for node in undefined_names(module) if jobs else ():
        owner = _function_with(module, node.id)
        where = f"; `{node.id}` of `{owner}` is not visible outside of it" if owner is not None else ""
        own = _attribute_of_self(module, node)
        yield rule.hit(
            module.span(node),
            f"`{node.id}` is not defined: a NameError when {jobs[0].title} reaches this line{where}.",
            remedy=f"Write self.{node.id}."
            if own
            else f"Define or import {node.id}, or pass it as an argument.",
            severity=rule.severity if _is_used(module, node) else lowered(rule.severity),
        )


def _function_with(module: Module, name: str) -> str | None:
    """The function that has a variable of a name."""
    for function in module.nodes(ast.FunctionDef, ast.AsyncFunctionDef):
        if name in module.names.bindings(function):
            return function.name
    return None


def _is_used(module: Module, name: ast.Name) -> bool:
    """Whether the program runs the line: it is not in a branch, and something calls its function."""
    function = module.function_of(name)
    for ancestor in module.tree.ancestors(name):
        if ancestor is function:
            break
        is_main = isinstance(ancestor, ast.If) and "__main__" in module.text(ancestor.test)
        if isinstance(ancestor, (ast.If, ast.Lambda, ast.ExceptHandler)) and not is_main:
            return False
    return function is None or bool(known_call_sites(module, function))


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
