"""What a user can set for an endpoint, as values that parse what people write."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Self

from gpuproof.errors import UsageError
from gpuproof.units import Duration

Server = Literal["gpuproof", "image"]

_MEMORY_MB = (1024, 2048, 3072, 4096, 5120, 6144)
"""Source: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_ProductionVariantServerlessConfig.html"""


@dataclass(frozen=True)
class Serverless:
    """A serverless variant.

    Args:
        memory_mb: 1024 to 6144 in steps of 1024.
        concurrency: largest number of requests at the same time.
    """

    memory_mb: int
    concurrency: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse `memory=4096,concurrency=5`.

        Raises:
            UsageError: it has another form, or SageMaker has no such size.
        """
        remedy = "--serverless memory=4096,concurrency=5"
        words = {name: value for name, _, value in (word.partition("=") for word in text.split(","))}
        memory, concurrency = words.pop("memory", "2048"), words.pop("concurrency", "5")
        if words or not memory.isdecimal() or not concurrency.isdecimal():
            raise UsageError(f"'{text}' does not describe a serverless endpoint.", remedy=remedy)
        if int(memory) not in _MEMORY_MB or not 1 <= int(concurrency) <= 200:
            sizes = ", ".join(map(str, _MEMORY_MB))
            raise UsageError(
                f"Serverless endpoints have {sizes} MB of memory and a concurrency of 1 to 200, not {text}.",
                remedy=remedy,
            )
        return cls(int(memory), int(concurrency))


@dataclass(frozen=True)
class DataCapture:
    """Recording of requests and responses.

    Args:
        address: the `s3://` prefix of the records.
        percent: share of the requests, 1 to 100.
    """

    address: str
    percent: int = 100

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse `s3://bucket/prefix` or `s3://bucket/prefix,20`.

        Raises:
            UsageError: it has another form.
        """
        address, _, percent = text.partition(",")
        number = percent.removesuffix("%") or "100"
        if not address.startswith("s3://") or not number.isdecimal() or not 1 <= int(number) <= 100:
            raise UsageError(
                f"'{text}' is not an S3 address with a percentage.",
                remedy="--data-capture s3://BUCKET/PREFIX,20",
            )
        return cls(address, int(number))


@dataclass(frozen=True)
class AsyncInference:
    """Asynchronous inference.

    Args:
        output: the `s3://` prefix of the responses.
        success_topic: the ARN of an SNS topic; None for no messages.
        error_topic: likewise, for failed requests.
    """

    output: str
    success_topic: str | None = None
    error_topic: str | None = None


@dataclass(frozen=True)
class Scaling:
    """Automatic scaling by concurrency.

    Args:
        minimum: least number of instances.
        maximum: largest number of instances.
        concurrency: requests that each instance should work on at the same time.
    """

    minimum: int
    maximum: int
    concurrency: float


@dataclass(frozen=True)
class EndpointOptions:
    """What a user set; None where GPUproof decides.

    Args:
        name: the endpoint.
        instance_type: such as `ml.g5.xlarge`; None for serverless endpoints.
        instance_count: instances at the start.
        role: name or ARN of the role that the container runs as.
        bucket: the bucket of the model's files.
        image: the container image.
        framework: `pytorch` or `tensorflow`.
        framework_version: such as `2.6`.
        environment: the container's variables.
        require_gpu: whether the deployment fails unless the model is on the GPU; None for: if the type has one.
        server: GPUproof's server, or the image's own.
        isolated: no network for the container.
        startup_timeout: how long the container may take to become healthy.
        ttl: after which a schedule deletes the endpoint.
        schedule_role: name or ARN of the role that the schedule runs as.
        keep_without_schedule: deploy even if the schedule cannot be created.
        scaling: automatic scaling.
        serverless: instead of instances.
        asynchronous: asynchronous inference.
        capture: recording of requests.
        request: the file with a request that the model must answer.
        content_type: of that request.
        tags: the user's tags.
        update: update an endpoint although GPUproof did not create it.
    """

    name: str
    instance_type: str | None = None
    instance_count: int = 1
    role: str | None = None
    bucket: str | None = None
    image: str | None = None
    framework: str | None = None
    framework_version: str | None = None
    environment: Mapping[str, str] = field(default_factory=dict[str, str])
    require_gpu: bool | None = None
    server: Server = "gpuproof"
    isolated: bool = False
    startup_timeout: Duration | None = None
    ttl: Duration | None = None
    schedule_role: str | None = None
    keep_without_schedule: bool = False
    scaling: Scaling | None = None
    serverless: Serverless | None = None
    asynchronous: AsyncInference | None = None
    capture: DataCapture | None = None
    request: Path | None = None
    content_type: str | None = None
    tags: Mapping[str, str] = field(default_factory=dict[str, str])
    update: bool = False


def check_options(options: EndpointOptions) -> None:
    """Reject options that contradict each other or SageMaker.

    Source of what serverless endpoints lack: https://docs.aws.amazon.com/sagemaker/latest/dg/serverless-endpoints.html

    Raises:
        UsageError: with what to change.
    """
    if options.instance_count < 1:
        raise UsageError("--instance-count must be 1 or more.", remedy="--instance-count 1")
    if options.serverless is not None:
        _check_serverless(options)
    elif options.instance_type is None:
        raise UsageError(
            "An endpoint needs an instance type.",
            remedy="--instance-type ml.g5.xlarge (`gpuproof gpus --on sagemaker` lists types), or --serverless",
        )
    scaling = options.scaling
    if scaling is not None and not 1 <= scaling.minimum <= options.instance_count <= scaling.maximum:
        raise UsageError(
            f"--min-instances {scaling.minimum}, --instance-count {options.instance_count} and --max-instances "
            f"{scaling.maximum} are not in ascending order, or start below 1.",
            remedy="--min-instances 1 --max-instances 4 --target-concurrency 4",
        )
    if scaling is not None and scaling.concurrency <= 0:
        raise UsageError("--target-concurrency must be above 0.", remedy="--target-concurrency 4")
    if options.ttl is not None and options.ttl.seconds < MIN_TTL_S:
        raise UsageError(
            f"--ttl must be at least {MIN_TTL_S // 60} minutes: SageMaker does not delete an endpoint that is still being "
            "created.",
            remedy="--ttl 2h",
        )
    timeout = options.startup_timeout
    if timeout is not None and not 60 <= timeout.seconds <= 3600:
        raise UsageError("--startup-timeout must be between 60 s and 1 h.", remedy="--startup-timeout 15m")
    if options.asynchronous is not None and not options.asynchronous.output.startswith("s3://"):
        raise UsageError(
            f"'{options.asynchronous.output}' is not an S3 address.", remedy="--async s3://BUCKET/PREFIX"
        )


MIN_TTL_S = 30 * 60
"""Shortest life of an endpoint, in seconds."""


def _check_serverless(options: EndpointOptions) -> None:
    refused = {
        "an instance type": options.instance_type is not None,
        "several instances": options.instance_count != 1,
        "automatic scaling": options.scaling is not None,
        "asynchronous inference": options.asynchronous is not None,
        "data capture": options.capture is not None,
        "network isolation": options.isolated,
        "GPUs (--require-gpu)": options.require_gpu is True,
    }
    if names := [name for name, given in refused.items() if given]:
        raise UsageError(
            f"Serverless endpoints have no {' and no '.join(names)}: they run on CPUs of SageMaker's choice.",
            remedy="Remove --serverless, or the other flag.",
        )
