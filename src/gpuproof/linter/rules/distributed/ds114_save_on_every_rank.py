"""Every process writes the same file: they overwrite each other, and a reader may find it incomplete.

With several processes on one host, `torch.save` to one path runs in each of them at the same time. DDP keeps the
model copies equal, so saving one of them is sufficient. The rule follows the calls through the files of the project and only reports a save if nothing on the way checks the rank. It does not report jobs with one process per host, as every host has its
own disk.

Bad:

    import os
    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    dist.init_process_group("nccl")
    local_rank = int(os.environ["LOCAL_RANK"])
    model = DistributedDataParallel(torch.nn.Linear(8, 1).to(local_rank), device_ids=[local_rank])
    model(torch.ones(8)).sum().backward()
    torch.save(model.module.state_dict(), "/opt/ml/model/model.pth")  # <-

Bad: Horovod with Keras

    import horovod.tensorflow.keras as hvd
    import tensorflow as tf

    hvd.init()
    model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
    model.compile(optimizer=hvd.DistributedOptimizer(tf.keras.optimizers.Adam()), loss="mse")
    callbacks = [
        hvd.callbacks.BroadcastGlobalVariablesCallback(0),
        tf.keras.callbacks.ModelCheckpoint("/opt/ml/checkpoints/{epoch}.keras"),  # <-
    ]
    model.fit([1.0], [1.0], callbacks=callbacks)
    if hvd.rank() == 0:
        model.save("/opt/ml/model/1")

Bad: in a helper of another file, under Accelerate

    # file: checkpoints.py
    import torch

    def save_model(model, path):
        torch.save(model.state_dict(), path)  # <-
    # file: train.py
    import torch
    from accelerate import Accelerator
    from checkpoints import save_model

    def main():
        accelerator = Accelerator()
        model = accelerator.prepare(torch.nn.Linear(8, 1))
        accelerator.backward(model(torch.ones(8)).sum())
        save_model(accelerator.unwrap_model(model), "/opt/ml/model/model.pt")

    main()

Bad: a class that saves every few epochs

    import os
    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    class Trainer:
        def __init__(self, model, save_every):
            self.local_rank = int(os.environ["LOCAL_RANK"])
            self.model = DistributedDataParallel(model.to(self.local_rank), device_ids=[self.local_rank])
            self.save_every = save_every

        def fit(self, epochs):
            for epoch in range(epochs):
                self.model(torch.ones(8)).sum().backward()
                if epoch % self.save_every == 0:
                    self.save()

        def save(self):
            torch.save(self.model.module.state_dict(), "/opt/ml/checkpoints/latest.pt")  # <-

    def main(epochs=10, save_every=2):
        dist.init_process_group("nccl")
        Trainer(torch.nn.Linear(8, 1), save_every).fit(epochs)

    main()

Bad: after Lightning's Trainer

    import lightning
    import torch

    model = torch.nn.Linear(4, 2)
    trainer = lightning.Trainer(accelerator="gpu", devices=4, strategy="ddp")
    trainer.fit(model)
    torch.save(model.state_dict(), "model.pt")  # <-

Quiet: the Trainer's first process saves

    import lightning
    import torch

    model = torch.nn.Linear(4, 2)
    trainer = lightning.Trainer(accelerator="gpu", devices=4, strategy="ddp")
    trainer.fit(model)
    if trainer.is_global_zero:
        torch.save(model.state_dict(), "model.pt")

Good:

    import os
    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    dist.init_process_group("nccl")
    local_rank = int(os.environ["LOCAL_RANK"])
    model = DistributedDataParallel(torch.nn.Linear(8, 1).to(local_rank), device_ids=[local_rank])
    model(torch.ones(8)).sum().backward()
    if dist.get_rank() == 0:
        torch.save(model.module.state_dict(), "/opt/ml/model/model.pth")

Quiet: each rank has its own file

    import os
    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    dist.init_process_group("nccl")
    local_rank = int(os.environ["LOCAL_RANK"])
    model = DistributedDataParallel(torch.nn.Linear(8, 1).to(local_rank))
    torch.save(model.state_dict(), f"/opt/ml/checkpoints/model-{local_rank}.pth")

Quiet: the caller checks the rank

    import os
    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    def save_model(model, folder):
        torch.save(model.state_dict(), os.path.join(folder, "model.pth"))

    def main():
        dist.init_process_group("nccl")
        local_rank = int(os.environ["LOCAL_RANK"])
        model = DistributedDataParallel(torch.nn.Linear(8, 1).to(local_rank))
        if local_rank == 0:
            save_model(model, "/opt/ml/model")

    main()

Quiet: the interval comes from the rank

    import os
    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    class Trainer:
        def __init__(self, model, save_every):
            self.local_rank = int(os.environ["LOCAL_RANK"])
            self.model = DistributedDataParallel(model.to(self.local_rank), device_ids=[self.local_rank])
            self.save_every = save_every

        def fit(self, epochs):
            for epoch in range(epochs):
                self.model(torch.ones(8)).sum().backward()
                if epoch % self.save_every == 0:
                    self.save()

        def save(self):
            torch.save(self.model.module.state_dict(), "/opt/ml/checkpoints/latest.pt")

    def main(epochs=10):
        dist.init_process_group("nccl")
        Trainer(torch.nn.Linear(8, 1), 2 if dist.get_rank() == 0 else epochs + 1).fit(epochs)

    main()

Quiet: one process on each host

    import json
    import os
    import torch
    import torch.distributed as dist

    hosts = json.loads(os.environ["SM_HOSTS"])
    dist.init_process_group("nccl", rank=hosts.index(os.environ["SM_CURRENT_HOST"]), world_size=len(hosts))
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(8, 1).cuda())
    torch.save(model.state_dict(), "/opt/ml/model/model.pth")
"""

