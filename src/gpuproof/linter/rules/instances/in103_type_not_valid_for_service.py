"""Each SageMaker service accepts its own list of instance types.

`ml.t3.medium` is valid for notebooks and processing jobs but not for endpoints; `ml.p4d.24xlarge` is valid for
training but not for batch transform. The request is rejected when it is sent, which in a pipeline may be
hours after its start. The lists are those in the service model of the installed botocore.

Bad:

    from sagemaker.pytorch import PyTorchModel

    model = PyTorchModel(model_data="s3://bucket/model.tar.gz", role="role", entry_point="inference.py")
    model.deploy(initial_instance_count=1, instance_type="ml.t3.medium")  # <-

Bad:

    import boto3

    boto3.client("sagemaker").create_endpoint_config(
        EndpointConfigName="e",
        ProductionVariants=[
            {"VariantName": "a", "ModelName": "m", "InstanceType": "ml.t3.2xlarge", "InitialInstanceCount": 1}  # <-
        ],
    )

Bad:

    # file: gpuproof.yaml
    jobs:
      digits:
        kind: endpoint
        model: s3://bucket/model.tar.gz
        instance_type: ml.t3.medium  # <-
      lab:
        kind: notebook
        instance_type: ml.p5e.48xlarge  # <-

Good:

    # file: gpuproof.yaml
    kind: endpoint
    name: digits
    model: s3://bucket/model.tar.gz
    instance_type: ml.g5.xlarge

Good:

    from sagemaker.pytorch import PyTorchModel

    model = PyTorchModel(
        model_data="s3://bucket/model.tar.gz", role="role", entry_point="inference.py",
        framework_version="2.3", py_version="py311",
    )
    model.deploy(initial_instance_count=1, instance_type="ml.m5.large")
    # file: inference.py
    import torch

    def model_fn(model_dir):
        return torch.jit.load(model_dir + "/model.pt", map_location="cpu")

Quiet: unknown types (see IN101), and types defined elsewhere

    import sys
    from sagemaker.pytorch import PyTorch

    PyTorch(entry_point="train.py", instance_type="ml.m5.gigantic", instance_count=1)
    PyTorch(entry_point="train.py", instance_type=sys.argv[1], instance_count=1)
"""

from gpuproof.findings import Severity
from gpuproof.linter.jobs.definition import JobDefinition
from gpuproof.linter.knowledge.aws.instances import find_instance
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule, lowered

rule = Rule("IN103", "type-not-valid-for-service", Severity.ERROR)

_WORDS = {
    "training": "a training job",
    "processing": "a processing job",
    "endpoint": "an endpoint",
    "transform": "a batch transform",
    "notebook": "a notebook instance",
}


@rule.job
def check(job: JobDefinition, project: Project) -> Hits:
    for name in job.instance_type.texts:
        accepted = project.catalogue.accepted_for(name)
        if not accepted or job.kind in accepted:
            continue
        others = ", ".join(_WORDS[kind] for kind in accepted if kind in _WORDS) or "only Studio and HyperPod"
        yield rule.hit(
            job.where(job.instance_type),
            f"`{name}` cannot run {_WORDS[job.kind]}: SageMaker accepts it for {others}.",
            remedy=_remedy(job, name, project),
            severity=rule.severity if job.instance_type.certainty == "known" else lowered(rule.severity),
        )


def _remedy(job: JobDefinition, name: str, project: Project) -> str | None:
    instance = find_instance(project, name)
    if instance is None:
        return None
    if instance.gpu_count:
        nearest = project.catalogue.replacements(name, job.kind)
        return f"Use {nearest[0].instance.name}: {nearest[0].reason}" if nearest else None
    family = "m5" if not name.startswith("ml.c") else "c5"
    size = name.rpartition(".")[2]
    for candidate in (f"ml.{family}.{size}", f"ml.{family}.large"):
        if job.kind in project.catalogue.accepted_for(candidate):
            return f"Use {candidate}."
    return None
