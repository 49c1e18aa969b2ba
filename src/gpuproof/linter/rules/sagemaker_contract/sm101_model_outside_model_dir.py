"""SageMaker packs `/opt/ml/model` as the job's model; a model that is saved elsewhere is usually lost.

SageMaker keeps three folders of a training job: `/opt/ml/model` (SM_MODEL_DIR) as model.tar.gz, `/opt/ml/output/data`
(SM_OUTPUT_DATA_DIR) as output.tar.gz, and, if the job has a checkpoint location, `/opt/ml/checkpoints`. A model in the
working directory, in `/tmp`, beside these folders (`/opt/ml/model.pth`) or in an input channel is deleted with the
instance: the job ends as `Completed`, with an empty or missing `model.tar.gz`. The rule checks scripts that are a job's
entry point or read SageMaker's variables. It follows the kept folders through the script: it reports nothing if a call
may save or copy to one of them, or uploads to S3. An argument such as `--model-dir` that is declared but never used does
not count, nor does a folder that is only printed or created.

Bad:

    # file: launch.py
    from sagemaker.tensorflow import TensorFlow

    TensorFlow(entry_point="train.py", instance_count=1, instance_type="ml.g4dn.xlarge").fit()
    # file: train.py
    import tensorflow as tf

    model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
    model.compile()
    model.fit([], [])
    model.save("my_model.h5")  # <-

Bad: script and launcher in one file, as a comment says

    # saved as train.py
    import tensorflow as tf

    def make_model():
        return tf.keras.Sequential([tf.keras.layers.Dense(1)])

    model = make_model()
    model.save("my_model.h5")  # <-

    # the launcher
    from sagemaker.tensorflow import TensorFlow

    TensorFlow(entry_point="train.py", output_path="s3://bucket/out", instance_type="ml.g4dn.xlarge").fit()

Bad: only the checkpoints are kept

    # file: launch.py
    from sagemaker.pytorch import PyTorch

    PyTorch(
        entry_point="train.py", role="r", instance_count=1, instance_type="ml.g5.xlarge", framework_version="2.6",
        py_version="py312", checkpoint_s3_uri="s3://bucket/checkpoints",
    ).fit()
    # file: train.py
    import torch

    model = torch.nn.Linear(4, 2)
    for epoch in range(3):
        torch.save(model.state_dict(), "/opt/ml/checkpoints/last.pt")
    torch.save(model.state_dict(), "model.pt")  # <-

Bad: Lightning keeps its checkpoints, which the final weights are not

    # file: launch.py
    from sagemaker.pytorch import PyTorch

    PyTorch(
        entry_point="train.py", role="r", instance_count=1, instance_type="ml.g5.xlarge", framework_version="2.6",
        py_version="py312",
    ).fit()
    # file: train.py
    import lightning as L
    import torch
    from net import Net

    model = Net()
    trainer = L.Trainer(max_epochs=3, default_root_dir="/opt/ml/output/data")
    trainer.fit(model)
    torch.save(model.state_dict(), "unet.pt")  # <-

Quiet: Lightning keeps the best weights in the model's folder

    # file: launch.py
    from sagemaker.pytorch import PyTorch

    PyTorch(
        entry_point="train.py", role="r", instance_count=1, instance_type="ml.g5.xlarge", framework_version="2.6",
        py_version="py312",
    ).fit()
    # file: train.py
    import lightning as L
    import torch
    from lightning.pytorch.callbacks import ModelCheckpoint
    from net import Net

    model = Net()
    trainer = L.Trainer(max_epochs=3, callbacks=[ModelCheckpoint(dirpath="/opt/ml/model")])
    trainer.fit(model)
    torch.save(model.state_dict(), "unet.pt")

Bad: only the tokenizer is in the model's folder

    # file: launch.py
    from sagemaker.huggingface import HuggingFace

    HuggingFace(entry_point="train.py", role="r", instance_count=1, instance_type="ml.g5.xlarge").fit()
    # file: train.py
    import os
    from transformers import AutoModel, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained("distilbert/distilbert-base-uncased")
    model = AutoModel.from_pretrained("distilbert/distilbert-base-uncased")
    model.save_pretrained("./final")  # <-
    tokenizer.save_pretrained(os.environ["SM_MODEL_DIR"])

Good:

    # file: launch.py
    from sagemaker.tensorflow import TensorFlow

    TensorFlow(
        entry_point="train.py", role="role", framework_version="2.14", py_version="py310",
        instance_count=1, instance_type="ml.g4dn.xlarge",
    ).fit()
    # file: train.py
    import os
    import tensorflow as tf

    model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
    model.compile()
    model.fit([], [])
    model.save(os.path.join(os.environ["SM_MODEL_DIR"], "1"))

Quiet: a script that does not use SageMaker

    import torch

    model = torch.nn.Linear(1, 1)
    torch.save(model.state_dict(), "mnist_cnn.pt")

Quiet: saved twice, once in the right place

    # file: launch.py
    from sagemaker.pytorch import PyTorch

    PyTorch(entry_point="train.py", instance_count=1, instance_type="ml.g4dn.xlarge").fit()
    # file: train.py
    import os
    import torch

    model = torch.nn.Linear(1, 1)
    torch.save(model.state_dict(), "best.pt")
    torch.save(model.state_dict(), os.path.join(os.environ["SM_MODEL_DIR"], "model.pth"))

Bad: the argument is declared, but the model is saved elsewhere

    # file: launch.py
    from sagemaker.pytorch import PyTorch

    PyTorch(entry_point="train.py", instance_count=1, instance_type="ml.g4dn.xlarge").fit()
    # file: train.py
    import argparse
    import os
    import torch

    parser = argparse.ArgumentParser()
    parser.add_argument("--model-dir", default=os.environ["SM_MODEL_DIR"])
    args = parser.parse_args()
    model = torch.nn.Linear(1, 1)
    torch.save(model.state_dict(), "model.pth")  # <-

Bad: the job has no checkpoint location

    # file: launch.py
    from sagemaker.huggingface import HuggingFace

    HuggingFace(entry_point="train.py", instance_count=1, instance_type="ml.g5.xlarge").fit()
    # file: train.py
    from transformers import AutoModel

    model = AutoModel.from_pretrained("bert-base-uncased")
    model.save_pretrained("/opt/ml/checkpoints/final")  # <-

Quiet: the argument reaches the save through a helper

    # file: launch.py
    from sagemaker.pytorch import PyTorch

    PyTorch(entry_point="train.py", instance_count=1, instance_type="ml.g4dn.xlarge").fit()
    # file: train.py
    import argparse
    import os
    import torch

    def keep(state, folder):
        torch.save(state, os.path.join(folder, "model.pth"))

    parser = argparse.ArgumentParser()
    parser.add_argument("--model-dir", default=os.environ["SM_MODEL_DIR"])
    args = parser.parse_args()
    model = torch.nn.Linear(1, 1)
    torch.save(model.state_dict(), "best.pt")
    keep(model.state_dict(), args.model_dir)
"""

