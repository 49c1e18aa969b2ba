"""The image URI contains the wrong AWS account: AWS's containers are in one account for most regions, in others for
the rest.

The URI refers to a registry that does not have the image, so the job fails when it pulls the image. The accounts are
those of the catalogue, read from SageMaker's SDK.

Bad:

    from sagemaker.estimator import Estimator

    Estimator(
        image_uri="763104351884.dkr.ecr.ap-east-1.amazonaws.com/pytorch-training:2.3.0-gpu-py311",  # <-
        role="role", instance_count=1, instance_type="ml.g5.xlarge",
    )

Fixed:

    from sagemaker.estimator import Estimator

    Estimator(
        image_uri="871362719292.dkr.ecr.ap-east-1.amazonaws.com/pytorch-training:2.3.0-gpu-py311",
        role="role", instance_count=1, instance_type="ml.g5.xlarge",
    )

Good:

    from sagemaker.estimator import Estimator

    Estimator(
        image_uri="763104351884.dkr.ecr.us-east-1.amazonaws.com/pytorch-training:2.3.0-gpu-py311",
        role="role", instance_count=1, instance_type="ml.g5.xlarge",
    )

Quiet: a copy in a custom registry

    from sagemaker.estimator import Estimator

    Estimator(
        image_uri="123456789012.dkr.ecr.ap-east-1.amazonaws.com/pytorch-training:2.3.0-gpu-py311",
        role="role", instance_count=1, instance_type="ml.g5.xlarge",
    )

Quiet: a region that is not in the list

    from sagemaker.estimator import Estimator

    Estimator(
        image_uri="763104351884.dkr.ecr.xx-new-9.amazonaws.com/pytorch-training:2.3.0-gpu-py311",
        role="role", instance_count=1, instance_type="ml.g5.xlarge",
    )
"""

from gpuproof.findings import Severity
from gpuproof.linter.jobs.definition import JobDefinition
from gpuproof.linter.knowledge.aws.images import image_name, is_aws_container
from gpuproof.linter.knowledge.aws.instance_references import replace_text
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule, lowered
from gpuproof.linter.source.edit import Fix

rule = Rule("FW108", "registry-account", Severity.ERROR)


@rule.job
def check(job: JobDefinition, project: Project) -> Hits:
    image = image_name(job.image)
    registry = project.catalogue.tables.registries.get(image.region) if image is not None else None
    if image is None or registry is None or not is_aws_container(image, project):
        return
    if registry.account == image.account:
        return
    edits = replace_text(job.image, image.account, registry.account)
    yield rule.hit(
        job.where(job.image),
        f"AWS's containers for {image.region} are in account {registry.account}, not {image.account}.",
        remedy=f"Write {registry.account}.dkr.ecr.{image.region}.{registry.dns_suffix}/{image.repository}.",
        severity=rule.severity if job.image.certainty != "default" else lowered(rule.severity),
        fix=Fix(f"Write {registry.account}", edits, safe=True) if edits else None,
    )
