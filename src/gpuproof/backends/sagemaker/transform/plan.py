"""Plans a batch transform job: the AWS calls as data. Nothing is created."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from gpuproof.backends.api_call import ApiCall
from gpuproof.backends.aws import Aws, AwsRefused
from gpuproof.backends.remote.bucket import BucketPlan, plan_bucket
from gpuproof.backends.remote.planning.instance_search import list_alternatives
from gpuproof.backends.remote.s3_layout import uri
from gpuproof.backends.sagemaker.endpoints.image import (
    EndpointImage,
    choose_endpoint_image,
    transform_hosts,
)
from gpuproof.backends.sagemaker.endpoints.invocation.payload import content_type_of
from gpuproof.backends.sagemaker.endpoints.options import EndpointOptions, Server
from gpuproof.backends.sagemaker.endpoints.plan import ENDPOINTS, ModelSource
from gpuproof.backends.sagemaker.endpoints.server_files import server_environment
from gpuproof.backends.sagemaker.planning.role import find_role
from gpuproof.backends.sagemaker.transform.local_data import find_data, upload_calls
from gpuproof.catalogue import Catalogue, Price
from gpuproof.errors import InvalidJob, UsageError
from gpuproof.util.humanize import format_bytes

TAG, BUCKET_TAG = "gpuproof:transform", "gpuproof:bucket"
"""Tags of the job and of a model that was created for it: the job's name, and the bucket of the files uploaded for it."""


@dataclass(frozen=True)
class TransformOptions:
    """What a user set.

    Args:
        model: name of a SageMaker model, or what the user named as the source of a new one.
        input: prefix in S3 of the data, or a file or folder of this machine, which is uploaded.
        output: prefix in S3 of the results.
        instance_type: such as `ml.g5.xlarge`.
        instance_count: number of instances.
        image: image of a new model; AWS's for its framework if None.
        framework: `pytorch` or `tensorflow`, of a new model; by the model if None.
        framework_version: such as `2.6`.
        server: what answers in the container of a new model.
        role: name or ARN of the role of a new model; the account's default if None.
        bucket: of the files of a new model, and of data that is uploaded; the account's default if None.
        content_type: of the data; by the suffix of the first object if empty.
        accept: media type of the results; the model's default if empty.
        split: whether each line is a record.
        records: `MultiRecord` or `SingleRecord` for each request; SageMaker's default if empty.
        concurrency: requests at the same time on each instance; the container's choice if None.
        max_payload: MB of a request; the container's choice if None.
        environment: variables of the container.
    """

    model: str
    input: str
    output: str
    instance_type: str
    instance_count: int = 1
    image: str | None = None
    framework: str | None = None
    framework_version: str | None = None
    server: Server = "gpuproof"
    role: str | None = None
    bucket: str | None = None
    content_type: str = ""
    accept: str = ""
    split: bool = False
    records: str = ""
    concurrency: int | None = None
    max_payload: int | None = None
    environment: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True)
class TransformPlan:
    """A job that can be created.

    Args:
        name: of the job, and of its model if that is new.
        options: what the user set; the data is in S3.
        region: where it runs.
        calls: the API calls, in order, each with its undo.
        price: of one instance; None if it is unknown.
        warnings: for the user.
    """

    name: str
    options: TransformOptions
    region: str
    calls: tuple[ApiCall, ...]
    price: Price | None = None
    warnings: tuple[str, ...] = ()

    @property
    def creates_model(self) -> bool:
        """Whether the model is created for this job, and deleted at its end."""
        return any(call.operation == "create_model" for call in self.calls)

    @property
    def uploads_files(self) -> bool:
        """Whether files are uploaded for this job, and deleted at its end."""
        return any(call.operation == "upload_file" for call in self.calls)


