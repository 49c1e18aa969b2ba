"""The driver on the endpoint's or batch transform's hosts is too old for the image's CUDA, or for the GPU.

SageMaker's default hosts of g4dn, g5 and p4d have NVIDIA driver 470, and a CUDA 13 image needs 580: the container stops
before it writes its first log line, and the endpoint stays in Creating for half an hour. `InferenceAmiVersion` of a
production variant (`inference_ami_version` of the SDK's `deploy`) and `TransformAmiVersion` of `TransformResources`
select hosts with a newer driver; SageMaker never does it by itself.

Bad: CUDA 13 on the default hosts

    import boto3

    sagemaker = boto3.client("sagemaker")
    sagemaker.create_model(
        ModelName="chat",
        ExecutionRoleArn="arn:aws:iam::111122223333:role/Serve",
        PrimaryContainer={
            "Image": "763104351884.dkr.ecr.us-east-1.amazonaws.com/pytorch-inference:2.10.0-gpu-py313-cu130-ubuntu22.04-sagemaker"
        },
    )
    sagemaker.create_endpoint_config(
        EndpointConfigName="chat",
        ProductionVariants=[
            {"VariantName": "a", "ModelName": "chat", "InitialInstanceCount": 1, "InstanceType": "ml.g5.xlarge"}  # <-
        ],
    )
    sagemaker.create_transform_job(
        TransformJobName="score",
        ModelName="chat",
        TransformInput={"DataSource": {"S3DataSource": {"S3DataType": "S3Prefix", "S3Uri": "s3://bucket/rows"}}},
        TransformOutput={"S3OutputPath": "s3://bucket/scores"},
        TransformResources={"InstanceType": "ml.g4dn.xlarge", "InstanceCount": 1},  # <-
    )

Bad: a version that does not exist, and one that is too old

    from sagemaker.model import Model

    IMAGE = "763104351884.dkr.ecr.us-east-1.amazonaws.com/vllm:0.14.0-gpu-py312-cu130-ubuntu22.04-sagemaker"
    model = Model(image_uri=IMAGE, model_data="s3://bucket/model.tar.gz", role="role")
    first = model.deploy(
        initial_instance_count=1, instance_type="ml.g6.xlarge",
        inference_ami_version="al2-ami-sagemaker-inference-gpu-5-1",  # <-
    )
    second = model.deploy(
        initial_instance_count=1, instance_type="ml.g6.xlarge",
        inference_ami_version="al2-ami-sagemaker-inference-gpu-3-1",  # <-
    )
    first.delete_endpoint()
    second.delete_endpoint()

Bad: CUDA 12.9, whose compatibility libraries do not extend driver 470

    from sagemaker.model import Model

    IMAGE = "763104351884.dkr.ecr.us-east-1.amazonaws.com/tensorflow-inference:2.20.0-gpu-py312-cu129-amzn2023-sagemaker"
    model = Model(image_uri=IMAGE, role="role")
    model.deploy(1, "ml.g5.xlarge").delete_endpoint()  # <-

Good:

    from sagemaker.model import Model

    IMAGE = "763104351884.dkr.ecr.us-east-1.amazonaws.com/vllm:0.14.0-gpu-py312-cu130-ubuntu22.04-sagemaker"
    model = Model(image_uri=IMAGE, model_data="s3://bucket/model.tar.gz", role="role")
    predictor = model.deploy(
        initial_instance_count=1, instance_type="ml.g6.xlarge",
        inference_ami_version="al2023-ami-sagemaker-inference-gpu-4-1",
    )
    predictor.delete_endpoint()

Quiet: AWS's images with CUDA 12.0 to 12.8 run on the default hosts, and a CPU instance has no driver

    from sagemaker.model import Model

    ECR = "763104351884.dkr.ecr.us-east-1.amazonaws.com"
    old = Model(image_uri=f"{ECR}/pytorch-inference:2.6.0-gpu-py312-cu124-ubuntu22.04-sagemaker", role="role")
    old.deploy(1, "ml.g5.xlarge").delete_endpoint()
    new = Model(image_uri=f"{ECR}/pytorch-inference:2.10.0-gpu-py313-cu130-ubuntu22.04-sagemaker", role="role")
    new.deploy(1, "ml.m5.xlarge").delete_endpoint()

Quiet: the version is defined elsewhere

    import sys
    from sagemaker.model import Model

    IMAGE = "763104351884.dkr.ecr.us-east-1.amazonaws.com/vllm:0.14.0-gpu-py312-cu130-ubuntu22.04-sagemaker"
    model = Model(image_uri=IMAGE, role="role")
    model.deploy(1, "ml.g5.xlarge", inference_ami_version=sys.argv[1]).delete_endpoint()

Quiet: the newest hosts of batch transform have driver 535, on which CUDA 13 runs with the libraries in AWS's images

    import boto3

    sagemaker = boto3.client("sagemaker")
    sagemaker.create_model(
        ModelName="rows",
        ExecutionRoleArn="arn:aws:iam::111122223333:role/Serve",
        PrimaryContainer={
            "Image": "763104351884.dkr.ecr.us-east-1.amazonaws.com/pytorch-inference:2.10.0-gpu-py313-cu130-ubuntu22.04-sagemaker"
        },
    )
    sagemaker.create_transform_job(
        TransformJobName="score",
        ModelName="rows",
        TransformInput={"DataSource": {"S3DataSource": {"S3DataType": "S3Prefix", "S3Uri": "s3://bucket/rows"}}},
        TransformOutput={"S3OutputPath": "s3://bucket/scores"},
        TransformResources={
            "InstanceType": "ml.g5.xlarge", "InstanceCount": 1, "TransformAmiVersion": "al2-ami-sagemaker-batch-gpu-535"
        },
    )
"""

