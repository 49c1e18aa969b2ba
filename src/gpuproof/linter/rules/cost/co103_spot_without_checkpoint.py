"""Managed spot training interrupts the job when EC2 needs the instance, then restarts the script from the beginning.

Without a checkpoint location all progress of the first attempt is lost: a job that takes longer than the usual time
between two interruptions may never finish. SageMaker copies `/opt/ml/checkpoints` to `checkpoint_s3_uri` while the
script runs, and back before it restarts. A location does not help a script that never writes to that folder, or never
reads from it. Short jobs lose little and are not reported.

Bad:

    from sagemaker.pytorch import PyTorch

    PyTorch(
        entry_point="train.py", role="r", instance_count=1, instance_type="ml.g5.xlarge",
        use_spot_instances=True, max_run=86400, max_wait=90000,  # <-
    )

Bad: the script never writes a checkpoint

    # file: launch.py
    from sagemaker.pytorch import PyTorch

    PyTorch(
        entry_point="train.py", role="r", instance_count=1, instance_type="ml.g5.xlarge",
        use_spot_instances=True, max_run=86400, max_wait=90000, checkpoint_s3_uri="s3://bucket/checkpoints",  # <-
    )
    # file: train.py
    import os
    import torch

    model = torch.nn.Linear(8, 1).cuda()
    torch.save(model.state_dict(), os.path.join(os.environ["SM_MODEL_DIR"], "model.pth"))

Quiet: the script writes and reads them

    # file: launch.py
    from sagemaker.pytorch import PyTorch

    PyTorch(
        entry_point="train.py", role="r", instance_count=1, instance_type="ml.g5.xlarge",
        use_spot_instances=True, max_run=86400, max_wait=90000, checkpoint_s3_uri="s3://bucket/checkpoints",
    )
    # file: train.py
    import os
    import torch

    PATH = "/opt/ml/checkpoints/last.pt"
    model = torch.nn.Linear(8, 1).cuda()
    if os.path.exists(PATH):
        model.load_state_dict(torch.load(PATH))
    torch.save(model.state_dict(), PATH)

Bad: the Trainer saves its checkpoints elsewhere

    # file: launch.py
    from sagemaker.huggingface import HuggingFace

    HuggingFace(
        entry_point="train.py", role="r", instance_count=1, instance_type="ml.g5.xlarge",
        use_spot_instances=True, max_run=7200, max_wait=14400,  # <-
        checkpoint_s3_uri="s3://bucket/checkpoints",
    ).fit()
    # file: train.py
    from transformers import Trainer, TrainingArguments

    Trainer(model=None, args=TrainingArguments(output_dir="/tmp/checkpoints")).train()

Good:

    from sagemaker.pytorch import PyTorch

    PyTorch(
        entry_point="train.py", role="r", framework_version="2.3", py_version="py311",
        instance_count=1, instance_type="ml.g5.xlarge",
        use_spot_instances=True, max_run=86400, max_wait=90000, checkpoint_s3_uri="s3://bucket/checkpoints",
    )

Quiet: spot is turned off

    from sagemaker.pytorch import PyTorch

    use_spot = False
    PyTorch(
        entry_point="train.py", role="r", instance_count=1, instance_type="ml.g5.xlarge", use_spot_instances=use_spot,
    )

Quiet: a job of ten minutes

    from sagemaker.pytorch import PyTorch

    PyTorch(
        entry_point="train.py", role="r", instance_count=1, instance_type="ml.g5.xlarge",
        use_spot_instances=True, max_run=600, max_wait=1200,
    )
"""

import re
from collections.abc import Sequence