def plan_transform(
    aws: Aws,
    catalogue: Catalogue,
    options: TransformOptions,
    name: str,
    source: ModelSource | None = None,
    framework: str | None = None,
) -> TransformPlan:
    """Decide everything about a job.

    Args:
        name: of the job.
        source: of the model that is created for the job; None for an existing model of SageMaker.
        framework: with which that model was made; `options.framework` takes precedence.

    Raises:
        UsageError: an option is invalid, or what it names does not exist.
        InvalidJob: SageMaker has no batch transform on the instance type, or no host image for the container image.
        AwsRefused: the user may not look at the model or the data.
    """
    _check_options(options)
    region = aws.region
    _check_instance(catalogue, options.instance_type, region)
    is_local = not options.input.startswith("s3://")
    bucket = None
    if is_local or (source is not None and source.archive is not None):
        bucket = plan_bucket(aws, in_job=options.bucket)
    calls = [] if bucket is None else list(bucket.calls)
    notes = [bucket.note] if bucket is not None and bucket.note else []
    if is_local and bucket is not None:
        data, prefix = find_data(options.input), f"{ENDPOINTS}{name}/input/"
        first = data.names[0]
        calls += upload_calls(data, bucket.name, prefix)
        options = replace(options, input=uri(bucket.name, prefix))
    else:
        first = _first_object(aws, options.input)
    ami = None
    if source is None:
        _check_model(aws, options)
    else:
        image = _image(catalogue, options, framework, region)
        ami = image.ami
        created, found = _create_model(aws, options, name, source, image, bucket)
        calls += created
        notes += [*image.notes, *found]
    content_type = options.content_type or content_type_of(first)
    model = options.model if source is None else name
    calls.append(_create_job(options, model, name, content_type, ami, bucket))
    price = catalogue.price(options.instance_type, region, "transform")
    if price is None:
        notes.append(f"the price of {options.instance_type} is unknown")
    return TransformPlan(name, options, region, tuple(calls), price, tuple(notes))


def model_undo(name: str) -> ApiCall:
    """The call that deletes the model of a job."""
    return ApiCall("sagemaker", "delete_model", {"ModelName": name}, f"delete the model {name}")


def stop_undo(name: str) -> ApiCall:
    """The call that stops a job."""
    return ApiCall("sagemaker", "stop_transform_job", {"TransformJobName": name}, f"stop the job {name}")


def _check_options(options: TransformOptions) -> None:
    for flag, address in (("--input", options.input), ("--output", options.output)):
        is_s3 = address.startswith("s3://")
        if (flag == "--output" or is_s3) and not (is_s3 and _split(address)[0]):
            raise UsageError(f"{flag} {address} is not an S3 address.", remedy=f"{flag} s3://BUCKET/PREFIX")
    if options.instance_count < 1:
        raise UsageError("--instance-count must be at least 1.")


def _first_object(aws: Aws, address: str) -> str:
    """The key of the first object below a prefix.

    Raises:
        UsageError: there is none.
    """
    first = next(iter(aws.list_objects(*_split(address))), None)
    if first is None:
        raise UsageError(
            f"There are no objects at {address}.", remedy=f"aws s3 ls {address}{aws.region_flag}"
        )
    return first.key


def _check_instance(catalogue: Catalogue, name: str, region: str) -> None:
    accepted = catalogue.accepted_for(name)
    if name.startswith("ml.") and (not accepted or "transform" in accepted):
        return
    alternatives = list_alternatives(name, "transform", catalogue, region)
    raise InvalidJob(
        f"SageMaker has no batch transform on {name}.", remedy=alternatives or "--instance-type ml.g5.xlarge"
    )


def _check_model(aws: Aws, options: TransformOptions) -> None:
    """Check what can be known of an existing model before the job.

    Raises:
        InvalidJob: batch transform does not support it.
    """
    try:
        found = aws.describe_model(options.model) or {}
    except AwsRefused as refused:
        if refused.is_permission:
            return  # creating the job tells
        raise
    for container in found.get("Containers") or [found.get("PrimaryContainer") or {}]:
        if container.get("ModelDataSource"):
            raise InvalidJob(
                f"Batch transform does not support ModelDataSource, which the model {options.model} has.",
                remedy="Name its archive: gpuproof transform s3://BUCKET/model.tar.gz …",
            )


