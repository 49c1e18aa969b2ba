"""The script expects a launcher, and the job starts it as one plain process: it fails in its first seconds.

`init_process_group()` reads RANK and WORLD_SIZE, and scripts for several GPUs read LOCAL_RANK. torchrun sets them; a job
without `distribution` does not: "Error initializing torch.distributed using env:// rendezvous: environment variable RANK
expected, but not set", or a KeyError, on an instance that is paid for. The rule does not report scripts that pass rank and
world_size, set the variables, or start their processes themselves.

Bad:

    # file: launch.py
    from sagemaker.pytorch import PyTorch

    PyTorch(
        entry_point="train.py", role="role", framework_version="2.3", py_version="py311",
        instance_count=1, instance_type="ml.g5.12xlarge",  # <-
    ).fit()
    # file: train.py
    import os
    import torch
    import torch.distributed as dist

    dist.init_process_group("nccl")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))

Bad: srun sets other variables

    # file: job.sbatch
    #!/bin/bash
    #SBATCH --nodes=1
    #SBATCH --ntasks-per-node=4
    #SBATCH --gres=gpu:4
    srun python train.py  # <-
    # file: train.py
    import os
    import torch
    import torch.distributed as dist

    dist.init_process_group("nccl")
    torch.cuda.set_device(int(os.environ["SLURM_LOCALID"]))

Good:

    # file: launch.py
    from sagemaker.pytorch import PyTorch

    PyTorch(
        entry_point="train.py", role="role", framework_version="2.3", py_version="py311",
        instance_count=1, instance_type="ml.g5.12xlarge", distribution={"torch_distributed": {"enabled": True}},
    ).fit()
    # file: train.py
    import torch.distributed as dist

    dist.init_process_group("nccl")

Bad:

    # file: gpuproof.yaml
    entry_point: train.py
    instance_type: ml.g5.12xlarge  # <-
    # file: train.py
    import torch.distributed as dist

    def main():
        dist.init_process_group("nccl")

    if __name__ == "__main__":
        main()

Bad: the command starts Python itself

    # file: launch.py
    from sagemaker.train import ModelTrainer
    from sagemaker.train.configs import Compute, SourceCode

    trainer = ModelTrainer(
        training_image="image",
        source_code=SourceCode(source_dir="src", command="python train.py"),  # <-
        compute=Compute(instance_type="ml.g5.12xlarge", instance_count=1),
    )
    # file: src/train.py
    import os

    local_rank = int(os.environ["LOCAL_RANK"])

Quiet: the script works with and without a launcher

    # file: launch.py
    from sagemaker.pytorch import PyTorch

    PyTorch(entry_point="train.py", role="role", instance_count=1, instance_type="ml.g5.xlarge").fit()
    # file: train.py
    import os
    import torch.distributed as dist

    if "RANK" in os.environ:
        dist.init_process_group("nccl")
        local_rank = int(os.environ["LOCAL_RANK"])

Quiet: the script numbers its own processes

    # file: launch.py
    from sagemaker.pytorch import PyTorch

    PyTorch(entry_point="train.py", role="role", instance_count=2, instance_type="ml.g5.xlarge").fit()
    # file: train.py
    import json
    import os
    import torch.distributed as dist

    hosts = json.loads(os.environ["SM_HOSTS"])
    dist.init_process_group("nccl", rank=hosts.index(os.environ["SM_CURRENT_HOST"]), world_size=len(hosts))

Quiet: the script sets what is missing

    # file: launch.py
    from sagemaker.pytorch import PyTorch

    PyTorch(entry_point="train.py", role="role", instance_count=1, instance_type="ml.g5.xlarge").fit()
    # file: train.py
    import os
    import torch.distributed as dist

    os.environ.setdefault("RANK", "0")
    os.environ.setdefault("WORLD_SIZE", "1")
    dist.init_process_group("nccl")

Quiet: the script starts its processes itself

    # file: launch.py
    from sagemaker.pytorch import PyTorch

    PyTorch(entry_point="train.py", role="role", instance_count=1, instance_type="ml.g5.12xlarge").fit()
    # file: train.py
    import torch
    import torch.distributed as dist

    def worker(rank):
        dist.init_process_group("nccl", init_method="tcp://127.0.0.1:2000", rank=rank, world_size=4)

    torch.multiprocessing.spawn(worker, nprocs=4)
"""

import ast
import re

from gpuproof.findings import Severity
from gpuproof.linter.analysis.call import Call, all_calls
from gpuproof.linter.analysis.evaluation.evaluate import evaluate
from gpuproof.linter.analysis.local_imports import local_modules
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.usage import find_uses, is_message
from gpuproof.linter.jobs.definition import JobDefinition
from gpuproof.linter.knowledge.aws.instances import gpus_per_host
from gpuproof.linter.knowledge.distribution.launchers import (
    format_distribution,
    has_no_launcher,
    launcher_name,
)
from gpuproof.linter.knowledge.distribution.ranks import always_runs, process_group_inits
from gpuproof.linter.knowledge.distribution.tasks import command_span
from gpuproof.linter.knowledge.frameworks.torch import UTILITIES
from gpuproof.linter.knowledge.programs import starts_programs
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule

rule = Rule("DS123", "process-group-without-launcher", Severity.ERROR, when="link")

_VARIABLES = frozenset({"RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE"})
_STARTS = re.compile(
    r"^((torch\.)?multiprocessing\.(?!cpu_count|\w*start_method|set_sharing_strategy)|ray|horovod|mpi4py|deepspeed"
    r"|smdistributed|accelerate|torch\.distributed\.(run|launch|elastic)|sagemaker_training)\b|(^|\.)(spawn|init_dist\w*)$"
)
"""What starts processes, or sets the variables itself."""
_ENVIRONMENT = re.compile(r"^os\.environ\.(setdefault|update)$|^os\.putenv$|load_dotenv$")