from gpuproof.findings import Severity
from gpuproof.linter.analysis.call import Call, all_calls
from gpuproof.linter.analysis.container_env import MODEL_DIR, OUTPUT_DIR
from gpuproof.linter.analysis.evaluation.evaluate import evaluate
from gpuproof.linter.analysis.local_imports import local_modules
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.usage import find_uses, is_message, uses
from gpuproof.linter.analysis.values import Value
from gpuproof.linter.jobs.definition import JobDefinition
from gpuproof.linter.knowledge.aws.instances import hourly_price, hourly_text, no_price
from gpuproof.linter.knowledge.contract.kept_folders import (
    find_keepers,
    has_checkpoint_location,
    is_kept,
    kept_folders,
)
from gpuproof.linter.knowledge.contract.processing_mounts import may_open_to_write
from gpuproof.linter.knowledge.contract.script_contract import hidden_imports
from gpuproof.linter.knowledge.distribution.multi_gpu import trainer_runs
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule, lowered

rule = Rule("CO103", "spot-without-checkpoint", Severity.WARNING)

_SHORT_SECONDS = 15 * 60
_SPOT = (
    "use_spot_instances",
    "train_use_spot_instances",
    "enable_managed_spot_training",
    "EnableManagedSpotTraining",
)


_KEYS = {"boto3": "CheckpointConfig", "sagemaker-v2": "checkpoint_s3_uri"}
_TRAINERS = re.compile(
    r"(^|\.)\w*(Trainer|TrainingArguments|Callback|CheckpointManager|BackupAndRestore|Accelerator|Fabric)$"
)
_LOADS = re.compile(
    r"^(torch|joblib|pickle|numpy|dill|cloudpickle|flax\.\w+|orbax\.\w+)\.(\w+\.)*load(_\w+)?$|(^|[._])(restore\w*|resume\w*)$"
    r"|load\w*_(state|checkpoint|weights|model|dict|parameters|state_dict)\w*|(latest|last|newest)\w*_(checkpoint|ckpt)"
    r"|(^|\.)(load_from_checkpoint|load_model|Booster|BackupAndRestore)$",
    re.IGNORECASE,
)
"""Calls that may read a checkpoint; a loader of data reads none."""
_READS_FILES = ("open", "read_text", "read_bytes", "read_csv", "read_parquet", "read_pickle", "read_json")
_RESUMES = re.compile(
    r"^(resume\w*|ckpt_path|initial_epoch|init_model|xgb_model|initial_step)$", re.IGNORECASE
)


@rule.job
def check(job: JobDefinition, project: Project) -> Hits:
    if job.kind != "training" or job.source in ("gpuproof", "what-if"):
        return
    spot = next((value for name in _SPOT if (value := job.arguments.get(name)) is not None), None)
    if spot is None or spot.flag is not True:
        return
    unused = _unused_location(job) if has_checkpoint_location(job) else None
    if unused is None and has_checkpoint_location(job):
        return
    limit = _time_limit(job)
    if limit is not None and limit <= _SHORT_SECONDS:
        return
    price = (
        hourly_price(project, job.instance_type.text or "", "training") if job.instance_type.text else None
    )
    cost = f" and {hourly_text(price)} of `{job.instance_type.text}` is paid for again" if price else ""
    if job.instance_type.text and price is None:
        cost = no_price(project)
    if unused is not None:
        what, remedy = unused
        message = f"Spot training, but {what}: after an interruption, training restarts from scratch{cost}."
    else:
        message = f"Spot training without a checkpoint location: after an interruption, training restarts from scratch{cost}."
        remedy = f"Pass {_KEYS.get(job.source, 'checkpoint_config')}, save to /opt/ml/checkpoints, and load from there at startup."
    yield rule.hit(
        job.where(spot),
        message,
        remedy=remedy,
        severity=rule.severity if spot.is_known else lowered(rule.severity),
    )