def _image(
    catalogue: Catalogue, options: TransformOptions, framework: str | None, region: str
) -> EndpointImage:
    wanted = EndpointOptions(
        name="",
        instance_type=options.instance_type,
        image=options.image,
        framework_version=options.framework_version,
        server=options.server,
    )
    instance = catalogue.instance(options.instance_type)
    return choose_endpoint_image(
        wanted,
        options.framework or framework,
        options.framework_version,
        instance,
        catalogue,
        region,
        transform_hosts(catalogue),
    )


def _create_model(
    aws: Aws,
    options: TransformOptions,
    name: str,
    source: ModelSource,
    image: EndpointImage,
    bucket: BucketPlan | None,
) -> tuple[tuple[ApiCall, ...], list[str]]:
    """The calls that upload the model's archive, if it is on this machine, and create the model; and notes about them."""
    calls: list[ApiCall] = []
    address = source.address
    if source.archive is not None and bucket is not None:
        key = f"{ENDPOINTS}{name}/model.tar.gz"
        address = uri(bucket.name, key)
        size = format_bytes(source.archive.stat().st_size)
        upload = ApiCall(
            "s3",
            "upload_file",
            {"Filename": str(source.archive), "Bucket": bucket.name, "Key": key},
            f"upload the model ({size}) to {address}",
            ApiCall(
                "s3",
                "delete_objects",
                {"Bucket": bucket.name, "Delete": {"Objects": [{"Key": key}]}},
                f"delete {address}",
            ),
        )
        calls.append(upload)
    container: dict[str, Any] = {"Image": image.uri, "ModelDataUrl": address}
    if options.server == "gpuproof":
        container["Environment"] = server_environment({}, in_model=True)
    role = find_role(aws, options.role)
    request: dict[str, Any] = {
        "ModelName": name,
        "ExecutionRoleArn": role.arn,
        "PrimaryContainer": container,
        "Tags": _tags(name, bucket),
    }
    create = ApiCall("sagemaker", "create_model", request, f"create the model {name}", model_undo(name))
    return (*calls, create), [role.note] if role.note else []


def _tags(name: str, bucket: BucketPlan | None) -> list[dict[str, str]]:
    found = {TAG: name} if bucket is None else {TAG: name, BUCKET_TAG: bucket.name}
    return [{"Key": key, "Value": value} for key, value in found.items()]


def _create_job(
    options: TransformOptions,
    model: str,
    name: str,
    content_type: str,
    ami: str | None,
    bucket: BucketPlan | None,
) -> ApiCall:
    source: dict[str, Any] = {
        "DataSource": {"S3DataSource": {"S3DataType": "S3Prefix", "S3Uri": options.input}},
        "ContentType": content_type,
        "SplitType": "Line" if options.split else "None",
    }
    target: dict[str, Any] = {
        "S3OutputPath": options.output,
        "AssembleWith": "Line" if options.split else "None",
    }
    if options.accept:
        target["Accept"] = options.accept
    request: dict[str, Any] = {
        "TransformJobName": name,
        "ModelName": model,
        "TransformInput": source,
        "TransformOutput": target,
        "TransformResources": {
            "InstanceType": options.instance_type,
            "InstanceCount": options.instance_count,
        },
        "Tags": _tags(name, bucket),
    }
    if ami is not None:
        request["TransformResources"]["TransformAmiVersion"] = ami
    if options.environment:
        request["Environment"] = dict(options.environment)
    chosen = {
        "BatchStrategy": options.records,
        "MaxConcurrentTransforms": options.concurrency,
        "MaxPayloadInMB": options.max_payload,
    }
    request |= {member: value for member, value in chosen.items() if value not in ("", None)}
    what = "start the batch transform job"
    return ApiCall("sagemaker", "create_transform_job", request, what, stop_undo(name))


def _split(address: str) -> tuple[str, str]:
    bucket, _, key = address.removeprefix("s3://").partition("/")
    return bucket, key