import re

from gpuproof.findings import Severity
from gpuproof.linter.analysis.container_env import CHECKPOINT_DIR, INPUT_DIR, MODEL_DIR
from gpuproof.linter.analysis.local_imports import local_modules
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.usage import uses
from gpuproof.linter.jobs.definition import JobDefinition
from gpuproof.linter.knowledge.contract.kept_folders import find_keepers, is_kept, kept_folders
from gpuproof.linter.knowledge.contract.model_saves import SavedPath, find_saves
from gpuproof.linter.knowledge.contract.processing_mounts import is_under
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule, lowered

rule = Rule("SM101", "model-outside-model-dir", Severity.ERROR, needs=("save", "export", "dump"))

_VARIABLES = re.compile(r"SM_(MODEL_DIR|CHANNEL|HOSTS|NUM_GPUS|CURRENT_HOST)")
_LOCAL_ROOTS = ("/opt/ml", "/tmp", "/home", "/root", "/var", "/workspace", "/app", "/code", "/content")  # noqa: S108  # fmt: skip
"""Folders of the container or of a laptop; others may be mounted."""


@rule.module
def check(module: Module, project: Project) -> Hits:
    jobs = [job for job in project.jobs_running(module) if job.kind == "training"]
    jobs += [job for job in project.jobs_in(module) if _holds_script(module, job)]
    if not jobs and not (module.mentions("SM_") and uses(module, _VARIABLES, "string")):
        return
    if any(not job.has_contract for job in jobs):
        return
    modules = [module]
    modules += [
        local
        for job in jobs
        if job.script is not None
        for local in local_modules(job.script)
        if local is not module
    ]
    folders = kept_folders(jobs)
    lost = [(call, path) for call, path in find_saves(module, modules) if _is_lost(path, folders)]
    if not lost:
        return
    launchers = [job.module for job in jobs if job.module is not None]
    keepers = find_keepers(modules, folders, launchers)
    others = [folder for folder in folders if folder != CHECKPOINT_DIR]
    for call, path in lost:
        only_checkpoints = False
        if any(keeper.may_keep(path.text) for keeper in keepers):
            # Checkpoints are no model: what is saved after the last epoch is lost although they are kept.
            if not path.is_whole or not path.is_sure or call.module.loops_around(call.node):
                continue
            others_keep = find_keepers(modules, others, launchers)
            if any(keeper.may_keep(path.text) for keeper in others_keep if not keeper.of_framework):
                continue
            only_checkpoints = True
        yield rule.hit(
            path.value.span or call.span,
            _message(path, jobs),
            remedy=f'Save to os.path.join(os.environ["SM_MODEL_DIR"], "{_file_name(path)}").',
            severity=lowered(rule.severity)
            if only_checkpoints or not path.is_sure or not path.is_whole
            else rule.severity,
        )