def _unused_location(job: JobDefinition) -> tuple[str, str] | None:
    """What a job's script does not do with its checkpoint location, and what to change; None if it may use it."""
    script = job.script
    if script is None or hidden_imports(script):
        return None
    modules = local_modules(script)
    folders = [
        folder
        for folder in kept_folders([job])
        if folder != MODEL_DIR and not folder.startswith(f"{OUTPUT_DIR}/")
    ]
    if (elsewhere := _other_output_dir(job, modules)) is not None:
        return (
            f"the Trainer of `{job.script_title}` saves its checkpoints to {elsewhere}, which the checkpoint location does not copy",
            'Write output_dir="/opt/ml/checkpoints".',
        )
    if (
        (runs := trainer_runs(script))
        and not any(map(_may_resume, runs))
        and not _loads_anything(modules, folders)
    ):
        return (
            f"`{runs[0].module.text(runs[0].node)}` of `{job.script_title}` does not resume",
            "Write trainer.train(resume_from_checkpoint=get_last_checkpoint(output_dir)), which is None at the first start.",
        )
    # Trainers write checkpoints themselves, where their output_dir says; those of other libraries may also read them.
    if any(uses(module, _TRAINERS, "name", "call") for module in modules):
        return None
    title = job.script_title
    if not find_keepers(modules, folders):
        return (
            f"`{title}` never saves to {folders[-1]}, which the checkpoint location copies",
            f"Save a checkpoint to {folders[-1]} in each epoch, and load it at startup.",
        )
    if not _loads_anything(modules, folders):
        return (f"`{title}` never loads a checkpoint", f"Load the newest file in {folders[-1]} at startup.")
    return None


def _may_resume(run: Call) -> bool:
    """Whether a run of transformers' Trainer may start from a checkpoint."""
    given = run.argument("resume_from_checkpoint", 0)
    return not given.is_absent and _may_be_set(given)


def _may_be_set(value: Value) -> bool:
    """Whether a value may be neither None nor False."""
    return not (value.is_known and not value.value)


def _may_be_kept(read: Call, folders: Sequence[str]) -> bool:
    """Whether a file that is read may be in one of these folders."""
    writes = read.method == "open" and may_open_to_write(read)
    path = (
        evaluate(read.module, read.receiver)
        if read.method.startswith("read_") and read.name is None
        else read.argument(position=0)
    )
    return not writes and (path.text is None or is_kept(path.text, folders))


def _loads_anything(modules: Sequence[Module], folders: Sequence[str]) -> bool:
    """Whether code may load a checkpoint, or a pretrained model from a path that is unknown or a folder."""
    for module in modules:
        if any(
            _LOADS.search(use.text)
            for use in find_uses(module, "call", "name")
            if not is_message(module, use.node)
        ):
            return True
        for call in all_calls(module):
            if any(_RESUMES.match(name) and _may_be_set(call.argument(name)) for name in call.keywords):
                return True
            if call.method in _READS_FILES and _may_be_kept(call, folders):
                return True
            if call.method == "from_pretrained":
                name = call.argument("pretrained_model_name_or_path", 0)
                if name.text is None or name.text.startswith(("/", ".")):
                    return True
    return False


def _other_output_dir(job: JobDefinition, modules: Sequence[Module]) -> str | None:
    """The folder of transformers' Trainer if it is certainly not one that is copied; None if it may be."""
    folders = kept_folders([job])
    found: set[str | None] = set()
    for module in modules:
        for call in all_calls(module):
            if (call.name or "").startswith("transformers.") and call.method.endswith("TrainingArguments"):
                folder = call.argument("output_dir", 0)
                text = folder.text if folder.is_known else None
                found.add(None if text is None or is_kept(text, folders) else text)
    return found.pop() if len(found) == 1 else None


def _time_limit(job: JobDefinition) -> float | None:
    """The job's time limit in seconds; None if it is not specified."""
    condition = job.argument("StoppingCondition")
    values: tuple[Value, ...] = (
        *(job.argument("max_run"), job.argument("train_max_run")),
        *(condition.at("MaxRuntimeInSeconds"), job.argument("max_runtime_in_seconds")),
    )
    return next((value.number for value in values if value.number is not None), None)