@rule.job
def check(job: JobDefinition, project: Project) -> Hits:
    script = job.script
    other = _other_launcher(job)
    if job.kind != "training" or script is None or not (job.has_contract or job.source == "remote" or other):
        return
    if not (other or has_no_launcher(job)) or (job.instance_type.text or "").startswith("local"):
        return
    given = set(job.environment.parts) | (set(job.start.environment) if job.start is not None else set())
    if given & _VARIABLES or job.environment.is_unknown or not _expects_launcher_only(script):
        return
    found = _needs(script)
    if found is None:
        return
    module, node, what, failure = found
    if other is not None:
        yield rule.hit(
            command_span(job),
            f"`{module.title}`, line {module.span(node).line}, {what}, but {other[0]} sets {other[1]}, and no RANK: {failure}.",
            remedy=f"Start it with torchrun, or set the variables from {other[1]} before.",
        )
        return
    gpus = gpus_per_host(project, job)
    paid = f", on {gpus} paid GPUs" if gpus is not None and gpus > 1 else ""
    launcher = format_distribution(job, "torch_distributed")
    name = launcher_name(job, "torch_distributed")
    yield rule.hit(
        job.where(job.command, job.instance_type, job.entry_point),
        f"`{module.title}`, line {module.span(node).line}, {what}, but the job starts it as one plain process, without "
        f"{name}: {failure}{paid}.",
        remedy=f"Start one process per GPU with {launcher}.",
    )


def _other_launcher(job: JobDefinition) -> tuple[str, str] | None:
    """The launcher that starts a script and sets other variables than torchrun's, and one of these."""
    start = job.start
    if start is None or start.is_conditional or not start.launchers:
        return None
    return {"srun": ("srun", "SLURM_PROCID"), "mpi": ("mpirun", "OMPI_COMM_WORLD_RANK")}.get(
        start.launchers[-1]
    )


def _expects_launcher_only(script: Module) -> bool:
    """Whether nothing in the script starts processes, sets the variables, or asks whether they are set."""
    if starts_programs(script) or any(map(_starts_or_sets, local_modules(script))):
        return False
    for module in local_modules(script):
        for node in module.nodes(ast.Compare):
            if any(isinstance(operator, (ast.In, ast.NotIn)) for operator in node.ops) and (
                evaluate(module, node.left).text in _VARIABLES
            ):
                return False
        for node in module.nodes(ast.Subscript):
            is_set = isinstance(node.ctx, ast.Store) and module.qualified(node.value) == "os.environ"
            if is_set and evaluate(module, node.slice).text in (*_VARIABLES, None):
                return False
        # `int(os.environ.get("WORLD_SIZE", 1)) > 1` decides whether there is a group.
        for use in find_uses(module, "call"):
            if not use.text.endswith((".get", "getenv")) or not isinstance(use.node, ast.Call):
                continue
            if is_message(module, use.node):
                continue
            if use.node.args and evaluate(module, use.node.args[0]).text in _VARIABLES:
                return False
    return True


def _starts_or_sets(module: Module) -> bool:
    """Whether a module starts processes itself, or sets the variables, not only others such as OMP_NUM_THREADS."""
    if any(
        _STARTS.search(use.text) and not UTILITIES.search(use.text)
        for use in find_uses(module, "call", "name")
    ):
        return True
    for call in all_calls(module):
        if not _ENVIRONMENT.search(call.name or call.method):
            continue
        value = call.argument(position=0)
        names = value.entries if value.entries is not None and value.entries.complete else (value.text,)
        if (
            not call.node.args
            or any(name in _VARIABLES or name is None for name in names)
            or call.method == "load_dotenv"
        ):
            return True
    return False


def _needs(script: Module) -> tuple[Module, ast.AST, str, str] | None:
    """What in the script certainly needs a launcher, and how it fails without."""
    for module in local_modules(script):
        for call in process_group_inits(module):
            if _reads_environment(call) and _runs(script, module, call.node):
                return (
                    module,
                    call.node,
                    "calls init_process_group()",
                    'ValueError, "RANK expected, but not set"',
                )
        for node in module.nodes(ast.Subscript):
            if not isinstance(node.ctx, ast.Load) or module.qualified(node.value) != "os.environ":
                continue
            name = evaluate(module, node.slice).text
            if name in _VARIABLES and _runs(script, module, node):
                return module, node, f"reads {name}", f"KeyError: '{name}'"
    return None


def _runs(script: Module, module: Module, node: ast.AST) -> bool:
    """Whether a node certainly runs in every run of the script."""
    if always_runs(module, node):
        return True
    # A function of another module that the script calls unconditionally.
    function = module.function_of(node)
    if module is script or function is None or _is_conditional(module, node, function):
        return False
    return any(
        call.text.rpartition(".")[2] == function.name and always_runs(script, call.node)
        for call in find_uses(script, "call")
    )


def _is_conditional(module: Module, node: ast.AST, function: ast.AST) -> bool:
    for ancestor in module.tree.ancestors(node):
        if ancestor is function:
            return False
        if isinstance(ancestor, (ast.If, ast.Try, ast.IfExp, ast.BoolOp, ast.Lambda)):
            return True
    return True


def _reads_environment(call: Call) -> bool:
    """Whether the process group takes its rank and size from the environment."""
    method = call.argument("init_method", 1)
    from_environment = method.is_absent or (method.text or "").startswith("env://")
    given = (call.argument("rank", 4), call.argument("world_size", 3), call.argument("store", 5))
    return from_environment and all(value.is_absent for value in given)
