"""The instance has a GPU, but the job cannot use one.

SageMaker's scikit-learn containers are built for CPUs only: the SDK rejects a GPU type for `SKLearn` with
"Unsupported processor: gpu". XGBoost trains on the CPU unless `device="cuda"` or `tree_method="gpu_hist"` is set, and
a script that only uses pandas and scikit-learn leaves the GPU idle in any container, at several times the price of a
CPU instance.

Bad:

    from sagemaker.sklearn import SKLearn

    SKLearn(entry_point="train.py", role="r", framework_version="1.2-1", instance_type="ml.g5.xlarge")  # <-

Bad: a script that only uses pandas

    # file: launch.py
    from sagemaker.pytorch import PyTorch

    PyTorch(entry_point="train.py", role="r", instance_count=1, instance_type="ml.g5.xlarge").fit()  # <-
    # file: train.py
    import pandas as pd
    from sklearn.linear_model import LogisticRegression

    table = pd.read_csv("/opt/ml/input/data/train/table.csv")
    LogisticRegression().fit(table[["a"]], table["b"])

Good:

    from sagemaker.sklearn import SKLearn

    SKLearn(entry_point="train.py", role="r", framework_version="1.2-1", instance_type="ml.m5.xlarge")

Quiet: XGBoost on the GPU

    from sagemaker.xgboost import XGBoost

    XGBoost(
        entry_point="train.py", role="r", framework_version="1.7-1", instance_count=1, instance_type="ml.g5.xlarge",
        hyperparameters={"tree_method": "gpu_hist"},
    )

Quiet: cuDF uses the GPU

    # file: launch.py
    from sagemaker.pytorch import PyTorch

    PyTorch(entry_point="train.py", role="r", instance_count=1, instance_type="ml.g5.xlarge").fit()
    # file: train.py
    import cudf
    from sklearn.linear_model import LogisticRegression

    LogisticRegression().fit(cudf.read_csv("table.csv"), [])
"""

import ast
import re
import sys

from gpuproof.findings import Severity
from gpuproof.linter.analysis.call import all_calls
from gpuproof.linter.analysis.local_imports import local_modules
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.syntax_index import callee_name
from gpuproof.linter.analysis.usage import find_uses, script_uses
from gpuproof.linter.jobs.definition import JobDefinition
from gpuproof.linter.knowledge.aws.instances import find_instance, hourly_price, hourly_text, no_price
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule, lowered

rule = Rule("CO105", "gpu-for-cpu-framework", Severity.ERROR)

_CPU_LIBRARIES = frozenset(
    {
        "numpy",
        "pandas",
        "sklearn",
        "scipy",
        "joblib",
        "boto3",
        "botocore",
        "matplotlib",
        "seaborn",
        "statsmodels",
        "sagemaker",
        "sagemaker_training",
        "sagemaker_containers",
        "yaml",
        "requests",
        "tqdm",
        "pyarrow",
        "s3fs",
    }
)
_GPU = re.compile(r"gpu|cuda", re.IGNORECASE)
_GPU_LIBRARIES = re.compile(r"gpu|cuda|^(cupy|cudf|cuml|rmm|numba|torch|tensorflow)(\.|$)", re.IGNORECASE)
_NO_CHOICE = re.compile(r"^(SM_NUM_GPUS|CUDA_\w+|NVIDIA_\w+)$")
"""Variables that count or hide GPUs, and choose none for XGBoost."""
_DEVICE_PARAMETERS = ("device", "tree_method", "updater", "predictor")
_OPAQUE = re.compile(
    r"^(subprocess|importlib|ctypes)\.|^os\.(system|popen|exec\w*)$|^(exec|eval|__import__)$"
)
"""Code that may run something else."""


@rule.job
def check(job: JobDefinition, project: Project) -> Hits:
    instance = find_instance(project, job.instance_type)
    if instance is None or not instance.gpu_count or job.kind == "notebook":
        return
    if job.framework == "sklearn":
        if not job.image.is_unset:
            return
        what, severity = "The scikit-learn container", Severity.ERROR
    elif job.framework == "xgboost":
        if not _is_cpu_xgboost(job):
            return
        what, severity = "XGBoost without device=cuda", Severity.WARNING
    elif job.script is not None and job.kind in ("training", "processing") and _is_cpu_script(job.script):
        what, severity = f"`{job.script_title}` (pandas and scikit-learn)", Severity.WARNING
    else:
        return
    price = hourly_price(project, instance.name, job.kind)
    cost = f" at {hourly_text(price)}" if price else no_price(project)
    gpus = "the GPU" if instance.gpu_count == 1 else f"the {instance.gpu_count} GPUs"
    yield rule.hit(
        job.where(job.instance_type),
        f"{what} does not use {gpus} of `{instance.name}`{cost}.",
        remedy="Use a CPU instance such as ml.m5.xlarge.",
        severity=severity if job.instance_type.is_known else lowered(severity),
    )


def _is_cpu_xgboost(job: JobDefinition) -> bool:
    """Whether neither the hyperparameters nor the script can enable the GPU."""
    if job.kind != "training" or job.hyperparameters.is_unknown or job.script is None:
        return False
    entries = job.hyperparameters.entries
    if entries is not None:
        if not entries.complete or any(_GPU.search(str(name)) for name in entries):
            return False
        if any(name in _DEVICE_PARAMETERS and value.is_unknown for name, value in entries.items()):
            return False
        if any(_GPU.search(text) for value in entries.values() for text in value.texts):
            return False
    return not _may_choose_gpu(job.script) and not script_uses(job.script, _OPAQUE, "call")


def _is_cpu_script(script: Module) -> bool:
    """Whether a script uses only libraries that cannot use a GPU, whatever it asks them for."""
    modules = local_modules(script)
    roots = {
        name.lstrip(".").partition(".")[0]
        for module in modules
        for name in module.names.modules
        if module.loader.imported_module(module, name) is None
    }
    known = all(root in _CPU_LIBRARIES or root in sys.stdlib_module_names for root in roots)
    works = bool(roots & {"sklearn", "pandas"})
    has_star = any(module.names.has_star for module in modules)
    return known and works and not has_star and not script_uses(script, _OPAQUE, "call")


def _may_choose_gpu(script: Module) -> bool:
    """Whether code of a script may ask XGBoost for the GPU; messages, `use_gpu=False` and counting GPUs do not."""
    if script_uses(script, _GPU_LIBRARIES, "name", "call"):
        return True
    for module in local_modules(script):
        for use in find_uses(module, "string"):
            if _GPU.search(use.text) and not _NO_CHOICE.match(use.text) and not _is_flag(module, use.node):
                return True
        for call in all_calls(module):
            for name in call.keywords:
                value = call.argument(name)
                if _GPU.search(name) and not (value.is_known and not value.value):
                    return True
    return False


def _is_flag(module: Module, node: ast.AST) -> bool:
    """Whether a text is the name of a command-line argument, whose use is seen where it is read."""
    call = module.parent(node)
    return isinstance(call, ast.Call) and callee_name(call) == "add_argument" and node in call.args
