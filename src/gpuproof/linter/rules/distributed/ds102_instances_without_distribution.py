"""The job has several instances, but neither the job nor its script connects them.

Each host then runs the same training from start to end, and the models overwrite each other in S3: the job takes as
long as on one host and costs as much as all of them. The rule does not report jobs that split their data between the
hosts (`ShardedByS3Key`), scripts that read the list of hosts, and libraries that may distribute the work.

Bad:

    # file: launch.py
    from sagemaker.pytorch import PyTorch

    estimator = PyTorch(
        entry_point="train.py", role="role", framework_version="2.3", py_version="py311",
        instance_count=4, instance_type="ml.g5.xlarge",  # <-
    )
    # file: train.py
    import torch

    model = torch.nn.Linear(8, 1).cuda()
    for x in torch.utils.data.DataLoader([]):
        model(x.cuda()).sum().backward()

Good:

    # file: launch.py
    from sagemaker.pytorch import PyTorch

    estimator = PyTorch(
        entry_point="train.py", role="role", framework_version="2.3", py_version="py311",
        instance_count=1, instance_type="ml.g5.xlarge",
    )
    # file: train.py
    import torch

    model = torch.nn.Linear(8, 1).cuda()
    for x in torch.utils.data.DataLoader([]):
        model(x.cuda()).sum().backward()

Bad: the launcher in the command starts one group on each host

    # file: launch.py
    from sagemaker.train import ModelTrainer
    from sagemaker.train.configs import Compute, SourceCode

    trainer = ModelTrainer(
        training_image="image",
        source_code=SourceCode(source_dir="src", command="torchrun --nproc_per_node=8 train.py"),
        compute=Compute(instance_type="ml.p4d.24xlarge", instance_count=2),  # <-
    )
    # file: src/train.py
    import torch
    from torch.nn.parallel import DistributedDataParallel

    torch.distributed.init_process_group("nccl")
    model = DistributedDataParallel(torch.nn.Linear(8, 1).cuda())
    for x in torch.utils.data.DataLoader([]):
        model(x.cuda()).sum().backward()

Bad: the Trainer of transformers learns of other hosts from its launcher only

    # file: launch.py
    from sagemaker.huggingface import HuggingFace

    HuggingFace(entry_point="train.py", role="role", instance_count=2, instance_type="ml.g5.2xlarge").fit()  # <-
    # file: train.py
    from datasets import load_from_disk
    from transformers import AutoModelForSequenceClassification, Trainer, TrainingArguments

    model = AutoModelForSequenceClassification.from_pretrained("distilbert/distilbert-base-uncased")
    trainer = Trainer(model=model, args=TrainingArguments("/opt/ml/model"), train_dataset=load_from_disk("data"))
    trainer.train()

Quiet: torchrun is its launcher

    # file: launch.py
    from sagemaker.huggingface import HuggingFace

    HuggingFace(
        entry_point="train.py", role="role", instance_count=2, instance_type="ml.g5.2xlarge",
        distribution={"torch_distributed": {"enabled": True}},
    ).fit()
    # file: train.py
    from transformers import AutoModelForSequenceClassification, Trainer

    trainer = Trainer(model=AutoModelForSequenceClassification.from_pretrained("distilbert/distilbert-base-uncased"))
    trainer.train()

Bad: the hosts are declared, as in AWS's examples, and nothing reads them

    # file: launch.py
    from sagemaker.pytorch import PyTorch

    PyTorch(entry_point="train.py", role="role", instance_count=2, instance_type="ml.g5.xlarge")  # <-
    # file: train.py
    import argparse
    import json
    import os
    import torch

    parser = argparse.ArgumentParser()
    parser.add_argument("--hosts", type=list, default=json.loads(os.environ["SM_HOSTS"]))
    parser.add_argument("--current-host", default=os.environ["SM_CURRENT_HOST"])
    parser.add_argument("--epochs", type=int, default=3)
    args = parser.parse_args()
    model = torch.nn.Linear(8, 1).cuda()
    for epoch in range(args.epochs):
        for x in torch.utils.data.DataLoader([]):
            model(x.cuda()).sum().backward()

Quiet: the script creates its own process group

    # file: launch.py
    from sagemaker.pytorch import PyTorch

    PyTorch(entry_point="train.py", role="role", instance_count=2, instance_type="ml.g5.xlarge")
    # file: train.py
    import json
    import os
    import torch
    import torch.distributed as dist

    hosts = json.loads(os.environ["SM_HOSTS"])
    dist.init_process_group("nccl", rank=hosts.index(os.environ["SM_CURRENT_HOST"]), world_size=len(hosts))
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(8, 1).cuda())
    for x in torch.utils.data.DataLoader([]):
        model(x.cuda()).sum().backward()

Quiet: each host gets a share of the data

    # file: launch.py
    from sagemaker.inputs import TrainingInput
    from sagemaker.pytorch import PyTorch

    estimator = PyTorch(entry_point="train.py", role="role", instance_count=2, instance_type="ml.g5.xlarge")
    estimator.fit({"train": TrainingInput("s3://bucket/train", distribution="ShardedByS3Key")})
    # file: train.py
    import torch

    model = torch.nn.Linear(8, 1).cuda()
    for x in torch.utils.data.DataLoader([]):
        model(x.cuda()).sum().backward()
"""