from gpuproof.catalogue.model import Gpu, HostAmi, HostService, Instance
from gpuproof.findings import Severity
from gpuproof.linter.analysis.values import Value
from gpuproof.linter.jobs.definition import JobDefinition
from gpuproof.linter.knowledge.aws.images import framework_and_cuda, image_name
from gpuproof.linter.knowledge.aws.instance_references import replace_text
from gpuproof.linter.knowledge.aws.instances import find_instance
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hit, Hits, Rule, lowered
from gpuproof.linter.source.edit import Fix

rule = Rule("FW113", "host-driver", Severity.ERROR)

_SERVICES: dict[str, HostService] = {"endpoint": "endpoint", "transform": "transform"}


@rule.job
def check(job: JobDefinition, project: Project) -> Hits:
    service = _SERVICES.get(job.kind)
    instance = find_instance(project, job.instance_type)
    # `gpuproof deploy` and `gpuproof transform` name the host image themselves.
    if service is None or instance is None or not instance.gpu_count or job.source in ("gpuproof", "what-if"):
        return
    version = _version(job, service)
    if version.is_unknown or (version.is_sure and version.text is None):
        return
    found = _judge(job, project, service, instance, version)
    if found is not None:
        yield found


def _judge(
    job: JobDefinition, project: Project, service: HostService, instance: Instance, version: Value
) -> Hit | None:
    from gpuproof.catalogue.host_drivers import judge_host  # the catalogue is loaded where a job has a GPU

    rows, gpu = project.catalogue.tables.host_amis, project.catalogue.gpu(instance.gpu_model or "")
    cuda = _cuda(job, project)
    floor = project.catalogue.driver_floor(cuda) if cuda is not None else None
    choice = judge_host(rows, service, instance.family, floor, gpu, version.text)
    host, name = choice.host, _MEMBER[service]
    image = f"the image has CUDA {cuda}, which needs NVIDIA driver {choice.needed} or later"
    severity = rule.severity
    match choice.unfit:
        case "unknown-version":
            if (version.text or "").startswith("al2-ami-sagemaker-inference-neuron"):
                reason = (
                    f"`{version.text}` is for Inferentia and Trainium; `{instance.name}` has {_gpu(gpu)}."
                )
            else:
                known = ", ".join(row.version for row in rows if row.service == service and row.version)
                reason = f"`{version.text}` is not a value of {name}: SageMaker has {known}."
        case "older-than-gpu":
            assert host is not None
            reason = f"`{instance.name}` has {_gpu(gpu)}, which needs NVIDIA driver {choice.needed} or later, but {_host(host)}."
        case "too-old":
            assert host is not None
            reason = f"{image}, but {_host(host)}: the container stops before its first log line."
        case "needs-compat":
            assert host is not None
            severity = lowered(severity)
            reason = f"{image}, but {_host(host)}: it starts only with CUDA's compatibility libraries in the image."
        case None:
            newest_default = max(row.driver for row in rows if row.service == service and row.default_for)
            undocumented = host is None and gpu is not None and (gpu.driver_first or 0) <= newest_default
            if cuda is None or not undocumented or int(choice.needed) <= newest_default:
                return None
            severity = lowered(severity)
            reason = (
                f"{image}; AWS does not document the driver of `{instance.family}`'s default hosts, "
                f"and the newest default that it documents is {newest_default}."
            )
    sure = (
        job.instance_type.is_known
        and (version.is_absent or version.is_known)
        and job.image.certainty != "default"
    )
    better = choice.better
    remedy = _remedy(job, service, better) if better is not None else None
    if better is not None and better.driver < int(choice.needed or 0):
        remedy = f"{remedy} CUDA {cuda} runs on its driver {better.driver} with the compatibility libraries of AWS's images."
    edits = replace_text(version, version.text, better.version) if better and version.text else ()
    return rule.hit(
        job.where(version, job.instance_type),
        reason[:1].upper() + reason[1:],
        remedy=remedy,
        severity=severity if sure else lowered(severity),
        fix=Fix(f"Use {better.version}", edits) if edits and better else None,
    )