import ast
import re
from collections.abc import Iterator

from gpuproof.findings import Severity
from gpuproof.linter.analysis.call import Call, calls_named, calls_to
from gpuproof.linter.analysis.local_imports import local_modules
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.types import TypeKind, type_of
from gpuproof.linter.analysis.usage import find_uses
from gpuproof.linter.knowledge.distribution.accelerate import accelerators, prepare_calls, shards_models
from gpuproof.linter.knowledge.distribution.entries import (
    computes_gradients,
    joins_group,
    program_mentions,
    scripts_with,
)
from gpuproof.linter.knowledge.distribution.horovod import library_inits
from gpuproof.linter.knowledge.distribution.multi_gpu import requested_gpus
from gpuproof.linter.knowledge.distribution.ranks import (
    has_one_gpu_per_host,
    runs_on_every_rank,
    runs_several_processes_per_host,
    uses_distribution_library,
)
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule

rule = Rule("DS114", "save-on-every-rank", Severity.WARNING, needs=(".save", "ModelCheckpoint"))

_SHARDED = re.compile(
    r"(^|\.)(FSDP|FullyShardedDataParallel|fully_shard|DTensor|state_dict_type)$|^torch\.distributed\.rpc\b"
)
_NO_MODEL = re.compile(r"tokenizer|processor|config|extractor")
_OWN_FILE = re.compile(
    r"rank|host|node|worker|(?<!pre)process(?!ed|or|ing)|pid|device|gpu|uuid|tmp|temp(?!la|er)|BytesIO|buffer",
    re.IGNORECASE,
)
"""Names of unknown values that may differ between ranks."""


@rule.module
def check(module: Module, project: Project) -> Hits:
    yield from _beside_lightning(module)
    if not program_mentions(module, "init_process_group", "horovod", "smdistributed", "ccelerat"):
        return
    saves = [*_saves(module)]
    if not saves:
        return
    for script in scripts_with(module):
        remedy = _guard(script)
        if remedy is None or has_one_gpu_per_host(script, project):
            continue
        for call, path in saves:
            if not _has_own_file(module, call, path) and runs_on_every_rank(module, call.node):
                yield rule.hit(
                    call.span,
                    "Every rank writes this file: nothing on the way here checks the rank.",
                    remedy=remedy,
                )
        return


