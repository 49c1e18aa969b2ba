"""Plans a batch transform job: the AWS calls as data. Nothing is created."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from gpuproof.backends.api_call import ApiCall
from gpuproof.backends.aws import Aws, AwsRefused
from gpuproof.backends.remote.planning.instance_search import list_alternatives
from gpuproof.backends.sagemaker.endpoints.invocation.payload import content_type_of
from gpuproof.backends.sagemaker.planning.role import find_role
from gpuproof.catalogue import Catalogue, Price
from gpuproof.errors import InvalidJob, UsageError
from gpuproof.util.spelling import nearest_words

TAG = "gpuproof:transform"
"""Tag of the job and of a model that was created for it; its value is the job's name."""
_MISSING = re.compile(r"could not find model", re.IGNORECASE)


@dataclass(frozen=True)
class TransformOptions:
    """What a user set.

    Args:
        model: name of a SageMaker model, or address in S3 of a `model.tar.gz`.
        input: prefix in S3 of the data.
        output: prefix in S3 of the results.
        instance_type: such as `ml.g5.xlarge`.
        instance_count: number of instances.
        image: image of a new model; empty for an existing model.
        role: name or ARN of the role of a new model; the account's default if None.
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
    image: str = ""
    role: str | None = None
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
        options: what the user set.
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
        return len(self.calls) > 1


def plan_transform(aws: Aws, catalogue: Catalogue, options: TransformOptions, name: str) -> TransformPlan:
    """Decide everything about a job.

    Args:
        name: of the job.

    Raises:
        UsageError: an option is invalid, or what it names does not exist.
        InvalidJob: SageMaker has no batch transform on the instance type.
        AwsRefused: the user may not look at the model or the data.
    """
    _check_addresses(options)
    region = aws.region
    _check_instance(catalogue, options.instance_type, region)
    objects = list(islice(aws.list_objects(*_split(options.input)), 1))
    if not objects:
        raise UsageError(
            f"There are no objects at {options.input}.", remedy=f"aws s3 ls {options.input}{aws.region_flag}"
        )
    calls = [_create_model(aws, options, name)] if options.model.startswith("s3://") else []
    if not calls:
        _check_model(aws, options)
    content_type = options.content_type or content_type_of(objects[0].key)
    job = _create_job(options, name if calls else options.model, name, content_type)
    price = catalogue.price(options.instance_type, region, "transform")
    notes = () if price is not None else (f"the price of {options.instance_type} is unknown",)
    return TransformPlan(name, options, region, (*calls, job), price, notes)


def _check_addresses(options: TransformOptions) -> None:
    for flag, address in (("--input", options.input), ("--output", options.output)):
        if not address.startswith("s3://") or not _split(address)[0]:
            raise UsageError(f"{flag} {address} is not an S3 address.", remedy=f"{flag} s3://BUCKET/PREFIX")
    if options.instance_count < 1:
        raise UsageError("--instance-count must be at least 1.")
    if options.model.startswith("s3://") and not options.image:
        raise UsageError(
            f"The model {options.model} needs an image that serves it.",
            remedy="--image URI; `gpuproof gpus` and the image lists of AWS's Deep Learning Containers name them",
        )
    if options.image and not options.model.startswith("s3://"):
        raise UsageError(f"--image is only for a model in S3; {options.model} has its own image.")


def _check_instance(catalogue: Catalogue, name: str, region: str) -> None:
    accepted = catalogue.accepted_for(name)
    if name.startswith("ml.") and (not accepted or "transform" in accepted):
        return
    alternatives = list_alternatives(name, "transform", catalogue, region)
    raise InvalidJob(
        f"SageMaker has no batch transform on {name}.", remedy=alternatives or "--instance-type ml.g5.xlarge"
    )


def _check_model(aws: Aws, options: TransformOptions) -> None:
    name = options.model
    try:
        aws.call("sagemaker", "describe_model", ModelName=name)
    except AwsRefused as refused:
        if refused.is_permission:
            return  # creating the job tells
        if refused.code != "ValidationException" or not _MISSING.search(refused.aws_message):
            raise
        raise _missing_model(aws, name) from refused


def _missing_model(aws: Aws, name: str) -> UsageError:
    try:
        found = aws.call("sagemaker", "list_models", MaxResults=100, SortBy="CreationTime")["Models"]
    except AwsRefused:
        found = []
    near = nearest_words(name, [item["ModelName"] for item in found], 1)
    other = "Name a model of SageMaker, or s3://BUCKET/model.tar.gz with --image URI."
    return UsageError(
        f"There is no model {name} in {aws.region}.", remedy=f"Did you mean {near[0]}?" if near else other
    )


def _create_model(aws: Aws, options: TransformOptions, name: str) -> ApiCall:
    bucket, key = _split(options.model)
    if aws.object(bucket, key) is None:
        raise UsageError(f"There is no object at {options.model}.")
    container = {"Image": options.image, "ModelDataUrl": options.model}
    request: dict[str, Any] = {
        "ModelName": name,
        "ExecutionRoleArn": find_role(aws, options.role).arn,
        "PrimaryContainer": container,
        "Tags": [{"Key": TAG, "Value": name}],
    }
    undo = ApiCall("sagemaker", "delete_model", {"ModelName": name}, "delete the model")
    return ApiCall("sagemaker", "create_model", request, "create a model for this job", undo)


def _create_job(options: TransformOptions, model: str, name: str, content_type: str) -> ApiCall:
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
        "Tags": [{"Key": TAG, "Value": name}],
    }
    if options.environment:
        request["Environment"] = dict(options.environment)
    chosen = {
        "BatchStrategy": options.records,
        "MaxConcurrentTransforms": options.concurrency,
        "MaxPayloadInMB": options.max_payload,
    }
    request |= {member: value for member, value in chosen.items() if value not in ("", None)}
    undo = ApiCall("sagemaker", "stop_transform_job", {"TransformJobName": name}, "stop the job")
    return ApiCall("sagemaker", "create_transform_job", request, "start the batch transform job", undo)


def _split(address: str) -> tuple[str, str]:
    bucket, _, key = address.removeprefix("s3://").partition("/")
    return bucket, key
