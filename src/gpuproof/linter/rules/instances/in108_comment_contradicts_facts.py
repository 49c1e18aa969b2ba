"""The comment next to an instance type mentions several GPUs, but the type has one.

`ml.p3.2xlarge` has one V100 and `ml.g5.8xlarge` one A10G: a larger size often only means more CPUs and memory. The
comment suggests that the job uses several GPUs. The rule only reads comments on the same line as the type, and only
unambiguous words.

Bad:

    from sagemaker.pytorch import PyTorch

    PyTorch(
        entry_point="train.py", role="role", instance_count=1,
        instance_type="ml.g5.8xlarge",  # multi-GPU instance  # <-
    )

Bad:

    from sagemaker.pytorch import PyTorch

    PyTorch(
        entry_point="train.py", role="role", instance_count=1,
        instance_type="ml.g5.12xlarge",  # 8 GPUs  # <-
    )

Good:

    from sagemaker.pytorch import PyTorch

    PyTorch(
        entry_point="train.py", role="role", framework_version="2.3", py_version="py311", instance_count=1,
        instance_type="ml.g5.12xlarge",  # 4 GPUs
    )

Quiet: the comment is about something else

    from sagemaker.pytorch import PyTorch

    PyTorch(
        entry_point="train.py", role="role", instance_count=1,
        instance_type="ml.g5.8xlarge",  # change to ml.g5.12xlarge for multi-GPU training
    )

Quiet: several hosts have several GPUs together

    from sagemaker.pytorch import PyTorch

    PyTorch(
        entry_point="train.py", role="role", instance_count=2,
        instance_type="ml.g5.8xlarge",  # 2 GPUs in all
    )
"""

import re

from gpuproof.findings import Severity
from gpuproof.linter.jobs.definition import JobDefinition
from gpuproof.linter.knowledge.aws.instances import find_instance
from gpuproof.linter.knowledge.distribution.launchers import host_count
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule

rule = Rule("IN108", "comment-contradicts-facts", Severity.NOTE)

_SEVERAL = re.compile(r"\b(multi-?\s?gpus?|multiple gpus|several gpus)\b", re.IGNORECASE)
_NUMBER = re.compile(
    r"\b(\d{1,2})\s*x?\s*(?:(?:nvidia|tesla)\s+)?(?:[A-Z]\d{1,3}G?\s+)?gpus?\b", re.IGNORECASE
)
_OTHER = re.compile(
    r"\b(for|if|to|change|use|or|not|no|need|instead|supports?|only|can|was|than)\b|\bml\.|\d+xlarge|\?",
    re.IGNORECASE,
)
"""Words in comments that may refer to another type or a hypothetical one."""


@rule.job
def check(job: JobDefinition, project: Project) -> Hits:
    span, instance = job.instance_type.span, find_instance(project, job.instance_type)
    if span is None or instance is None or not job.instance_type.is_known or host_count(job) != 1:
        return
    _, mark, comment = span.text.partition("#")
    if not mark or not instance.gpu_count or instance.name not in span.text or _OTHER.search(comment):
        return
    number = _NUMBER.search(comment)
    several = _SEVERAL.search(comment)
    if (number and int(number[1]) != instance.gpu_count) or (several and instance.gpu_count == 1):
        claim = next(item[0] for item in (number, several) if item is not None)
        gpus = "one GPU" if instance.gpu_count == 1 else f"{instance.gpu_count} GPUs"
        yield rule.hit(
            span,
            f'The comment says "{claim}", but `{instance.name}` has {gpus} ({instance.gpu_model}).',
            remedy="Correct the comment or the type.",
        )
