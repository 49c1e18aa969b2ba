"""The job has several hosts, and `num_nodes` of Lightning's Trainer does not say so.

The default of `num_nodes` is 1. Started by torchrun, Lightning counts the ranks that torchrun started and raises a ValueError: devices times
nodes does not match the world size. Without a launcher, each host trains a model of its own, with the same data and the same result: all but
one are billed for nothing. With `num_nodes` and neither a launcher nor MASTER_ADDR and NODE_RANK, every host takes itself for the first one, and
waits for the others.

Bad: the launcher starts eight ranks

    # file: launch.py
    from sagemaker.pytorch import PyTorch

    PyTorch(
        entry_point="train.py", role="role", instance_count=2, instance_type="ml.g4dn.12xlarge",
        framework_version="2.3", py_version="py311", distribution={"torch_distributed": {"enabled": True}},
    ).fit()
    # file: train.py
    import os
    import lightning as L
    from model import Net, loader

    trainer = L.Trainer(accelerator="gpu", devices=4, strategy="ddp", default_root_dir=os.environ["SM_MODEL_DIR"])  # <-
    trainer.fit(Net(), loader)

Bad: no launcher

    # file: launch.py
    from sagemaker.pytorch import PyTorch

    PyTorch(
        entry_point="train.py", role="role", instance_count=2, instance_type="ml.g5.xlarge",
        framework_version="2.3", py_version="py311",
    ).fit()
    # file: train.py
    import os
    import lightning as L
    from model import Net, loader

    trainer = L.Trainer(accelerator="gpu", num_nodes=2, default_root_dir=os.environ["SM_MODEL_DIR"])  # <-
    trainer.fit(Net(), loader)

Good:

    # file: launch.py
    from sagemaker.pytorch import PyTorch

    PyTorch(
        entry_point="train.py", role="role", instance_count=2, instance_type="ml.g4dn.12xlarge",
        framework_version="2.3", py_version="py311", distribution={"torch_distributed": {"enabled": True}},
    ).fit()
    # file: train.py
    import os
    import lightning as L
    from model import Net, loader

    trainer = L.Trainer(
        accelerator="gpu", devices=4, num_nodes=2, strategy="ddp", default_root_dir=os.environ["SM_MODEL_DIR"]
    )
    trainer.fit(Net(), loader)

Quiet: the script counts its hosts

    # file: launch.py
    from sagemaker.pytorch import PyTorch

    PyTorch(
        entry_point="train.py", role="role", instance_count=2, instance_type="ml.g4dn.12xlarge",
        framework_version="2.3", py_version="py311",
    ).fit()
    # file: train.py
    import json
    import os
    import lightning as L
    from model import Net, loader

    hosts = json.loads(os.environ["SM_HOSTS"])
    os.environ["MASTER_ADDR"] = hosts[0]
    os.environ["NODE_RANK"] = str(hosts.index(os.environ["SM_CURRENT_HOST"]))
    trainer = L.Trainer(
        accelerator="gpu", devices=4, num_nodes=len(hosts), default_root_dir=os.environ["SM_MODEL_DIR"]
    )
    trainer.fit(Net(), loader)
"""

import re

from gpuproof.findings import Severity
from gpuproof.linter.analysis.call import Call
from gpuproof.linter.analysis.local_imports import local_modules
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.usage import script_uses
from gpuproof.linter.jobs.definition import JobDefinition
from gpuproof.linter.knowledge.aws.instances import gpus_per_host
from gpuproof.linter.knowledge.distribution.launchers import enabled_launchers, has_no_launcher, host_count
from gpuproof.linter.knowledge.trainers.lightning import created, runs
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule, lowered

rule = Rule("LT114", "hosts-without-nodes", Severity.ERROR, needs=("lightning",))

_CONNECTS = re.compile(r"^(MASTER_ADDR|NODE_RANK|GROUP_RANK|MASTER_PORT)$")
_OWN = re.compile(r"horovod|smddp|deepspeed_mpi", re.IGNORECASE)


@rule.module
def check(module: Module, project: Project) -> Hits:
    calls = created(module, "Trainer")
    if not calls:
        return
    jobs = [
        job for job in project.jobs_running(module) if job.kind == "training" and (host_count(job) or 1) > 1
    ]
    for job in jobs:
        for call in calls:
            yield from _check(call, job, project)
        return


def _check(call: Call, job: JobDefinition, project: Project) -> Hits:
    nodes, hosts = call.argument("num_nodes"), host_count(job) or 1
    count = 1 if nodes.is_absent else nodes.number
    if (
        count is None
        or not (nodes.is_absent or nodes.is_known)
        or job.script is None
        or _is_connected(call, job)
    ):
        return
    if not any(runs(local, "fit") for local in local_modules(job.script)):
        return
    launchers, gpus = enabled_launchers(job), gpus_per_host(project, job)
    if launchers == ("torch_distributed",):
        if count == hosts or not gpus:
            return
        why = f"torchrun starts {hosts * gpus} ranks on {hosts} hosts, and `num_nodes` is {_written(nodes.is_absent, count)}: ValueError"
        remedy = f"Pass num_nodes={hosts}."
    elif has_no_launcher(job):
        if count == 1:
            why = f"{job.title} has {hosts} hosts, and each trains a model of its own: `num_nodes` is {_written(nodes.is_absent, count)}"
        else:
            why = f"Nothing tells the {hosts} hosts of {job.title} apart: each takes itself for node 0, and waits for the others"
        remedy = f'Pass num_nodes={hosts}, and start the job with torchrun, such as distribution={{"torch_distributed": {{"enabled": True}}}}.'
    else:
        return
    yield rule.hit(
        call.span,
        f"{why}.",
        remedy=remedy,
        severity=rule.severity if job.instance_count.is_known else lowered(rule.severity),
    )


def _written(is_default: bool, count: float) -> str:
    return f"{count:g} by default" if is_default else f"{count:g}"


def _is_connected(call: Call, job: JobDefinition) -> bool:
    """Whether a script connects its hosts itself, or with a strategy or plugin of its own."""
    assert job.script is not None
    strategy = call.argument("strategy")
    if not (strategy.is_absent or strategy.text) or call.is_open or _OWN.search(strategy.text or ""):
        return True
    return not call.argument("plugins").is_absent or script_uses(job.script, _CONNECTS, "string", "keyword")
