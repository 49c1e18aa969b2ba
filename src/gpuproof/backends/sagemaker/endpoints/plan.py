"""The plan of a deployment: every decision, and the API calls that execute it as data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gpuproof.backends.api_call import ApiCall
from gpuproof.backends.display import Displayed
from gpuproof.backends.remote.bucket import BucketPlan
from gpuproof.backends.remote.s3_layout import ROOT, uri
from gpuproof.backends.sagemaker.endpoints.image import EndpointImage
from gpuproof.backends.sagemaker.endpoints.requests import (
    config_call,
    endpoint_call,
    model_call,
    schedule_of,
    update_call,
)
from gpuproof.backends.sagemaker.endpoints.scaling import scaling_calls, scaling_undo
from gpuproof.backends.sagemaker.endpoints.server_files import CHANNEL, server_environment
from gpuproof.catalogue.model import Price
from gpuproof.jobs.models.endpoint import EndpointJob
from gpuproof.util.humanize import format_usd
from gpuproof.version import __version__

ENDPOINTS = f"{ROOT}endpoints/"
"""Prefix of the files of the models of endpoints and of batch transform jobs, each below the name of its model."""

ENDPOINT_TAG, KIND_TAG, PREVIOUS_TAG = "gpuproof:endpoint", "gpuproof:kind", "gpuproof:previous"


@dataclass(frozen=True)
class ModelSource:
    """A model.

    Args:
        archive: a `model.tar.gz` on this machine, with the server's files; None if it is in S3 already.
        address: the `s3://` address of a `model.tar.gz`; None if it is on this machine.
        what: what it is, for the user.
    """

    archive: Path | None
    address: str | None
    what: str


@dataclass(frozen=True, repr=False)
class EndpointPlan(Displayed):
    """A deployment.

    Args:
        deployment: the name of the model and of the endpoint configuration.
        role: the ARN of the container's role.
        files: the server's files to upload by name; empty if they are in the archive, or with the image's own server.
        gpus: number of GPUs of each instance.
        price: of an instance; None if unknown.
        require_gpu: whether the deployment fails unless the model is on the GPU.
        replaces: the configuration of the endpoint that is updated; None for a new endpoint.
        scaling: the calls that would register the automatic scaling that the endpoint has already; empty if it has none.
        changes_type: whether the update changes the type of the instances.
        schedule_role: the ARN of the schedule's role; None without `--ttl`.
        planned_at: when this was planned, in seconds since the epoch.
        stored_schedule: the description of the schedule that deletes an endpoint of this name; None if there is none.
        warnings: what the user should know before.
    """

    job: EndpointJob
    deployment: str
    region: str
    partition: str
    role: str
    bucket: BucketPlan
    image: EndpointImage
    model: ModelSource
    files: Mapping[str, Path]
    gpus: int
    price: Price | None
    require_gpu: bool
    replaces: str | None = None
    scaling: tuple[ApiCall, ...] = ()
    changes_type: bool = False
    schedule_role: str | None = None
    planned_at: float = 0.0
    stored_schedule: Mapping[str, Any] | None = None
    warnings: tuple[str, ...] = field(default=())

    @property
    def name(self) -> str:
        """The endpoint."""
        return self.job.name

    @property
    def prefix(self) -> str:
        """Prefix of the deployment's files in the bucket."""
        return f"{ENDPOINTS}{self.deployment}/"

    @property
    def usd_per_hour(self) -> float | None:
        """What the instances cost at the start; None if unknown or serverless."""
        return None if self.price is None else self.price.usd_per_hour * self.job.instance_count

    @property
    def max_usd(self) -> float | None:
        """The highest possible cost until its schedule deletes it, with as many instances as it scales to; None if unknown,
        or if it has no schedule."""
        if self.price is None or self.job.ttl is None:
            return None
        scaling = self.job.scaling
        count = self.job.instance_count if scaling is None else max(scaling.maximum, self.job.instance_count)
        return self.price.usd_per_hour * count * self.job.ttl.seconds / 3600

    @property
    def size(self) -> str:
        """Number and type of the instances at the start, with their price for an hour and a day."""
        if self.job.serverless is not None:
            return f"serverless, {self.job.serverless.memory_mb} MB, billed by request"
        size, cost = f"{self.job.instance_count} x {self.job.instance_type}", self.usd_per_hour
        if cost is None:
            return f"{size}, price unknown"
        return f"{size}, {format_usd(cost)} an hour, {format_usd(cost * 24)} a day"

    @property
    def title(self) -> str:
        """Plan of a deployment."""
        return f"plan of the endpoint {self.name}"

    def describe(self) -> list[tuple[str, str]]:
        """The plan for the user: labels and texts."""
        lines = [
            ("endpoint" if self.replaces is None else "update", f"{self.name} in {self.region}: {self.size}"),
            ("image", f"{self.image.uri} ({self.image.because})"),
        ]
        if self.image.ami is not None:
            lines.append(("driver", self.image.ami))
        return lines + [("note", warning) for warning in self.warnings]

    @property
    def uploads(self) -> tuple[tuple[Path, str], ...]:
        """The files to upload, with their keys."""
        found = [(path, f"{self.prefix}server/{name}") for name, path in self.files.items()]
        if self.model.archive is not None:
            found.insert(0, (self.model.archive, f"{self.prefix}model.tar.gz"))
        return tuple(found)

    @property
    def calls(self) -> tuple[ApiCall, ...]:
        """All calls, in order."""
        bucket = self.bucket.name
        uploads = [
            ApiCall(
                "s3",
                "upload_file",
                {"Filename": str(path), "Bucket": bucket, "Key": key},
                f"upload {path.name}",
            )
            for path, key in self.uploads
        ]
        return (
            *self.bucket.calls,
            *uploads,
            self.create_model,
            self.create_config,
            *(call for call in (self.schedule, self.end_scaling) if call is not None),
            self.start,
            *self.start_scaling,
        )

    @property
    def create_model(self) -> ApiCall:
        """CreateModel."""
        return model_call(self.deployment, self.job, self._container(), self.role, self.tags)

    @property
    def create_config(self) -> ApiCall:
        """CreateEndpointConfig."""
        return config_call(self.deployment, self.job, self.image.ami, self.tags)

    @property
    def schedule(self) -> ApiCall | None:
        """What the deployment would do about its schedule if it were executed when it was planned."""
        return self.schedule_at(self.planned_at)

    def schedule_at(self, now: float) -> ApiCall | None:
        """CreateSchedule, UpdateSchedule if there is a schedule of this name already, or DeleteSchedule: an older schedule
        would delete a new endpoint without `--ttl`. None if nothing has to be done.

        Args:
            now: seconds since the epoch, from which `--ttl` counts.
        """
        schedule, stored = schedule_of(self.name), self.stored_schedule
        if self.schedule_role is None or self.job.ttl is None:
            return schedule.delete() if stored is not None and self.replaces is None else None
        start = now + self.job.ttl.seconds
        if stored is None:
            return schedule.create(start, self.schedule_role, self.partition)
        return schedule.move(stored, start, self.schedule_role, self.partition)

    @property
    def start(self) -> ApiCall:
        """CreateEndpoint or UpdateEndpoint."""
        if self.replaces is not None:
            keeps_count = bool(self.scaling) and not self.changes_type
            return update_call(self.name, self.deployment, keeps_count=keeps_count)
        return endpoint_call(self.name, self.deployment, self.tags)

    @property
    def end_scaling(self) -> ApiCall | None:
        """DeregisterScalableTarget before an update to another type of instance, which is refused otherwise.

        Source: https://docs.aws.amazon.com/sagemaker/latest/dg/endpoint-scaling-update.html
        """
        return scaling_undo(self.name) if self.scaling and self.changes_type else None

    @property
    def start_scaling(self) -> tuple[ApiCall, ...]:
        """What starts the automatic scaling, or starts it again."""
        if self.job.scaling is None and self.changes_type and self.job.serverless is None:
            return self.scaling
        return scaling_calls(self.job)

    @property
    def tags(self) -> dict[str, str]:
        """The tags of model, configuration and endpoint."""
        return {
            **self.job.tags,
            ENDPOINT_TAG: self.name,
            KIND_TAG: "endpoint",
            "gpuproof:version": __version__,
            "gpuproof:bucket": self.bucket.name,
            "gpuproof:require-gpu": "true" if self.require_gpu else "false",
        }

    def to_json(self) -> dict[str, Any]:
        """The JSON form for `--dry-run --format json`."""
        return {
            "version": 1,
            "endpoint": self.name,
            "region": self.region,
            "updates": self.replaces is not None,
            "image": self.image.uri,
            "inference_ami_version": self.image.ami,
            "instance_type": self.job.instance_type,
            "instance_count": self.job.instance_count,
            "usd_per_hour": self.usd_per_hour,
            "max_usd": self.max_usd,
            "require_gpu": self.require_gpu,
            "warnings": list(self.warnings),
            "calls": [call.to_json() for call in self.calls],
        }

    def _container(self) -> dict[str, Any]:
        own = self.job.server == "gpuproof"
        environment = dict(self.job.environment)
        if own:
            environment = server_environment(environment, in_model=self.model.archive is not None)
        container: dict[str, Any] = {"Image": self.image.uri}
        if self.model.archive is not None:
            container["ModelDataUrl"] = uri(self.bucket.name, f"{self.prefix}model.tar.gz")
        else:
            assert self.model.address is not None
            if own:
                container["ModelDataSource"] = {
                    "S3DataSource": _source(self.model.address, "S3Object", "Gzip")
                }
                address = uri(self.bucket.name, f"{self.prefix}server/")
                source = {"ChannelName": CHANNEL, "S3DataSource": _source(address, "S3Prefix", "None")}
                container["AdditionalModelDataSources"] = [source]
            else:
                container["ModelDataUrl"] = self.model.address
        if environment:
            container["Environment"] = environment
        return container


def _source(address: str, kind: str, compression: str) -> dict[str, str]:
    return {"S3Uri": address, "S3DataType": kind, "CompressionType": compression}