from gpuproof.catalogue.prices import cost_text
from gpuproof.findings import Severity
from gpuproof.linter.analysis.local_imports import unseen_imports
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.jobs.definition import JobDefinition
from gpuproof.linter.knowledge.aws.instances import hourly_price, hourly_text, no_price
from gpuproof.linter.knowledge.distribution.launchers import (
    connects_hosts,
    format_distribution,
    has_no_launcher,
    host_count,
    reads_hosts,
    shards_input,
)
from gpuproof.linter.knowledge.distribution.multi_gpu import may_use_several_gpus, trainer_runs, trains_model
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule, lowered

rule = Rule("DS102", "instances-without-distribution", Severity.ERROR, when="link")

_CONNECT_NOTHING = frozenset({"transformers", "datasets", "evaluate", "peft", "trl", "tokenizers"})
"""Libraries that use several GPUs of one host at most, unless a launcher tells them of others."""


@rule.job
def check(job: JobDefinition, project: Project) -> Hits:
    count, script = host_count(job), job.script
    if job.kind != "training" or script is None or count is None or count < 2:
        return
    if (job.instance_type.text or "").startswith("local"):
        return
    apart = not connects_hosts(job)
    if not apart and (not has_no_launcher(job) or may_use_several_gpus(script)):
        return
    if not (trains_model(script) or trainer_runs(script)) or reads_hosts(script):
        return
    if set(unseen_imports(script)) - _CONNECT_NOTHING or shards_input(job):
        return
    name = job.instance_type.text
    price = hourly_price(project, name, "training") if name else None
    cost = f", {cost_text(price, count - 1)} of {hourly_text(price, count)} wasted" if price else ""
    if name and price is None:
        cost = no_price(project)
    launcher = job.start.launcher if apart and job.start is not None else None
    how = f": {launcher.name} in the command connects the processes of one host" if launcher else ""
    yield rule.hit(
        job.where(job.instance_count, job.instance_type),
        f"{count} instances each run all of `{job.script_title}` independently{how}{cost}.",
        remedy=_remedy(job, script) if launcher is None else _connect(launcher.name, count),
        severity=rule.severity if job.instance_count.is_known else lowered(rule.severity),
    )


def _remedy(job: JobDefinition, script: Module) -> str:
    is_tensorflow = script.imports("tensorflow", "keras")
    launcher = "multi_worker_mirrored_strategy" if is_tensorflow else "torch_distributed"
    count = "instance_count: 1" if job.source == "gpuproof" else "instance_count=1"
    return (
        f"Use {count}, or start one process group across the hosts with {format_distribution(job, launcher)} and "
        f"{'MultiWorkerMirroredStrategy' if is_tensorflow else 'DistributedDataParallel'}."
    )


def _connect(launcher: str, count: int) -> str:
    if launcher == "torchrun":
        return (
            f"Start torchrun with --nnodes={count} --node_rank, --master_addr and --master_port of this host "
            "(SM_HOSTS, SM_CURRENT_HOST), or use one instance."
        )
    option = {"accelerate": f"--num_machines {count} --machine_rank", "deepspeed": "--hostfile"}.get(
        launcher, "-H"
    )
    return f"Start {launcher} with {option} of the job's hosts (SM_HOSTS), or use one instance."
