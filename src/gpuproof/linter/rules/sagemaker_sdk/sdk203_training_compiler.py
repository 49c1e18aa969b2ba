"""The SageMaker Training Compiler was discontinued: it supports no current framework, and SDK version 3 removed it.

Its last images are PyTorch 1.13.1, TensorFlow 2.11 and transformers 4.21; with a later version the SDK raises
ValueError. Its replacements are `torch.compile` and XLA with `jit_compile=True`.

Bad:

    from sagemaker.pytorch import PyTorch, TrainingCompilerConfig

    PyTorch(
        entry_point="train.py", role="role", framework_version="2.1", py_version="py310",
        instance_count=1, instance_type="ml.g5.xlarge",
        compiler_config=TrainingCompilerConfig(),  # <-
    )

Good:

    from sagemaker.pytorch import PyTorch

    PyTorch(
        entry_point="train.py", role="role", framework_version="2.1", py_version="py310",
        instance_count=1, instance_type="ml.g5.xlarge",
    )

Quiet: versions that the compiler supports

    from sagemaker.huggingface import HuggingFace, TrainingCompilerConfig

    HuggingFace(
        entry_point="train.py", role="role", transformers_version="4.21", pytorch_version="1.11", py_version="py38",
        instance_count=1, instance_type="ml.g4dn.xlarge", compiler_config=TrainingCompilerConfig(),
    )
"""

from gpuproof.findings import Severity
from gpuproof.linter.analysis.call import origin_call
from gpuproof.linter.jobs.definition import JobDefinition
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule, lowered
from gpuproof.linter.sdk.calls import major_minor, sdk_major

rule = Rule("SDK203", "training-compiler", Severity.ERROR)

_LAST = {
    "pytorch": ("PyTorch", (1, 13), "torch.compile(model)"),
    "tensorflow": ("TensorFlow", (2, 11), "model.compile(jit_compile=True)"),
    "huggingface": ("transformers", (4, 21), "TrainingArguments(torch_compile=True)"),
}
"""The last version of each framework: `*-training-compiler.json` and `MAX_SUPPORTED_VERSION` of sagemaker 2.257.7."""


@rule.job
def check(job: JobDefinition, project: Project) -> Hits:
    known = _LAST.get(job.framework or "")
    call = job.call
    node = call.expression("compiler_config") if call is not None else None
    if known is None or call is None or node is None:
        return
    origin = origin_call(call.module, node)
    if origin is None or origin.method != "TrainingCompilerConfig":
        return
    name, last, instead = known
    version = major_minor(job.framework_version.text)
    removed = sdk_major(call.module, project) == 3
    if not removed and (version is None or version <= last):
        return
    ends = f"{name} {last[0]}.{last[1]}"
    yield rule.hit(
        origin.span,
        "sagemaker v3 has no training compiler."
        if removed
        else f"The training compiler supports versions up to {ends}; this job runs {job.framework_version.text}: the SDK raises "
        "ValueError.",
        remedy=f"Remove compiler_config and use {instead} in the script.",
        severity=rule.severity if removed or job.framework_version.is_known else lowered(rule.severity),
    )
