"""Plans a batch transform job: the AWS calls as data. Nothing is created."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpuproof.backends.api_call import ApiCall
from gpuproof.backends.aws import Aws, AwsRefused
from gpuproof.backends.display import Displayed
from gpuproof.backends.remote.bucket import BucketPlan, plan_bucket
from gpuproof.backends.remote.planning.instance_search import list_alternatives
from gpuproof.backends.remote.s3_layout import uri
from gpuproof.backends.remote.upload.input_folder import list_files
from gpuproof.backends.sagemaker.endpoints.image import (
    EndpointImage,
    choose_endpoint_image,
)
from gpuproof.backends.sagemaker.endpoints.invocation.payload import content_type_of
from gpuproof.backends.sagemaker.endpoints.plan import ENDPOINTS, ModelSource
from gpuproof.backends.sagemaker.endpoints.server_files import server_environment
from gpuproof.backends.sagemaker.planning.role import find_role
from gpuproof.catalogue import Catalogue, Price
from gpuproof.errors import InvalidJob, UsageError
from gpuproof.jobs.models.transform import TransformJob
from gpuproof.jobs.source.secret_files import find_secret_names
from gpuproof.util.humanize import format_bytes, format_usd, pluralize

TAG, BUCKET_TAG = "gpuproof:transform", "gpuproof:bucket"
"""Tags of the job and of a model that was created for it: the job's name, and the bucket of the files uploaded for it."""

_STRATEGIES = {"many": "MultiRecord", "one": "SingleRecord"}


@dataclass(frozen=True, repr=False)
class TransformPlan(Displayed):
    """A job that can be created.

    Args:
        name: of the job, and of its model if that is new.
        job: what the user set; the data is in S3.
        calls: the API calls, in order, each with its undo.
        price: of one instance; None if it is unknown.
    """

    name: str
    job: TransformJob
    region: str
    calls: tuple[ApiCall, ...]
    price: Price | None = None
    warnings: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        """Plan of a job."""
        return f"plan of the batch transform job {self.name}"

    def describe(self) -> list[tuple[str, str]]:
        """The plan for the user: labels and texts."""
        size = f"{self.job.instance_count} x {self.job.instance_type}"
        if self.price is not None:
            size += (
                f", {format_usd(self.price.usd_per_hour * self.job.instance_count)} per hour while it runs"
            )
        lines = [("job", f"{self.name} in {self.region}: {size}"), ("output", self.job.output)]
        return lines + [("note", warning) for warning in self.warnings]

    def to_json(self) -> dict[str, Any]:
        """The JSON form of a dry run."""
        return {
            "version": 1,
            "name": self.name,
            "region": self.region,
            "calls": [call.to_json() for call in self.calls],
        }

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
    job: TransformJob,
    name: str,
    source: ModelSource | None = None,
    framework: str | None = None,
) -> TransformPlan:
    """Decide everything about a job.

    Args:
        source: of the model that is created for the job; None for an existing model of SageMaker.
        framework: with which that model was made; `job.framework` takes precedence.

    Raises:
        UsageError: an option is invalid, or what it names does not exist.
        InvalidJob: SageMaker has no batch transform on the instance type, or no host image for the container image.
        AwsRefused: the user may not look at the model or the data.
    """
    region = aws.region
    _check_instance(catalogue, job.instance_type, region)
    is_local = not job.input.startswith("s3://")
    bucket = None
    if is_local or (source is not None and source.archive is not None):
        bucket = plan_bucket(aws, in_job=job.bucket)
    calls = [] if bucket is None else list(bucket.calls)
    notes = [bucket.note] if bucket is not None and bucket.note else []
    if is_local and bucket is not None:
        data, prefix = find_data(job.input), f"{ENDPOINTS}{name}/input/"
        first = data.names[0]
        calls += upload_calls(data, bucket.name, prefix)
        job = job.model_copy(update={"input": uri(bucket.name, prefix)})
    else:
        first = _first_object(aws, job.input)
    ami = None
    if source is None:
        _check_model(aws, job)
    else:
        image = _image(catalogue, job, framework, region)
        ami = image.ami
        created, found = _create_model(aws, job, name, source, image, bucket)
        calls += created
        notes += [*image.notes, *found]
    content_type = job.content_type or content_type_of(first)
    model = job.model if source is None else name
    calls.append(_create_job(job, model, name, content_type, ami, bucket))
    price = catalogue.price(job.instance_type, region, "transform")
    if price is None:
        notes.append(f"the price of {job.instance_type} is unknown")
    return TransformPlan(name, job, region, tuple(calls), price, tuple(notes))


def model_undo(name: str) -> ApiCall:
    """The call that deletes the model of a job."""
    return ApiCall("sagemaker", "delete_model", {"ModelName": name}, f"delete the model {name}")


def stop_undo(name: str) -> ApiCall:
    """The call that stops a job."""
    return ApiCall("sagemaker", "stop_transform_job", {"TransformJobName": name}, f"stop the job {name}")


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


