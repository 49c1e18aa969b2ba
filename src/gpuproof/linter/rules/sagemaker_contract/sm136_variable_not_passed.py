"""The script reads an environment variable that neither the job nor the container sets: KeyError when it starts.

A training job has the variables of its image, those of SageMaker (`SM_*`, `TRAINING_JOB_NAME`, ...) and those in the job's
`environment`; nothing of the machine that submits it. `os.environ["WANDB_PROJECT"]` works in the notebook and ends the
job. Source: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_CreateTrainingJob.html (Environment).

Bad:

    # file: launch.py
    from sagemaker.pytorch import PyTorch

    PyTorch(
        entry_point="train.py", instance_count=1, instance_type="ml.g5.xlarge",
        environment={"RUN_NAME": "first"},
    ).fit()
    # file: train.py
    import os

    print(os.environ["RUN_NAME"], os.environ["DATA_VERSION"])  # <-

Good:

    # file: launch.py
    from sagemaker.pytorch import PyTorch

    PyTorch(
        entry_point="train.py", role="role", framework_version="2.3", py_version="py311",
        instance_count=1, instance_type="ml.g5.xlarge", environment={"DATA_VERSION": "3"},
    ).fit()
    # file: train.py
    import os

    print(os.environ["DATA_VERSION"])

Quiet: a default, and variables of SageMaker and of launchers

    # file: launch.py
    from sagemaker.pytorch import PyTorch

    PyTorch(entry_point="train.py", instance_count=1, instance_type="ml.g5.xlarge").fit()
    # file: train.py
    import os

    version = os.environ.get("DATA_VERSION", "3")
    print(os.environ["SM_MODEL_DIR"], os.environ["TRAINING_JOB_NAME"], os.environ["LOCAL_RANK"], os.environ["HOME"])

Quiet: the script sets it, or checks it

    # file: launch.py
    from sagemaker.pytorch import PyTorch

    PyTorch(entry_point="train.py", instance_count=1, instance_type="ml.g5.xlarge").fit()
    # file: train.py
    import os

    os.environ["DATA_VERSION"] = "3"
    print(os.environ["DATA_VERSION"])
    if "STAGE" in os.environ:
        print(os.environ["STAGE"])

Quiet: an image of the project's own

    # file: launch.py
    from sagemaker.pytorch import PyTorch

    PyTorch(
        entry_point="train.py", instance_count=1, instance_type="ml.g5.xlarge",
        image_uri="111122223333.dkr.ecr.us-east-1.amazonaws.com/own:1",
    ).fit()
    # file: train.py
    import os

    print(os.environ["DATA_VERSION"])
"""

import ast
import re
from collections.abc import Iterator

from gpuproof.findings import Severity
from gpuproof.linter.analysis.call import calls_named
from gpuproof.linter.analysis.evaluation.evaluate import evaluate
from gpuproof.linter.analysis.local_imports import local_modules
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.jobs.definition import JobDefinition
from gpuproof.linter.knowledge.contract.script_contract import hidden_imports
from gpuproof.linter.knowledge.distribution.ranks import always_runs
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule

rule = Rule("SM136", "variable-not-passed", Severity.ERROR, when="link")

_OF_CONTAINER = re.compile(
    r"^(SM_|SAGEMAKER|AWS|TRAINING_JOB_|PROCESSING_JOB_|CURRENT_HOST|ECS_|DLC_|CUDA|NVIDIA|NCCL|FI_|RDMAV|OMPI|PMI|PMIX|SMDATAPARALLEL"
    r"|HOROVOD|TF_|TORCH|PYTORCH|HF_|TRANSFORMERS|KERAS|XLA|MKL|OMP|KMP|PYTHON|LD_|LC_|CONDA|MASTER_|GROUP_|ROLE_|NODE_|RANK$"
    r"|WORLD_SIZE$|LOCAL_|CROSS_|PATH$|HOME$|HOSTNAME$|HOST$|USER|LANG|LOGNAME|PWD|OLDPWD|SHELL$|TERM|TMP|TEMP|DEBIAN|SHLVL$|_$)"
)
"""Variables that the images of AWS, SageMaker or launchers may set."""


@rule.job
def check(job: JobDefinition, _: Project) -> Hits:
    script = job.script
    if script is None or script is job.module or job.kind != "training" or not _is_known(job):
        return
    if hidden_imports(script) or calls_named(script, "mock", "patch"):
        return
    modules = local_modules(script)
    if any(_may_set(module) for module in modules):
        return
    given = set(map(str, job.environment.parts))
    for node, name in _reads(script):
        if name in given or _OF_CONTAINER.match(name) or _is_handled(modules, name):
            continue
        if always_runs(script, node):
            yield rule.hit(
                script.span(node),
                f"The variable {name} is not set in {job.title}: KeyError when the script reads it.",
                remedy=f'Pass environment={{"{name}": ...}} to the job, or read it with a default: '
                f'os.environ.get("{name}", ...).',
            )


def _is_known(job: JobDefinition) -> bool:
    """Whether the variables of a job are known: its own, and those of an image of AWS."""
    if (
        job.source != "sagemaker-v2"
        or job.framework is None
        or not job.image.is_unset
        or not job.passes_arguments
    ):
        return False
    entries = job.environment.entries
    return job.environment.is_unset or (entries is not None and entries.complete)


def _reads(script: Module) -> Iterator[tuple[ast.Subscript, str]]:
    for node in script.nodes(ast.Subscript):
        if isinstance(node.ctx, ast.Load) and script.qualified(node.value) == "os.environ":
            name = evaluate(script, node.slice)
            if name.is_known and name.text:
                yield node, name.text


def _may_set(module: Module) -> bool:
    """Whether a module sets variables whose names it does not write out."""
    if calls_named(module, "load_dotenv", "read_env", "putenv"):
        return True
    return any(
        call.receiver is not None and module.qualified(call.receiver) == "os.environ"
        for call in calls_named(module, "update")
    )


def _is_handled(modules: list[Module], name: str) -> bool:
    """Whether code sets a variable, tests for it, or reads it with a default somewhere."""
    for module in modules:
        for node in module.nodes(ast.Constant):
            if node.value != name:
                continue
            match module.parent(node):
                case ast.Subscript(ctx=ast.Load()):
                    pass
                case _:
                    return True
        for node in module.nodes(ast.Try):
            if any(isinstance(child, ast.Constant) and child.value == name for child in ast.walk(node)):
                return True
    return False
