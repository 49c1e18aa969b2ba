"""The settings of the Trainer say `use_cpu` or `no_cuda`: it trains on the CPU, and the GPU is idle.

The arguments come from the hyperparameters or the command of a job, or from the settings file that HfArgumentParser or TrlParser reads. (PT109 reports
the same in a call of TrainingArguments.) Without a job it is a warning: the file may be for a laptop.

Bad:

    # file: launch.py
    from sagemaker.huggingface import HuggingFace

    HuggingFace(
        entry_point="train.py", role="role", instance_count=1, instance_type="ml.g5.xlarge",
        transformers_version="4.49.0", pytorch_version="2.5.1", py_version="py311",
        hyperparameters={"output_dir": "/opt/ml/model", "use_cpu": True},  # <-
    ).fit()
    # file: train.py
    from transformers import HfArgumentParser, TrainingArguments

    (arguments,) = HfArgumentParser(TrainingArguments).parse_args_into_dataclasses()

Good:

    # file: launch.py
    from sagemaker.huggingface import HuggingFace

    HuggingFace(
        entry_point="train.py", role="role", instance_count=1, instance_type="ml.g5.xlarge",
        transformers_version="4.49.0", pytorch_version="2.5.1", py_version="py311",
        hyperparameters={"output_dir": "/opt/ml/model", "bf16": True},
    ).fit()
    # file: train.py
    from transformers import HfArgumentParser, TrainingArguments

    (arguments,) = HfArgumentParser(TrainingArguments).parse_args_into_dataclasses()

Quiet: an instance without a GPU

    # file: launch.py
    from sagemaker.huggingface import HuggingFace

    HuggingFace(
        entry_point="train.py", role="role", instance_count=1, instance_type="ml.m5.xlarge",
        transformers_version="4.49.0", pytorch_version="2.5.1", py_version="py311",
        hyperparameters={"output_dir": "/opt/ml/model", "use_cpu": True},
    ).fit()
    # file: train.py
    from transformers import HfArgumentParser, TrainingArguments

    (arguments,) = HfArgumentParser(TrainingArguments).parse_args_into_dataclasses()
"""

from gpuproof.findings import Severity
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.knowledge.aws.instances import gpus_per_host, host_text, largest_job
from gpuproof.linter.knowledge.frameworks.torch import runs_without_gpu
from gpuproof.linter.knowledge.trainers.huggingface import argument_sets
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule, lowered

rule = Rule("HF109", "trainer-told-to-use-cpu", Severity.ERROR, needs=("HfArgumentParser", "TrlParser"))

_NAMES = ("use_cpu", "no_cuda")


@rule.module
def check(module: Module, project: Project) -> Hits:
    if runs_without_gpu(module, project):
        return
    for arguments in argument_sets(module, project):
        if arguments.call is not None:
            continue
        job = arguments.job or largest_job(project, module)
        has_gpu = job is not None and bool(gpus_per_host(project, job))
        if arguments.job is not None and not has_gpu:
            continue
        for name in _NAMES:
            value = arguments.get(name)
            if value.flag is not True:
                continue
            where = f", and the GPU of {host_text(job)} is idle" if job is not None and has_gpu else ""
            yield rule.hit(
                arguments.where(name),
                f"`{name}` is on: the Trainer uses the CPU{where}.",
                remedy=f"Remove {name}.",
                severity=rule.severity if has_gpu and value.is_known else lowered(rule.severity),
            )
