"""`fp16` and `bf16` are both on: TrainingArguments raises a ValueError before anything runs.

"At most one of fp16 and bf16 can be True, but not both" also holds for `fp16_full_eval` with `bf16_full_eval`. The rule reads the
call, and the hyperparameters of a job whose script parses TrainingArguments with HfArgumentParser.

Bad:

    from transformers import TrainingArguments

    arguments = TrainingArguments("/opt/ml/model", bf16=True, fp16=True)  # <-

Bad: hyperparameters of a job

    # file: launch.py
    from sagemaker.huggingface import HuggingFace

    HuggingFace(
        entry_point="train.py", role="role", instance_count=1, instance_type="ml.g5.xlarge",
        transformers_version="4.49.0", pytorch_version="2.5.1", py_version="py311",
        hyperparameters={"output_dir": "/opt/ml/model", "bf16": True, "fp16": True},  # <-
    ).fit()
    # file: train.py
    from transformers import HfArgumentParser, TrainingArguments

    (arguments,) = HfArgumentParser(TrainingArguments).parse_args_into_dataclasses()

Good:

    from transformers import TrainingArguments

    arguments = TrainingArguments("/opt/ml/model", bf16=True)

Quiet: one or the other

    import torch
    from transformers import TrainingArguments

    is_ampere = torch.cuda.is_bf16_supported()
    arguments = TrainingArguments("/opt/ml/model", bf16=is_ampere, fp16=not is_ampere)
"""

from gpuproof.findings import Severity
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.knowledge.trainers.huggingface import argument_sets
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule, lowered

rule = Rule("HF102", "two-half-precisions", Severity.ERROR, needs=("transformers", "trl"))

_PAIRS = (("fp16", "bf16"), ("fp16_full_eval", "bf16_full_eval"))


@rule.module
def check(module: Module, project: Project) -> Hits:
    for arguments in argument_sets(module, project):
        for pair in _PAIRS:
            values = [arguments.get(name) for name in pair]
            if all(value.flag is True for value in values):
                is_known = all(value.is_known for value in values)
                yield rule.hit(
                    arguments.where(*pair),
                    f"`{pair[0]}` and `{pair[1]}` are both on: ValueError.",
                    remedy="Keep bf16 on GPUs with compute capability 8.0 or newer, and fp16 on older ones.",
                    severity=rule.severity if is_known else lowered(rule.severity),
                )