def _is_lost(path: SavedPath, folders: list[str]) -> bool:
    """Whether a file is certainly deleted with the instance: it is in none of the kept folders, nor in a mounted one."""
    text = path.text
    if "://" in text or text.startswith(("~", "$", "{", "s3:", "hdfs:", "dbfs:", "models:")):
        return False
    if not text.startswith("/"):
        return path.is_whole or len(text) > 1
    if not path.is_whole and any(folder.startswith(text) for folder in folders):
        return False
    return _is_local(text) and not is_kept(text, folders)


def _is_local(text: str) -> bool:
    return any(is_under(text, root) for root in _LOCAL_ROOTS)


def _message(path: SavedPath, jobs: list[JobDefinition]) -> str:
    shown = path.text if path.is_whole else f"{path.text}..."
    if is_under(path.text, CHECKPOINT_DIR):
        job = jobs[0].title if jobs else "the job"
        return (
            f"`{shown}` is uploaded only by a job with a checkpoint location, which {job} does not have: it is deleted when "
            "the job ends."
        )
    if is_under(path.text, INPUT_DIR):
        return f"`{shown}` is in an input channel, which is never uploaded: the model is deleted when the job ends."
    return f"`{shown}` is not under `{MODEL_DIR}` (SM_MODEL_DIR): it is not in model.tar.gz, and is deleted when the job ends."


def _file_name(path: SavedPath) -> str:
    name = path.text.rstrip("/").rpartition("/")[2] if path.is_whole else ""
    return name if name.strip(".") else "model.pth"


def _holds_script(module: Module, job: JobDefinition) -> bool:
    """Whether a file that launches a job also contains the job's script, as a comment says."""
    entry = job.entry_point.text
    if job.kind != "training" or job.script is not None or not entry or module.unit.kind == "notebook":
        return False
    return re.search(rf"^\s*#.*\b{re.escape(entry)}\b", module.unit.source, re.MULTILINE) is not None
