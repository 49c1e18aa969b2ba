"""Lightning writes its checkpoints to a folder that is deleted with the instance, and nothing else saves the model.

Without `dirpath` or `default_root_dir`, checkpoints are below the working directory (`lightning_logs/`). SageMaker keeps `/opt/ml/model` (SM_MODEL_DIR),
`/opt/ml/output/data`, and, if the job has a checkpoint location, `/opt/ml/checkpoints`. The job ends as `Completed`, and its model is lost. The rule
reports nothing if anything in the script saves to one of these folders, or uploads.

Bad:

    # file: launch.py
    from sagemaker.pytorch import PyTorch

    PyTorch(
        entry_point="train.py", role="role", instance_count=1, instance_type="ml.g5.xlarge",
        framework_version="2.3", py_version="py311",
    ).fit()
    # file: net.py
    import lightning as L
    import torch
    from torch.utils.data import DataLoader, TensorDataset

    class Net(L.LightningModule):
        def training_step(self, batch, batch_idx):
            return self(batch).mean()

        def configure_optimizers(self):
            return torch.optim.Adam(self.parameters())

    loader = DataLoader(TensorDataset(torch.ones(64, 8)), batch_size=8, num_workers=2)
    # file: train.py
    import lightning as L
    from lightning.pytorch.callbacks import ModelCheckpoint
    from net import Net, loader

    checkpoint = ModelCheckpoint(dirpath="/tmp/checkpoints", save_top_k=1)  # <-
    trainer = L.Trainer(accelerator="gpu", callbacks=[checkpoint])
    trainer.fit(Net(), loader)

Bad: the working directory

    # file: launch.py
    from sagemaker.pytorch import PyTorch

    PyTorch(
        entry_point="train.py", role="role", instance_count=1, instance_type="ml.g5.xlarge",
        framework_version="2.3", py_version="py311",
    ).fit()
    # file: net.py
    import lightning as L
    import torch
    from torch.utils.data import DataLoader, TensorDataset

    class Net(L.LightningModule):
        def training_step(self, batch, batch_idx):
            return self(batch).mean()

        def configure_optimizers(self):
            return torch.optim.Adam(self.parameters())

    loader = DataLoader(TensorDataset(torch.ones(64, 8)), batch_size=8, num_workers=2)
    # file: train.py
    import lightning as L
    from net import Net, loader

    trainer = L.Trainer(accelerator="gpu", max_epochs=3)
    trainer.fit(Net(), loader)  # <-

Good:

    # file: launch.py
    from sagemaker.pytorch import PyTorch

    PyTorch(
        entry_point="train.py", role="role", instance_count=1, instance_type="ml.g5.xlarge",
        framework_version="2.3", py_version="py311",
    ).fit()
    # file: net.py
    import lightning as L
    import torch
    from torch.utils.data import DataLoader, TensorDataset

    class Net(L.LightningModule):
        def training_step(self, batch, batch_idx):
            return self(batch).mean()

        def configure_optimizers(self):
            return torch.optim.Adam(self.parameters())

    loader = DataLoader(TensorDataset(torch.ones(64, 8)), batch_size=8, num_workers=2)
    # file: train.py
    import os
    import lightning as L
    from lightning.pytorch.callbacks import ModelCheckpoint
    from net import Net, loader

    checkpoint = ModelCheckpoint(dirpath=os.environ["SM_MODEL_DIR"], save_top_k=1)
    trainer = L.Trainer(accelerator="gpu", callbacks=[checkpoint])
    trainer.fit(Net(), loader)

Quiet: saved afterwards

    # file: launch.py
    from sagemaker.pytorch import PyTorch

    PyTorch(
        entry_point="train.py", role="role", instance_count=1, instance_type="ml.g5.xlarge",
        framework_version="2.3", py_version="py311",
    ).fit()
    # file: net.py
    import lightning as L
    import torch
    from torch.utils.data import DataLoader, TensorDataset

    class Net(L.LightningModule):
        def training_step(self, batch, batch_idx):
            return self(batch).mean()

        def configure_optimizers(self):
            return torch.optim.Adam(self.parameters())

    loader = DataLoader(TensorDataset(torch.ones(64, 8)), batch_size=8, num_workers=2)
    # file: train.py
    import os
    import lightning as L
    from net import Net, loader

    trainer = L.Trainer(accelerator="gpu", max_epochs=3)
    trainer.fit(Net(), loader)
    trainer.save_checkpoint(os.path.join(os.environ["SM_MODEL_DIR"], "net.ckpt"))
"""

