"""Hyperparameters and environment variables of a job are no place for secrets: DescribeTrainingJob shows them to all.

They also appear in the console, in CloudTrail, and in the job's log. SageMaker's API reference asks not to put security
sensitive information there. Secrets Manager keeps it, and the job's role reads it inside the script.

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
        hyperparameters={"epochs": 3, "token_secret": "prod/hub-token"},
    )

Quiet: a placeholder

    from sagemaker.huggingface import HuggingFace

    HuggingFace(
        entry_point="train.py", role="r", instance_count=1, instance_type="ml.g5.xlarge",
        environment={"HF_TOKEN": "<your token>"},
    )

Quiet: tokens of another kind

    from sagemaker.huggingface import HuggingFace

    HuggingFace(
        entry_point="train.py", role="r", instance_count=1, instance_type="ml.g5.xlarge",
        hyperparameters={"max_new_tokens": "2048", "pad_token": "[PAD]<|end|>"},
    )

Quiet: somebody is asked for it

    from sagemaker.huggingface import HuggingFace

    HuggingFace(
        entry_point="train.py", role="r", instance_count=1, instance_type="ml.g5.xlarge",
        hyperparameters={"api_key": input("key: ")},
    )
"""

import re

from gpuproof.check.jobs.definition import JobDefinition
from gpuproof.check.knowledge.placeholders import is_no_secret
from gpuproof.check.project import Project
from gpuproof.check.rule import Hits, Rule
from gpuproof.findings import Severity

rule = Rule("SE102", "secret-in-hyperparameters", Severity.ERROR)

_NAME = re.compile(
    r"(^|_)(hf|hub|hugging_?face|hugging_?face_?hub|wandb|api|auth|access|github|git|secret|bearer)_?(token|key)$"
    r"|password$|passwd$|(^|_)secret(_access)?(_key)?$|api_?key$|(^|_)token$|private_?key$",
    re.IGNORECASE,
)
_NO_SECRET_NAME = re.compile(
    r"(pad|eos|bos|unk|sep|cls|mask|special|start|end|stop|image|trigger|instance|placeholder)_?token$"
)
_LOOKS = re.compile(
    r"^(hf_[A-Za-z0-9]{16,}|sk-[A-Za-z0-9_-]{20,}|gh[pousr]_[A-Za-z0-9]{30,}|(AKIA|ASIA)[A-Z2-7]{16})$"
)


@rule.job
def check(job: JobDefinition, _: Project) -> Hits:
    for place, mapping in (("hyperparameters", job.hyperparameters), ("environment", job.environment)):
        for key, value in mapping.parts.items():
            name, text = str(key), value.text
            if text is None or not value.is_known or is_no_secret(text):
                continue
            named = _NAME.search(name.replace("-", "_")) and not _NO_SECRET_NAME.search(name.lower())
            if not _LOOKS.match(text) and not (named and _is_dense(text)):
                continue
            yield rule.hit(
                job.where(value, mapping),
                f"`{name}` looks like a secret in {place}: anyone who may describe the job reads it ({job.title}).",
                remedy="Revoke it, keep the new one in AWS Secrets Manager, and read it in the script with the job's role.",
            )


def _is_dense(text: str) -> bool:
    """Whether a text could be a secret: long, in one word, and no path or address."""
    return len(text) >= 8 and not re.search(r"[\s/\[\]]|^(true|false|none|auto)$", text, re.IGNORECASE)