def _saves(module: Module) -> Iterator[tuple[Call, tuple[str, int]]]:
    """The calls of a module that write a model, with the keyword and position of the path."""
    for call in calls_to(module, "torch.save"):
        yield call, ("f", 1)
    for call in calls_named(module, "save_pretrained"):
        name = module.text(call.receiver).lower() if call.receiver is not None else "tokenizer"
        if not {"is_main_process", "save_function"} & {*call.keywords} and not _NO_MODEL.search(name):
            yield call, ("save_directory", 0)
    if not module.imports("tensorflow", "keras"):
        return
    for call in calls_named(module, "save", "save_weights"):
        kind = (
            type_of(module, call.receiver).kind if call.receiver is not None and call.name is None else None
        )
        if kind is TypeKind.KERAS_MODEL:
            yield call, ("filepath", 0)
    for call in calls_named(module, "ModelCheckpoint"):
        if "keras" in (call.name or ""):
            yield call, ("filepath", 0)


def _guard(script: Module) -> str | None:
    """How to let one process save, if a script certainly runs as several on a host; None if it may not."""
    if not computes_gradients(script) and not script.imports("tensorflow", "keras"):
        return None
    if library_inits(script):
        return "Put it under if hvd.rank() == 0:."
    if accelerators(script) and prepare_calls(script) and not shards_models(script):
        return "Put it under if accelerator.is_main_process:, after accelerator.wait_for_everyone()."
    if not joins_group(script) or not computes_gradients(script) or _shards(script):
        return None
    if uses_distribution_library(script) or not runs_several_processes_per_host(script):
        return None
    return "Put it under if dist.get_rank() == 0:, and dist.barrier() after it if other ranks read the file."


def _beside_lightning(module: Module) -> Hits:
    """What a script saves itself after Lightning's Trainer has run it in several processes."""
    limit = requested_gpus(module) if module.imports("lightning", "pytorch_lightning") else None
    if limit is None or limit.gpus < 2 or not limit.is_known or not limit.call.method.endswith("Trainer"):
        return
    if (limit.call.argument("strategy").text or "") not in ("ddp", "ddp_find_unused_parameters_true"):
        return
    for call in calls_to(module, "torch.save"):
        in_class = module.enclosing(call.node, ast.ClassDef) is not None
        if not in_class and not _has_own_file(module, call) and runs_on_every_rank(module, call.node):
            yield rule.hit(
                call.span,
                f"Every process of the Trainer ({limit.written}) writes this file: nothing on the way here checks the rank.",
                remedy="Put it under if trainer.is_global_zero:.",
            )


def _shards(script: Module) -> bool:
    """Whether code of the script shards a model; a test such as `isinstance(model, FSDP)` does not."""
    for module in local_modules(script):
        tests = [call.node for call in calls_named(module, "isinstance", "issubclass")]
        for use in find_uses(module, "call", "name"):
            if _SHARDED.search(use.text) and not module.tree.is_within_any(use.node, tests):
                return True
    return False


def _has_own_file(module: Module, call: Call, place: tuple[str, int] = ("f", 1)) -> bool:
    path = call.expression(*place)
    value = call.argument(*place)
    if path is None or (value.text or "").startswith("/tmp"):  # noqa: S108
        return True
    if value.is_sure and value.text is not None:
        return False
    if isinstance(path, ast.Name) and any(binding.kind == "with" for binding in module.reaching(path)):
        return True
    nodes = [node for made in (path, module.origin(path)) if made is not None for node in ast.walk(made)]
    names = [
        node.id if isinstance(node, ast.Name) else node.attr
        for node in nodes
        if isinstance(node, (ast.Name, ast.Attribute))
    ]
    return any(_OWN_FILE.search(name) for name in names)
