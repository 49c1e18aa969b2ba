"""Training images cannot serve and inference images cannot train: each has its own toolkit and start command.

AWS uses different names, `pytorch-training` and `pytorch-inference`. With the wrong image, the endpoint never
responds to its health check, or the training job ends immediately without running the script.

Bad:

    import boto3

    boto3.client("sagemaker").create_model(
        ModelName="m",
        ExecutionRoleArn="arn",
        PrimaryContainer={
            "Image": "763104351884.dkr.ecr.us-east-1.amazonaws.com/pytorch-training:2.3.0-gpu-py311",  # <-
            "ModelDataUrl": "s3://bucket/model.tar.gz",
        },
    )

Bad:

    from sagemaker.estimator import Estimator

    Estimator(
        image_uri="763104351884.dkr.ecr.us-east-1.amazonaws.com/pytorch-inference:2.3.0-gpu-py311",  # <-
        role="role", instance_count=1, instance_type="ml.g5.xlarge",
    )

Good:

    from sagemaker.estimator import Estimator

    Estimator(
        image_uri="763104351884.dkr.ecr.us-east-1.amazonaws.com/pytorch-training:2.3.0-gpu-py311",
        role="role", instance_count=1, instance_type="ml.g5.xlarge",
    )

Quiet: a custom image

    from sagemaker.estimator import Estimator

    Estimator(
        image_uri="123456789012.dkr.ecr.us-east-1.amazonaws.com/pytorch-inference:2",
        role="role", instance_count=1, instance_type="ml.g5.xlarge",
    )

Quiet: a processing job can use both

    from sagemaker.processing import ScriptProcessor

    ScriptProcessor(
        image_uri="763104351884.dkr.ecr.us-east-1.amazonaws.com/pytorch-inference:2.3.0-gpu-py311",
        command=["python3"], role="role", instance_count=1, instance_type="ml.g5.xlarge",
    )

Quiet: a container elsewhere may run anything

    # file: pod.yaml
    apiVersion: v1
    kind: Pod
    metadata:
      name: benchmark
    spec:
      containers:
        - name: benchmark
          image: 763104351884.dkr.ecr.us-east-1.amazonaws.com/pytorch-inference:2.6.0-gpu-py312-cu124-ubuntu22.04-ec2
          command: [python, benchmark.py]
          resources:
            limits:
              nvidia.com/gpu: 1
"""

from collections.abc import Iterator

from gpuproof.findings import Severity
from gpuproof.linter.analysis.call import calls_named
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.values import Value
from gpuproof.linter.jobs.definition import JobDefinition
from gpuproof.linter.jobs.readers import sdk_v2
from gpuproof.linter.knowledge.aws.images import image_name, is_aws_container
from gpuproof.linter.knowledge.aws.instance_references import replace_text
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hit, Hits, Rule
from gpuproof.linter.source.edit import Fix
from gpuproof.linter.source.span import Span
from gpuproof.linter.templates.resource import Resource

rule = Rule("FW109", "image-scope", Severity.ERROR, needs=("-training", "-inference"))


@rule.job
def check(job: JobDefinition, project: Project) -> Hits:
    if job.kind == "training" and job.has_contract:
        yield from _hits(job.image, job.where(job.image), "training", project)


@rule.module
def check_models(module: Module, project: Project) -> Hits:
    if module.imports("sagemaker"):
        for model in sdk_v2.models(module):
            yield from _hits(model.image, model.where(model.image), "inference", project)
    for call in calls_named(module, "create_model"):
        image = call.argument("PrimaryContainer").at("Image")
        yield from _hits(image, image.span or call.span, "inference", project)


@rule.resource
def check_resource(resource: Resource, project: Project) -> Hits:
    if resource.type == "AWS::SageMaker::Model":
        image = resource.get("PrimaryContainer", "Image")
    elif resource.type == "aws_sagemaker_model":
        image = resource.get("primary_container", 0, "image")
    else:
        return
    yield from _hits(image, image.span or resource.span, "inference", project)


def _hits(value: Value, span: Span, required: str, project: Project) -> Iterator[Hit]:
    image = image_name(value)
    if image is None or image.scope in (None, required) or not is_aws_container(image, project):
        return
    right = image.repository.replace(str(image.scope), required)
    edits = replace_text(value, image.repository, right)
    does = "serve a model" if required == "inference" else "train"
    yield rule.hit(
        span,
        f"`{image.repository}` cannot {does}: it is AWS's {image.scope} image.",
        remedy=f"Use {right}, in a version for which AWS publishes it.",
        fix=Fix(f"Use {right}", edits, safe=False) if edits else None,
    )
