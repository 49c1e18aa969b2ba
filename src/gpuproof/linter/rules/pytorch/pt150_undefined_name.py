"""The script of a job uses a name that nothing defines: a NameError, when the instance is already running.

It is often the last line of a script that fails: the model is trained, and the name in the call that should save it is a
variable of another function. ruff (F821) and pyright find undefined names in any file; here, the job says that the line
runs.

Bad:

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

Good:

    # file: launch.py
    from sagemaker.pytorch import PyTorch

    PyTorch(
        entry_point="train.py", role="role", framework_version="2.3", py_version="py311",
        instance_count=1, instance_type="ml.g5.xlarge",
    ).fit()
    # file: train.py
    import os
    import torch

    device = torch.device("cuda")

    def train():
        return torch.nn.Linear(4, 1).to(device)

    model = train()
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

Quiet: names that are bound in unusual ways

    # file: run.sh
    #SBATCH --gpus=1
    srun python train.py
    # file: train.py
    import torch

    try:
        profile
    except NameError:
        def profile(function):
            return function

    def setup():
        global device
        device = torch.device("cuda")

    setup()
    print([row for row in range(3)], device, __file__, profile)
    match {"a": 1}:
        case {"a": value, **rest}:
            print(value, rest)
    try:
        print(torch.zeros(1))
    except RuntimeError as error:
        print(error)

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

rule = Rule("PT150", "undefined-name", Severity.ERROR, when="link", needs=("import",))


@rule.module
def check(module: Module, project: Project) -> Hits:
    jobs = project.jobs_running(module)
    if not jobs or module.unit.kind not in ("python", "cell-file"):
        return
    for name in undefined_names(module):
        owner = _function_with(module, name.id)
        where = f": `{name.id}` of `{owner}` is not visible outside of it" if owner is not None else ""
        yield rule.hit(
            module.span(name),
            f"`{name.id}` is not defined: {jobs[0].title} ends with a NameError in this line{where}.",
            remedy=f"Import or define {name.id}, or pass it as an argument.",
            severity=rule.severity if _is_used(module, name) else lowered(rule.severity),
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
