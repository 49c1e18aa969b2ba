"""The Trainer reads its data in the training process: `dataloader_num_workers` is 0, the default, on a GPU instance.

The GPU waits while the main process decodes and collates each batch. It costs most where examples are decoded when they are read: images
and audio in `with_transform`, a processor in the collator, a Dataset of the project with `__getitem__`. Text that was tokenized before
needs one or two workers at most; there, the default is only a note. The rule reports scripts of jobs with a GPU.

Bad:

    # file: launch.py
    from sagemaker.huggingface import HuggingFace

    HuggingFace(
        entry_point="train.py", role="role", instance_count=1, instance_type="ml.g5.2xlarge",
        transformers_version="4.49.0", pytorch_version="2.5.1", py_version="py311",
    ).fit()
    # file: train.py
    import os
    from datasets import load_from_disk
    from transformers import AutoModelForImageClassification, Trainer, TrainingArguments
    from vision import augment

    def transform(batch):
        return {"pixel_values": [augment(image) for image in batch["image"]], "labels": batch["label"]}

    dataset = load_from_disk(os.environ["SM_CHANNEL_TRAIN"]).with_transform(transform)
    arguments = TrainingArguments(os.environ["SM_MODEL_DIR"], remove_unused_columns=False)  # <-
    model = AutoModelForImageClassification.from_pretrained("google/vit-base-patch16-224")
    Trainer(model=model, args=arguments, train_dataset=dataset).train()

Good:

    # file: launch.py
    from sagemaker.huggingface import HuggingFace

    HuggingFace(
        entry_point="train.py", role="role", instance_count=1, instance_type="ml.g5.2xlarge",
        transformers_version="4.49.0", pytorch_version="2.5.1", py_version="py311",
    ).fit()
    # file: train.py
    import os
    from transformers import AutoModelForImageClassification, Trainer, TrainingArguments
    from vision import dataset

    arguments = TrainingArguments(os.environ["SM_MODEL_DIR"], dataloader_num_workers=7)
    model = AutoModelForImageClassification.from_pretrained("google/vit-base-patch16-224")
    Trainer(model=model, args=arguments, train_dataset=dataset).train()

Quiet: without a job

    from transformers import TrainingArguments

    arguments = TrainingArguments("/opt/ml/model")
"""

from gpuproof.findings import Severity
from gpuproof.linter.analysis.call import calls_named
from gpuproof.linter.analysis.local_imports import local_modules
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.jobs.definition import JobDefinition
from gpuproof.linter.knowledge.aws.instances import find_instance, gpus_per_host, host_text, largest_job
from gpuproof.linter.knowledge.trainers.dataset_columns import find_function, transforms
from gpuproof.linter.knowledge.trainers.huggingface import argument_sets, is_set_later, trainer_calls
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule

rule = Rule(
    "HF108",
    "trainer-without-workers",
    Severity.WARNING,
    needs=("TrainingArguments", "SFTConfig", "DPOConfig", "HfArgumentParser", "TrlParser"),
)

_NAME = "dataloader_num_workers"


@rule.module
def check(module: Module, project: Project) -> Hits:
    job = largest_job(project, module)
    if job is None or job.kind != "training" or not gpus_per_host(project, job):
        return
    for arguments in argument_sets(module, project):
        workers = arguments.get(_NAME)
        is_zero = workers.is_known and workers.number == 0
        if not (is_zero or workers.is_absent) or is_set_later(arguments, _NAME):
            continue
        if arguments.call is not None and not any(trainer_calls(local) for local in _modules(job, module)):
            continue
        decodes = any(_decodes(local) for local in _modules(job, module))
        yield rule.hit(
            arguments.where(_NAME),
            f"`{_NAME}` is 0{'' if is_zero else ' by default'}: the GPU of {host_text(job)} waits while the training "
            f"process {'decodes and ' if decodes else ''}collates each batch.",
            remedy=f"Pass {_NAME}={_workers(job, project)}.",
            severity=rule.severity if is_zero or decodes else Severity.NOTE,
        )


def _modules(job: JobDefinition, module: Module) -> list[Module]:
    return local_modules(job.script) if job.script is not None else [module]


def _decodes(module: Module) -> bool:
    """Whether examples are decoded when they are read."""
    if transforms(module):
        return True
    for owner in module.classes.values():
        if any(getattr(statement, "name", "") == "__getitem__" for statement in owner.body):
            return True
    for trainer in trainer_calls(module):
        collator = find_function(module, trainer.call.expression("data_collator", 2))
        if collator is not None and any(
            collator.module.tree.is_within(call.node, collator.node)
            for call in calls_named(collator.module, "processor", "image_processor", "feature_extractor")
        ):
            return True
    return False


def _workers(job: JobDefinition, project: Project) -> int:
    """Workers for each GPU: the vCPUs of the instance but for one, at most 8."""
    instance = find_instance(project, job.instance_type)
    if instance is None or instance.vcpus is None:
        return 4
    return max(1, min(8, (instance.vcpus - 1) // max(1, instance.gpu_count)))
