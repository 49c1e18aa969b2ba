"""A fixed GPU index that the job's instance does not have: "CUDA error: invalid device ordinal".

`cuda:1` on an instance with one GPU fails at the first move, after the data has been downloaded. The index is often left over from a
shared workstation. With several instance types the smallest one decides.

Bad:

    # file: launch.py
    from sagemaker.pytorch import PyTorch

    PyTorch(entry_point="train.py", role="r", instance_count=1, instance_type="ml.g5.2xlarge").fit()
    # file: train.py
    import torch

    device = torch.device("cuda:1")  # <-
    model = torch.nn.Linear(4, 1).to(device)

Bad: in other forms

    # file: launch.py
    from sagemaker.pytorch import PyTorch

    PyTorch(entry_point="train.py", role="r", instance_count=1, instance_type="ml.g5.2xlarge").fit()
    # file: train.py
    import torch

    device = "cuda:2"  # <-
    torch.cuda.set_device(3)  # <-
    model = torch.nn.Linear(4, 1).cuda(1)  # <-
    other = torch.nn.DataParallel(model.to(device), device_ids=[0, 1])  # <-

Good:

    import torch

    device = torch.device("cuda:0")
    model = torch.nn.Linear(4, 1).to(device)

Quiet: the instance has it, or the index is computed

    # file: launch.py
    from sagemaker.pytorch import PyTorch

    PyTorch(
        entry_point="train.py", role="r", instance_count=1, instance_type="ml.g5.12xlarge",
        distribution={"torch_distributed": {"enabled": True}},
    ).fit()
    # file: train.py
    import os
    import torch

    device = torch.device("cuda:1")
    rank = torch.device(f"cuda:{os.environ['LOCAL_RANK']}")

Quiet: the script counts the GPUs first

    # file: launch.py
    from sagemaker.pytorch import PyTorch

    PyTorch(entry_point="train.py", role="r", instance_count=1, instance_type="ml.g5.2xlarge").fit()
    # file: train.py
    import torch

    device = torch.device("cuda:0")
    gpus = torch.cuda.device_count()
    if torch.cuda.device_count() > 1:
        device = torch.device("cuda:1")
    teacher_device = "cuda:1" if gpus > 1 else device
    model, teacher = torch.nn.Linear(4, 1).to(device), torch.nn.Linear(4, 1).to(teacher_device)
"""

import ast
import re
from collections.abc import Iterator

from gpuproof.findings import Severity
from gpuproof.linter.analysis.call import calls_named, calls_to
from gpuproof.linter.analysis.evaluation.evaluate import evaluate
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.syntax_index import callee_name
from gpuproof.linter.analysis.usage import is_message
from gpuproof.linter.knowledge.aws.instances import gpus_per_host
from gpuproof.linter.knowledge.distribution.strategies import is_conditional
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule, lowered

rule = Rule("PT105", "device-index-out-of-range", Severity.ERROR, when="link", needs=("cuda",))

_DEVICE = re.compile(r"^cuda:(\d+)$")


@rule.module
def check(module: Module, project: Project) -> Hits:
    if not module.imports("torch"):
        return
    counted = [(count, job) for job in project.jobs_running(module) if (count := gpus_per_host(project, job))]
    if not counted:
        return
    count, job = min(counted, key=lambda item: item[0])
    for node, index in _indices(module):
        if index < count or _is_counted(module, node):
            continue
        yield rule.hit(
            module.span(node),
            f"`{module.excerpt(node, 50)}`: GPU {index} does not exist, `{job.instance_type.text}` has only "
            f"{'GPU 0' if count == 1 else f'GPUs 0 to {count - 1}'} ({job.title}).",
            remedy='Use "cuda", or the local rank of the process.',
            severity=lowered(rule.severity) if is_conditional(module, node) else rule.severity,
        )


def _indices(module: Module) -> Iterator[tuple[ast.AST, int]]:
    """The places that name a GPU by a fixed index, and the index."""
    for node in module.nodes(ast.Constant):
        match = _DEVICE.match(node.value) if isinstance(node.value, str) else None
        # `map_location={"cuda:1": "cuda:0"}` names the device of a checkpoint.
        if match is None or isinstance(module.parent(node), (ast.Dict, ast.Compare, ast.Expr)):
            continue
        if is_message(module, node) or _is_default(module, node):
            continue
        yield node, int(match.group(1))
    for call in (
        *calls_to(module, "torch.cuda.set_device", "torch.cuda.device"),
        *calls_named(module, "cuda"),
    ):
        if call.method == "cuda" and call.receiver is None:
            continue
        value = call.argument("device", 0)
        if value.is_known and isinstance(value.value, int) and not isinstance(value.value, bool):
            yield call.node, value.value
    for call in calls_to(module, "torch.device"):
        index = call.argument("index", 1)
        if index.is_known and index.number is not None and call.argument("type", 0).text == "cuda":
            yield call.node, int(index.number)
    for call in calls_to(module, "torch.nn.DataParallel", "torch.nn.parallel.DataParallel"):
        given = call.expression("device_ids", 1)
        ids = [evaluate(module, item).number for item in given.elts] if isinstance(given, ast.List) else []
        numbers = [int(number) for number in ids if number is not None]
        if given is not None and numbers:
            yield given, max(numbers)


def _is_counted(module: Module, node: ast.AST) -> bool:
    """Whether a branch around a node depends on the number of GPUs."""
    branch = module.enclosing(node, ast.If, ast.IfExp)
    while isinstance(branch, (ast.If, ast.IfExp)):
        for child in ast.walk(branch.test):
            value = module.origin(child) if isinstance(child, ast.Name) else child
            if isinstance(value, ast.Call) and callee_name(value) == "device_count":
                return True
        branch = module.enclosing(branch, ast.If, ast.IfExp)
    return False


def _is_default(module: Module, node: ast.AST) -> bool:
    """Whether a text is the default of an argument, which the job may replace, or one of several choices."""
    parent = module.parent(node)
    return isinstance(parent, (ast.arguments, ast.List, ast.Tuple)) or (
        isinstance(parent, ast.keyword) and parent.arg in ("default", "choices", "map_location")
    )