def _check_model(aws: Aws, job: TransformJob) -> None:
    """Check what can be known of an existing model before the job.

    Raises:
        InvalidJob: batch transform does not support it.
    """
    try:
        found = aws.describe_model(job.model) or {}
    except AwsRefused as refused:
        if refused.is_permission:
            return  # creating the job tells
        raise
    for container in found.get("Containers") or [found.get("PrimaryContainer") or {}]:
        if container.get("ModelDataSource"):
            raise InvalidJob(
                f"Batch transform does not support ModelDataSource, which the model {job.model} has.",
                remedy="Name its archive: gpuproof transform s3://BUCKET/model.tar.gz …",
            )


def _image(catalogue: Catalogue, job: TransformJob, framework: str | None, region: str) -> EndpointImage:
    instance = catalogue.instance(job.instance_type)
    return choose_endpoint_image(
        job,
        job.framework or framework,
        job.framework_version,
        instance,
        catalogue,
        region,
        "transform",
    )


def _create_model(
    aws: Aws,
    job: TransformJob,
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
    if job.server == "gpuproof":
        container["Environment"] = server_environment({}, in_model=True)
    role = find_role(aws, job.role)
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
    job: TransformJob,
    model: str,
    name: str,
    content_type: str,
    ami: str | None,
    bucket: BucketPlan | None,
) -> ApiCall:
    assembly = "Line" if job.split == "line" else "None"
    source: dict[str, Any] = {
        "DataSource": {"S3DataSource": {"S3DataType": "S3Prefix", "S3Uri": job.input}},
        "ContentType": content_type,
        "SplitType": assembly,
    }
    target: dict[str, Any] = {
        "S3OutputPath": job.output,
        "AssembleWith": assembly,
    }
    if job.accept:
        target["Accept"] = job.accept
    request: dict[str, Any] = {
        "TransformJobName": name,
        "ModelName": model,
        "TransformInput": source,
        "TransformOutput": target,
        "TransformResources": {
            "InstanceType": job.instance_type,
            "InstanceCount": job.instance_count,
        },
        "Tags": _tags(name, bucket),
    }
    if ami is not None:
        request["TransformResources"]["TransformAmiVersion"] = ami
    if job.environment:
        request["Environment"] = dict(job.environment)
    chosen = {
        "BatchStrategy": _STRATEGIES.get(job.records or ""),
        "MaxConcurrentTransforms": job.concurrency,
        "MaxPayloadInMB": job.max_payload,
    }
    request |= {member: value for member, value in chosen.items() if value is not None}
    what = "start the batch transform job"
    return ApiCall("sagemaker", "create_transform_job", request, what, stop_undo(name))


def _split(address: str) -> tuple[str, str]:
    bucket, _, key = address.removeprefix("s3://").partition("/")
    return bucket, key


@dataclass(frozen=True)
class LocalData:
    """Files that are uploaded.

    Args:
        names: relative to it, sorted.
        what: the file or folder as the user named it.
    """

    root: Path
    names: tuple[str, ...]
    what: str


def find_data(text: str) -> LocalData:
    """The files of a file or folder.

    Raises:
        UsageError: it does not exist or is empty, or a file's name is one that secrets have.
    """
    path = Path(text).expanduser()
    if not path.exists():
        raise UsageError(
            f"--input {text} is neither an S3 address nor a file or folder here.",
            remedy="--input s3://BUCKET/PREFIX, or --input FOLDER",
        )
    root = path if path.is_dir() else path.parent
    names = sorted(list_files(root)) if path.is_dir() else [path.name]
    if not names:
        raise UsageError(f"--input {text} contains no files.")
    secret = next(find_secret_names(root, names), None)
    if secret is not None:
        raise UsageError(
            f"Nothing was uploaded, because {secret.name} in {text} looks like a secret ({secret.reason}).",
            remedy="Move it elsewhere, or upload the data yourself: aws s3 cp --recursive "
            f"{text} s3://BUCKET/PREFIX; then --input s3://BUCKET/PREFIX",
        )
    return LocalData(root, tuple(names), text)


def upload_calls(data: LocalData, bucket: str, prefix: str) -> tuple[ApiCall, ...]:
    """The calls that upload the files; the first one's undo deletes all of them."""
    keys = [f"{prefix}{name}" for name in data.names]
    size = sum((data.root / name).stat().st_size for name in data.names)
    address = uri(bucket, prefix)
    what = f"upload {data.what} ({pluralize(len(keys), 'file')}, {format_bytes(size)}) to {address}"
    request = {"Bucket": bucket, "Delete": {"Objects": [{"Key": key} for key in keys]}}
    undo = ApiCall("s3", "delete_objects", request, f"delete {address}")
    return tuple(
        ApiCall(
            "s3",
            "upload_file",
            {"Filename": str(data.root / name), "Bucket": bucket, "Key": key},
            what,
            undo if number == 0 else None,
        )
        for number, (name, key) in enumerate(zip(data.names, keys, strict=True))
    )
