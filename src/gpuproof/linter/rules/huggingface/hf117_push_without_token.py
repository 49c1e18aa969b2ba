"""The job pushes its model to the Hugging Face Hub, and nothing gives it a token: it fails before it trains.

With `push_to_hub=True`, the Trainer creates the repository when it is created itself; without a token this is an HTTP error 401. The login of a laptop
or a notebook is not in the container of a job. The rule reports scripts of jobs whose environment and hyperparameters are known and that neither log in
nor get a token.

Bad:

    # file: launch.py
    from sagemaker.huggingface import HuggingFace

    HuggingFace(
        entry_point="train.py", role="role", instance_count=1, instance_type="ml.g5.xlarge",
        transformers_version="4.49.0", pytorch_version="2.5.1", py_version="py311",
    ).fit()
    # file: train.py
    import os
    from transformers import AutoModelForSequenceClassification, Trainer, TrainingArguments
    from data import train_set

    model = AutoModelForSequenceClassification.from_pretrained("distilbert/distilbert-base-uncased")
    arguments = TrainingArguments(
        os.environ["SM_MODEL_DIR"], push_to_hub=True, hub_model_id="team/reviews", dataloader_num_workers=2  # <-
    )
    Trainer(model=model, args=arguments, train_dataset=train_set).train()

Good:

    # file: launch.py
    import os
    from sagemaker.huggingface import HuggingFace

    HuggingFace(
        entry_point="train.py", role="role", instance_count=1, instance_type="ml.g5.xlarge",
        transformers_version="4.49.0", pytorch_version="2.5.1", py_version="py311",
        environment={"HF_TOKEN": os.environ["HF_TOKEN"]},
    ).fit()
    # file: train.py
    import os
    from transformers import AutoModelForSequenceClassification, Trainer, TrainingArguments
    from data import train_set

    model = AutoModelForSequenceClassification.from_pretrained("distilbert/distilbert-base-uncased")
    arguments = TrainingArguments(
        os.environ["SM_MODEL_DIR"], push_to_hub=True, hub_model_id="team/reviews", dataloader_num_workers=2
    )
    Trainer(model=model, args=arguments, train_dataset=train_set).train()

Quiet: a secret

    # file: launch.py
    from sagemaker.huggingface import HuggingFace

    HuggingFace(
        entry_point="train.py", role="role", instance_count=1, instance_type="ml.g5.xlarge",
        transformers_version="4.49.0", pytorch_version="2.5.1", py_version="py311",
    ).fit()
    # file: train.py
    import os
    from huggingface_hub import login
    from transformers import TrainingArguments
    from secrets_of_team import read_token

    login(token=read_token())
    arguments = TrainingArguments(os.environ["SM_MODEL_DIR"], push_to_hub=True, hub_model_id="team/reviews")
"""

import re

from gpuproof.findings import Severity
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.usage import script_uses
from gpuproof.linter.jobs.definition import JobDefinition
from gpuproof.linter.knowledge.trainers.huggingface import argument_sets
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule

rule = Rule(
    "HF117", "push-without-token", Severity.ERROR, when="link", needs=("push_to_hub", "HfArgumentParser")
)

_TOKEN = re.compile(
    r"token$|^HF_|HUGGING_?FACE|(^|\.)(login|notebook_login|HfFolder|get_secret_value|interpreter_login)$",
    re.IGNORECASE,
)


@rule.module
def check(module: Module, project: Project) -> Hits:
    jobs = [job for job in project.jobs_running(module) if job.script is not None]
    if not jobs or not all(_has_no_token(job) for job in jobs):
        return
    for arguments in argument_sets(module, project):
        push = arguments.get("push_to_hub")
        if not push.is_known or push.flag is not True or not arguments.get("hub_token").is_absent:
            continue
        yield rule.hit(
            arguments.where("push_to_hub"),
            f"`push_to_hub` is on, and {jobs[0].title} gives the script no token of the Hub: HTTP error 401 before the training.",
            remedy='Pass environment={"HF_TOKEN": ...} to the job, from AWS Secrets Manager.',
        )


def _has_no_token(job: JobDefinition) -> bool:
    """Whether a job certainly has no token: neither in its environment, nor in its hyperparameters or its script."""
    if not job.has_contract or job.kind != "training":
        return False
    for value in (job.environment, job.hyperparameters):
        if value.is_absent:
            continue
        if (
            value.entries is None
            or not value.entries.complete
            or any(_TOKEN.search(str(key)) for key in value.entries)
        ):
            return False
    assert job.script is not None
    return not script_uses(job.script, _TOKEN, "string", "call", "name", "keyword", "attribute")
