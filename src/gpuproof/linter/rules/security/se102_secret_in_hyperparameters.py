"""Hyperparameters and environment variables of a job must not contain secrets: DescribeTrainingJob returns them.

They also appear in the console, in CloudTrail and in the job's log. SageMaker's API reference warns against putting
security-sensitive information there. Store secrets in Secrets Manager and read them in the script with the job's
role.

Bad:

    from sagemaker.huggingface import HuggingFace

    HuggingFace(
        entry_point="train.py", role="r", instance_count=1, instance_type="ml.g5.xlarge",
        hyperparameters={"epochs": 3, "hf_token": "hf_QmVyZ2tyaXN0YWxs"},  # <-
    )

Good:

    from sagemaker.huggingface import HuggingFace

    HuggingFace(
        entry_point="train.py", role="r", instance_count=1, instance_type="ml.g5.xlarge",
        transformers_version="4.26", pytorch_version="1.13", py_version="py39",
        hyperparameters={"epochs": 3, "token_secret": "prod/hub-token"},
    )

Quiet: a placeholder

    from sagemaker.huggingface import HuggingFace

    HuggingFace(
        entry_point="train.py", role="r", instance_count=1, instance_type="ml.g5.xlarge",
        environment={"HF_TOKEN": "<your token>"},
    )

Quiet: other kinds of tokens

    from sagemaker.huggingface import HuggingFace

    HuggingFace(
        entry_point="train.py", role="r", instance_count=1, instance_type="ml.g5.xlarge",
        hyperparameters={"max_new_tokens": "2048", "pad_token": "[PAD]<|end|>"},
    )

Quiet: the user is prompted for it

    from sagemaker.huggingface import HuggingFace

    HuggingFace(
        entry_point="train.py", role="r", instance_count=1, instance_type="ml.g5.xlarge",
        hyperparameters={"api_key": input("key: ")},
    )
"""

import re

from gpuproof.findings import Severity
from gpuproof.linter.jobs.definition import JobDefinition
from gpuproof.linter.knowledge.placeholders import is_not_secret
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule

rule = Rule("SE102", "secret-in-hyperparameters", Severity.ERROR)

_NAME = re.compile(
    r"(^|_)(hf|hub|hugging_?face|hugging_?face_?hub|wandb|api|auth|access|github|git|secret|bearer)_?(token|key)$"
    r"|password$|passwd$|(^|_)secret(_access)?(_key)?$|api_?key$|(^|_)token$|private_?key$",
    re.IGNORECASE,
)
_NO_SECRET_NAME = re.compile(
    r"(pad|eos|bos|unk|sep|cls|mask|special|start|end|stop|image|trigger|instance|placeholder)_?token$"
)
_SECRET_FORMAT = re.compile(
    r"^(hf_[A-Za-z0-9]{16,}|sk-[A-Za-z0-9_-]{20,}|gh[pousr]_[A-Za-z0-9]{30,}|(AKIA|ASIA)[A-Z2-7]{16})$"
)


@rule.job
def check(job: JobDefinition, _: Project) -> Hits:
    for place, mapping in (("hyperparameters", job.hyperparameters), ("environment", job.environment)):
        for key, value in mapping.parts.items():
            name, text = str(key), value.text
            if text is None or not value.is_known or is_not_secret(text):
                continue
            named = _NAME.search(name.replace("-", "_")) and not _NO_SECRET_NAME.search(name.lower())
            if not _SECRET_FORMAT.match(text) and not (named and _is_dense(text)):
                continue
            yield rule.hit(
                job.where(value, mapping),
                f"`{name}` in {place} looks like a secret: anyone who may describe the job can read it ({job.title}).",
                remedy="Revoke it, store the new one in AWS Secrets Manager, and read it in the script with the job's role.",
            )


def _is_dense(text: str) -> bool:
    """Whether a text could be a secret: a single long word, not a path or address."""
    return len(text) >= 8 and not re.search(r"[\s/\[\]]|^(true|false|none|auto)$", text, re.IGNORECASE)
