"""`torch.distributed.launch` is deprecated, and its successor torchrun sets LOCAL_RANK instead of passing
`--local_rank`.

torchrun was introduced in PyTorch 1.10. Under torchrun, a script that only reads the argument has local rank 0 in
every process, so all processes of a host use GPU 0. Since 2.0 the old launcher passes `--local-rank`, which such a
script rejects.
Source: https://docs.pytorch.org/docs/stable/elastic/run.html, "Transitioning from torch.distributed.launch".

Bad:

    import argparse
    import torch

    parser = argparse.ArgumentParser()
    parser.add_argument("--local_rank", type=int, default=0)  # <-
    args = parser.parse_args()
    torch.cuda.set_device(args.local_rank)
    torch.distributed.init_process_group("nccl")

Bad:

    import subprocess
    import sys

    subprocess.run([sys.executable, "-m", "torch.distributed.launch", "--nproc_per_node=4", "train.py"])  # <-

Good:

    import os
    import torch

    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    torch.distributed.init_process_group("nccl")

Quiet: both are supported

    import argparse
    import os
    import torch

    parser = argparse.ArgumentParser()
    parser.add_argument("--local_rank", type=int, default=int(os.environ.get("LOCAL_RANK", 0)))
    args = parser.parse_args()
    torch.distributed.init_process_group("nccl")

Quiet: DeepSpeed's launcher passes the argument

    import argparse
    import deepspeed
    import torch

    parser = argparse.ArgumentParser()
    parser.add_argument("--local_rank", type=int, default=0)
    deepspeed.init_distributed()
    torch.distributed.init_process_group("nccl")
"""

import ast
import re

from gpuproof.findings import Severity
from gpuproof.linter.analysis.call import calls_named
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.usage import find_uses, is_message
from gpuproof.linter.knowledge.distribution.ranks import process_group_inits, uses_distribution_library
from gpuproof.linter.knowledge.version_pins import pinned_versions
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule

rule = Rule(
    "DS117",
    "deprecated-launcher",
    Severity.NOTE,
    needs=("torch.distributed.launch", "local_rank", "local-rank"),
)

_LOCAL_RANK = re.compile(r"LOCAL_RANK")
_RUNNERS = ("run", "call", "check_call", "Popen", "check_output", "system")


@rule.module
def check(module: Module, _: Project) -> Hits:
    pinned = pinned_versions(module.unit).get("torch", "")
    if pinned.startswith(tuple(f"==1.{minor}." for minor in range(10))):
        return
    for call in calls_named(module, *_RUNNERS):
        if (call.name or "").startswith(("subprocess.", "os.")) and _names_launcher(call.node):
            yield rule.hit(
                call.span,
                "torch.distributed.launch is deprecated.",
                remedy="Use torchrun --nproc_per_node=..., and read LOCAL_RANK from the environment.",
            )
    if _reads_local_rank(module) or not process_group_inits(module) or uses_distribution_library(module):
        return
    for call in calls_named(module, "add_argument"):
        flags = {argument.value for argument in call.node.args if isinstance(argument, ast.Constant)}
        if flags & {"--local_rank", "--local-rank"}:
            yield rule.hit(
                call.span,
                "torchrun does not pass this argument: every process gets the default as its local rank.",
                remedy='Use int(os.environ["LOCAL_RANK"]).',
            )


def _reads_local_rank(module: Module) -> bool:
    """Whether code reads the variable for more than messages."""
    return any(
        _LOCAL_RANK.search(use.text) and not _is_only_printed(module, use.node)
        for use in find_uses(module, "string")
    )


def _is_only_printed(module: Module, node: ast.AST) -> bool:
    """Whether the value of a statement `name = value` with this node goes into messages, and nowhere else."""
    statement = module.enclosing(node, ast.stmt)
    if not isinstance(statement, ast.Assign) or not all(
        isinstance(target, ast.Name) for target in statement.targets
    ):
        return False
    reads = [
        name
        for name in module.nodes(ast.Name)
        if isinstance(name.ctx, ast.Load)
        and any(binding.value is statement.value for binding in module.reaching(name))
    ]
    return bool(reads) and all(is_message(module, name) for name in reads)


def _names_launcher(node: ast.Call) -> bool:
    texts = (
        child.value
        for child in ast.walk(node)
        if isinstance(child, ast.Constant) and isinstance(child.value, str)
    )
    return any(
        text.strip() == "torch.distributed.launch" or "-m torch.distributed.launch" in text for text in texts
    )