import re

from gpuproof.findings import Severity
from gpuproof.linter.analysis.call import Call
from gpuproof.linter.analysis.local_imports import local_modules, unseen_imports
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.usage import script_uses
from gpuproof.linter.analysis.values import Value
from gpuproof.linter.knowledge.contract.kept_folders import find_keepers, is_kept, kept_folders
from gpuproof.linter.knowledge.contract.model_saves import find_saves
from gpuproof.linter.knowledge.trainers.lightning import created, runs
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule
from gpuproof.linter.source.span import Span

rule = Rule("LT116", "checkpoints-lost", Severity.WARNING, when="link", needs=("lightning",))

_UPLOADS = re.compile(
    r"^log_model$|wandb|mlflow|neptune|comet|clearml|s3fs|fsspec|RemoteUploader", re.IGNORECASE
)
_LOCAL = re.compile(r"^(\.{0,2}/)?[\w.-]+(/[\w.-]+)*/?$|^/(tmp|home|root|var|workspace|app|code|opt/ml)(/|$)")
_LIBRARIES = frozenset(
    {
        "lightning",
        "pytorch_lightning",
        "torchmetrics",
        "timm",
        "segmentation_models_pytorch",
        "datasets",
        "transformers",
    }
)


@rule.module
def check(module: Module, project: Project) -> Hits:
    fits = runs(module, "fit")
    jobs = [job for job in project.jobs_running(module) if job.kind == "training" and job.script is not None]
    if not fits or not jobs or any(not job.has_contract for job in jobs):
        return
    script = jobs[0].script
    assert script is not None
    if script_uses(script, _UPLOADS, "name", "call", "keyword") or not _LIBRARIES.issuperset(
        unseen_imports(script)
    ):
        return
    modules, folders = local_modules(script), kept_folders(jobs)
    places: list[tuple[Span, str]] = []
    for call in (call for local in modules for call in created(local, "ModelCheckpoint")):
        value = call.argument("dirpath", 0)
        if not value.is_unset:
            if not _is_lost(value, folders):
                return
            places.append((value.span or call.span, f"`{value.text}`"))
    for run in fits:
        value = run.trainer.argument("default_root_dir")
        if not value.is_unset and not _is_lost(value, folders):
            return
        if not _is_plain(run.trainer):
            return
        if not value.is_unset:
            places.append((value.span or run.trainer.span, f"`{value.text}`"))
    launchers = [job.module for job in jobs if job.module is not None]
    # A model that is saved to another folder is reported by SM101.
    if find_keepers(modules, folders, launchers) or any(
        True for local in modules for _ in find_saves(local, modules)
    ):
        return
    span, where = places[0] if places else (fits[0].call.span, "the working directory (`lightning_logs`)")
    yield rule.hit(
        span,
        f"Checkpoints are in {where}, which is deleted when the job ends, and nothing else saves the model.",
        remedy='Pass ModelCheckpoint(dirpath=os.environ["SM_MODEL_DIR"]), or default_root_dir="/opt/ml/checkpoints" with a checkpoint location.',
    )


def _is_lost(value: Value, folders: list[str]) -> bool:
    text = value.text
    return text is not None and _LOCAL.match(text) is not None and not is_kept(text, folders)


def _is_plain(trainer: Call) -> bool:
    """Whether all that a Trainer writes is known: it gets no logger or argument that is not seen."""
    return (not trainer.is_open and trainer.argument("logger").flag is not None) or trainer.argument(
        "logger"
    ).is_absent
