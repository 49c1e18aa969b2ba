"""SageMaker has a list of instance types for each of its services, and they differ.

`ml.t3.medium` runs notebooks and processing jobs, but no endpoint; `ml.p4d.24xlarge` trains, but does not run a batch
transform everywhere. The request is refused when it is made, which for a pipeline may be hours after it was started.
The lists are those of the installed botocore's service model.

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

Good:

    from sagemaker.pytorch import PyTorchModel

    model = PyTorchModel(model_data="s3://bucket/model.tar.gz", role="role", entry_point="inference.py")
    model.deploy(initial_instance_count=1, instance_type="ml.m5.large")

Quiet: a type that nobody knows is another rule's finding, and a type from outside is nobody's

    import sys
    from sagemaker.pytorch import PyTorch

    PyTorch(entry_point="train.py", instance_type="ml.m5.gigantic", instance_count=1)
    PyTorch(entry_point="train.py", instance_type=sys.argv[1], instance_count=1)
"""

from gpuproof.check.jobs.definition import JobDefinition
from gpuproof.check.project import Project
from gpuproof.check.rule import Hits, Rule, lowered
from gpuproof.findings import Severity

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
        others = ", ".join(_WORDS[kind] for kind in accepted if kind in _WORDS) or "Studio and HyperPod alone"
        yield rule.hit(
            job.where(job.instance_type),
            f"`{name}` cannot run {_WORDS[job.kind]}: SageMaker accepts it for {others}.",
            remedy=_remedy(job, name, project),
            severity=rule.severity if job.instance_type.certainty == "known" else lowered(rule.severity),
        )


def _remedy(job: JobDefinition, name: str, project: Project) -> str | None:
    wanted = project.instance(name)
    if wanted is None:
        return None
    if wanted.gpu_count:
        nearest = project.catalogue.replacements(name, job.kind)
        return f"Take {nearest[0].instance.name}: {nearest[0].reason}" if nearest else None
    family = "m5" if not name.startswith("ml.c") else "c5"
    size = name.rpartition(".")[2]
    for candidate in (f"ml.{family}.{size}", f"ml.{family}.large"):
        if job.kind in project.catalogue.accepted_for(candidate):
            return f"Take {candidate}."
    return None
