"""`device_map="auto"` spreads the model over all GPUs, and the job starts one process for each of them.

Every process would spread its own copy over the same GPUs. The Trainer and Accelerate refuse: "You can't train a model that has been loaded
with `device_map='auto'` in any distributed mode". Without them, the copies fill the GPUs. For data parallelism, each process loads the model on
its own GPU; `device_map` is for one process.

Bad:

    # file: launch.py
    from sagemaker.huggingface import HuggingFace

    HuggingFace(
        entry_point="train.py", role="role", instance_count=1, instance_type="ml.g5.12xlarge",
        transformers_version="4.49.0", pytorch_version="2.5.1", py_version="py311",
        distribution={"torch_distributed": {"enabled": True}},
    ).fit()
    # file: train.py
    import os
    from transformers import AutoModelForCausalLM, Trainer, TrainingArguments
    from data import dataset

    model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B", device_map="auto")  # <-
    arguments = TrainingArguments(os.environ["SM_MODEL_DIR"], dataloader_num_workers=4)
    Trainer(model=model, args=arguments, train_dataset=dataset).train()

Good: one process

    # file: launch.py
    from sagemaker.huggingface import HuggingFace

    HuggingFace(
        entry_point="train.py", role="role", instance_count=1, instance_type="ml.g5.12xlarge",
        transformers_version="4.49.0", pytorch_version="2.5.1", py_version="py311",
    ).fit()
    # file: train.py
    import os
    from transformers import AutoModelForCausalLM, Trainer, TrainingArguments
    from data import dataset

    model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B", device_map="auto")
    arguments = TrainingArguments(os.environ["SM_MODEL_DIR"], dataloader_num_workers=4)
    Trainer(model=model, args=arguments, train_dataset=dataset).train()

Quiet: each on its own GPU

    # file: launch.py
    from sagemaker.huggingface import HuggingFace

    HuggingFace(
        entry_point="train.py", role="role", instance_count=1, instance_type="ml.g5.12xlarge",
        transformers_version="4.49.0", pytorch_version="2.5.1", py_version="py311",
        distribution={"torch_distributed": {"enabled": True}},
    ).fit()
    # file: train.py
    import os
    from transformers import AutoModelForCausalLM, Trainer, TrainingArguments
    from data import dataset

    local_rank = int(os.environ["LOCAL_RANK"])
    model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B", device_map={"": local_rank})
    arguments = TrainingArguments(os.environ["SM_MODEL_DIR"], dataloader_num_workers=4)
    Trainer(model=model, args=arguments, train_dataset=dataset).train()
"""

from gpuproof.findings import Severity
from gpuproof.linter.analysis.call import calls_named
from gpuproof.linter.analysis.local_imports import local_modules
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.jobs.definition import JobDefinition
from gpuproof.linter.knowledge.aws.instances import gpus_per_host
from gpuproof.linter.knowledge.distribution.launchers import enabled_launchers, host_count, processes_per_host
from gpuproof.linter.knowledge.trainers.huggingface import trainer_calls
from gpuproof.linter.knowledge.trainers.language_models import SPREAD
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule, lowered

rule = Rule("HF111", "device-map-with-ranks", Severity.ERROR, needs=("device_map",))


@rule.module
def check(module: Module, project: Project) -> Hits:
    jobs = [job for job in project.jobs_running(module) if _starts_ranks(job, project)]
    if not jobs:
        return
    job = jobs[0]
    assert job.script is not None
    trains = any(
        trainer_calls(local) or calls_named(local, "prepare", "backward")
        for local in local_modules(job.script)
    )
    if not trains:
        return
    for call in calls_named(module, "from_pretrained"):
        value = call.argument("device_map")
        if value.text not in SPREAD or not (call.name or "").startswith(("transformers.", "peft.")):
            continue
        yield rule.hit(
            value.span or call.span,
            f'`device_map="{value.text}"` spreads the model over all GPUs, and {job.title} starts a process for each: ValueError.',
            remedy='Use device_map={"": int(os.environ["LOCAL_RANK"])}, or remove device_map; or start one process.',
            severity=rule.severity if value.is_known else lowered(rule.severity),
        )


def _starts_ranks(job: JobDefinition, project: Project) -> bool:
    """Whether a training job certainly starts several processes, one for each GPU."""
    if job.kind != "training" or job.script is None or not enabled_launchers(job):
        return False
    each = processes_per_host(job)
    number = each.number if not each.is_absent else gpus_per_host(project, job)
    return (number or 0) * (host_count(job) or 1) > 1
