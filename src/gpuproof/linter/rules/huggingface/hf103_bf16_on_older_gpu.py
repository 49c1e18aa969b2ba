"""The job trains or computes in bfloat16 on a GPU that has no bfloat16 units.

Hardware support begins with compute capability 8.0 (Ampere). On a T4 (g4dn), V100 (p3) or older GPU, TrainingArguments with
`bf16=True` raises "Your setup doesn't support bf16/gpu" with older versions of PyTorch; newer ones emulate it, several times slower
than float16. Lightning's `precision="bf16-mixed"` and Accelerate's `mixed_precision="bf16"` are emulated as well. The rule knows the GPU
from the job.

Bad:

    # file: launch.py
    from sagemaker.huggingface import HuggingFace

    HuggingFace(
        entry_point="train.py", role="role", instance_count=1, instance_type="ml.g4dn.xlarge",
        transformers_version="4.49.0", pytorch_version="2.5.1", py_version="py311",
    ).fit()
    # file: train.py
    from transformers import TrainingArguments

    arguments = TrainingArguments("/opt/ml/model", bf16=True)  # <-

Bad: Lightning

    # file: launch.py
    from sagemaker.pytorch import PyTorch

    PyTorch(
        entry_point="train.py", role="role", instance_count=1, instance_type="ml.p3.2xlarge",
        framework_version="2.3", py_version="py311",
    ).fit()
    # file: train.py
    import lightning as L

    trainer = L.Trainer(accelerator="gpu", precision="bf16-mixed", default_root_dir="/opt/ml/model")  # <-

Good: an A10G

    # file: launch.py
    from sagemaker.huggingface import HuggingFace

    HuggingFace(
        entry_point="train.py", role="role", instance_count=1, instance_type="ml.g5.xlarge",
        transformers_version="4.49.0", pytorch_version="2.5.1", py_version="py311",
    ).fit()
    # file: train.py
    from transformers import TrainingArguments

    arguments = TrainingArguments("/opt/ml/model", bf16=True)

Quiet: the script asks the GPU

    # file: launch.py
    from sagemaker.huggingface import HuggingFace

    HuggingFace(
        entry_point="train.py", role="role", instance_count=1, instance_type="ml.g4dn.xlarge",
        transformers_version="4.49.0", pytorch_version="2.5.1", py_version="py311",
    ).fit()
    # file: train.py
    import torch
    from transformers import TrainingArguments

    arguments = TrainingArguments("/opt/ml/model", bf16=torch.cuda.get_device_capability()[0] >= 8)
"""

from collections.abc import Iterator
from typing import NamedTuple

from gpuproof.findings import Severity
from gpuproof.linter.analysis.call import calls_to
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.values import Value
from gpuproof.linter.jobs.definition import JobDefinition
from gpuproof.linter.knowledge.aws.instances import find_instance
from gpuproof.linter.knowledge.trainers.huggingface import argument_sets
from gpuproof.linter.knowledge.trainers.lightning import created
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule, lowered
from gpuproof.linter.source.span import Span

rule = Rule(
    "HF103",
    "bf16-on-older-gpu",
    Severity.WARNING,
    needs=(
        "TrainingArguments",
        "SFTConfig",
        "DPOConfig",
        "HfArgumentParser",
        "TrlParser",
        "lightning",
        "bf16",
    ),
)

_FIRST = (8, 0)
"""The first compute capability with bfloat16 units: CUDA C++ Programming Guide, "Arithmetic Instructions", 2026-11-28."""


class _Choice(NamedTuple):
    """A place that chooses bfloat16."""

    span: Span
    text: str
    value: Value
    instead: str
    job: JobDefinition | None


@rule.module
def check(module: Module, project: Project) -> Hits:
    jobs = [job for job in project.jobs_running(module) if _older_gpu(job, project) is not None]
    if not jobs or len(jobs) < len(project.jobs_running(module)):
        return
    job = jobs[0]
    for choice in _choices(module, project):
        yield rule.hit(
            choice.span,
            f"`{choice.text}` on `{job.instance_type.text}`: its {_older_gpu(job, project)} has no bfloat16 units, so that PyTorch "
            "emulates them or raises a ValueError.",
            remedy=f"Use {choice.instead}, or an instance with compute capability 8.0 or newer, such as ml.g5 or ml.g6.",
            severity=rule.severity if choice.value.is_known else lowered(rule.severity),
        )


def _choices(module: Module, project: Project) -> Iterator[_Choice]:
    for arguments in argument_sets(module, project):
        for name in ("bf16", "bf16_full_eval"):
            value = arguments.get(name)
            if value.flag is True:
                instead = name.replace("bf16", "fp16")
                yield _Choice(arguments.where(name), f"{name}=True", value, f"{instead}=True", arguments.job)
    for call in created(module, "Trainer"):
        value = call.argument("precision")
        if value.text is not None and value.text.startswith("bf16"):
            instead = value.text.replace("bf16", "16")
            yield _Choice(
                value.span or call.span, f"precision={value.text!r}", value, f"precision={instead!r}", None
            )
    for call in calls_to(module, "accelerate.Accelerator"):
        value = call.argument("mixed_precision")
        if value.text == "bf16":
            yield _Choice(
                value.span or call.span, "mixed_precision='bf16'", value, "mixed_precision='fp16'", None
            )


def _older_gpu(job: JobDefinition, project: Project) -> str | None:
    """The name of a job's GPU if it has no bfloat16 units."""
    instance = find_instance(project, job.instance_type)
    gpu = project.catalogue.gpu(instance.gpu_model) if instance is not None and instance.gpu_model else None
    if gpu is None or gpu.compute_capability is None or gpu.compute_capability >= _FIRST:
        return None
    return gpu.name