_MEMBER = {"endpoint": "InferenceAmiVersion", "transform": "TransformAmiVersion"}


def _version(job: JobDefinition, service: HostService) -> Value:
    """The version of the host image that a job names; absent for the default."""
    if job.source in ("sagemaker-v2", "sagemaker-v3"):
        return job.argument("inference_ami_version" if service == "endpoint" else "transform_ami_version")
    if job.source == "terraform":
        return job.argument("inference_ami_version")
    if service == "transform":
        return job.argument("TransformResources").at("TransformAmiVersion")
    return job.argument("InferenceAmiVersion")


def _cuda(job: JobDefinition, project: Project) -> str | None:
    """The CUDA version of a job's image, by its tag or by the image that the SDK selects; None if it is unknown."""
    image = image_name(job.image)
    if image is not None:
        return image.cuda if image.device != "cpu" else None
    known = framework_and_cuda(job, project)
    return known[2] if known is not None else None


def _gpu(gpu: Gpu | None) -> str:
    return gpu.name if gpu is not None else "a GPU"


def _host(host: HostAmi) -> str:
    if host.version:
        return f"`{host.version}` has driver {host.driver}"
    return f"the default hosts have driver {host.driver}"


def _remedy(job: JobDefinition, service: HostService, host: HostAmi) -> str:
    if job.source in ("sagemaker-v2", "sagemaker-v3") and service == "endpoint":
        return f'Pass inference_ami_version="{host.version}" to deploy().'
    if job.source == "sagemaker-v2":
        return f'Pass transform_ami_version="{host.version}" to the Transformer of SDK v3, or "TransformAmiVersion" with boto3.'
    if job.source == "terraform":
        return f'Set inference_ami_version = "{host.version}" in the production variant.'
    place = "the production variant" if service == "endpoint" else "TransformResources"
    return f'Set {_MEMBER[service]} "{host.version}" in {place}.'
