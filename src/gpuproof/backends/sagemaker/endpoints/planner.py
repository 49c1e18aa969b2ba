"""Plans deployments: chooses image, host image, role, bucket and schedule; makes requests to AWS, but creates nothing."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gpuproof.backends.aws import Aws, AwsRefused, AwsUnreachable
from gpuproof.backends.remote.bucket import plan_bucket
from gpuproof.backends.remote.deletion_schedule import format_start, starts_at
from gpuproof.backends.remote.planning.instance_search import list_alternatives
from gpuproof.backends.remote.planning.region import check_region
from gpuproof.backends.remote.planning.schedule_role import find_schedule_role
from gpuproof.backends.remote.run_id import new_run_id
from gpuproof.backends.sagemaker.endpoints.image import choose_endpoint_image
from gpuproof.backends.sagemaker.endpoints.plan import ENDPOINT_TAG, EndpointPlan, ModelSource
from gpuproof.backends.sagemaker.endpoints.requests import schedule_of
from gpuproof.backends.sagemaker.endpoints.scaling import existing_scaling, instance_type_of
from gpuproof.backends.sagemaker.endpoints.server_files import server_files
from gpuproof.backends.sagemaker.planning.role import find_role
from gpuproof.catalogue import Catalogue
from gpuproof.catalogue.model import Instance
from gpuproof.errors import InvalidJob, UsageError
from gpuproof.jobs.models.endpoint import EndpointJob


class EndpointPlanner:
    """Plans deployments in one account and region.

    Args:
        catalogue: instance types, prices, images and drivers.
        clock: the time in seconds since the epoch.
    """

    def __init__(
        self,
        aws: Aws,
        cache: Path,
        catalogue: Catalogue | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._aws = aws
        self._cache = cache
        self._catalogue = catalogue or Catalogue.load()
        self._clock = clock

    def plan(
        self,
        job: EndpointJob,
        model: ModelSource,
        framework: str | None = None,
        version: str | None = None,
        *,
        update: bool = False,
    ) -> EndpointPlan:
        """Decide everything about a deployment.

        Args:
            framework: with which it was made; `job.framework` takes precedence.
            update: update an endpoint although GPUproof did not create it.

        Raises:
            GPUproofError: it cannot be deployed.
        """
        region = check_region(self._aws, self._catalogue)
        instance, warnings = self._instance(job, region)
        image = choose_endpoint_image(
            job,
            job.framework or framework,
            job.framework_version or version,
            instance,
            self._catalogue,
            region,
        )
        gpus = instance.gpu_count if instance is not None else 0
        if job.require_gpu and instance is not None and not gpus:
            raise InvalidJob(
                f"{job.instance_type} has no GPU, but --require-gpu was given.",
                remedy="--instance-type ml.g5.xlarge, or --no-require-gpu",
            )
        own = job.server == "gpuproof"
        require = own and (job.require_gpu if job.require_gpu is not None else gpus > 0)
        role = find_role(self._aws, in_job=job.role)
        bucket = plan_bucket(self._aws, in_job=job.bucket)
        replaces = self._existing_config(job, update=update)
        stored_schedule, schedule_note = self._stored_schedule(job, replaces)
        schedule_role = None if job.ttl is None else find_schedule_role(self._aws, "--ttl", job.schedule_role)
        price = None
        if job.instance_type is not None:
            price = self._catalogue.price(job.instance_type, region, "endpoint")
        partition = "aws" if not role.arn.startswith("arn:") else role.arn.split(":")[1]
        return EndpointPlan(
            job=job,
            deployment=new_run_id(job.name),
            region=region,
            partition=partition,
            role=role.arn,
            bucket=bucket,
            image=image,
            model=model,
            files=server_files(self._cache) if own and model.archive is None else {},
            gpus=gpus,
            price=price,
            require_gpu=require,
            replaces=replaces,
            scaling=() if replaces is None else existing_scaling(self._aws, job.name),
            changes_type=replaces is not None and instance_type_of(self._aws, replaces) != job.instance_type,
            schedule_role=schedule_role,
            planned_at=self._clock(),
            stored_schedule=stored_schedule,
            warnings=tuple(
                text
                for text in (
                    *warnings,
                    *image.notes,
                    role.note,
                    bucket.note,
                    schedule_note,
                )
                if text
            ),
        )

    def _stored_schedule(
        self, job: EndpointJob, replaces: str | None
    ) -> tuple[dict[str, Any] | None, str | None]:
        """The schedule that deletes an endpoint of this name, and a note about it.

        Raises:
            UsageError: the schedule of that name deletes something else.
        """
        schedule = schedule_of(job.name)
        try:
            stored = self._aws.schedule(schedule.name)
        except (AwsRefused, AwsUnreachable) as error:
            if job.ttl is not None:
                raise
            return None, f"whether a schedule deletes {job.name} is unknown: {error.message}"
        if stored is None:
            return None, None
        if not schedule.is_stored_as(stored):
            if job.ttl is None:
                return None, None
            raise UsageError(
                f"The schedule {schedule.name} exists already, and does not delete the endpoint {job.name}.",
                remedy="Use another name (--name), or delete that schedule.",
            )
        if job.ttl is not None:
            return stored, None
        if replaces is None:
            return stored, f"the schedule of an earlier {job.name} is deleted, which would delete this one"
        moment = format_start(starts_at(stored))
        return stored, f"its schedule still deletes {job.name} at {moment}; --ttl moves it"

    def _instance(self, job: EndpointJob, region: str) -> tuple[Instance | None, list[str]]:
        """The catalogue's facts about the instance type; None for serverless endpoints and unknown types.

        Raises:
            InvalidJob: SageMaker has no endpoints on it.
        """
        name = job.instance_type
        if name is None:
            return None, ["serverless endpoints have no GPU"]
        accepted = self._catalogue.accepted_for(name)
        if not name.startswith("ml.") or (accepted and "endpoint" not in accepted):
            alternatives = list_alternatives(name, "endpoint", self._catalogue, region)
            raise InvalidJob(
                f"SageMaker has no endpoints on {name}.",
                remedy=alternatives or "--instance-type ml.g5.xlarge",
            )
        instance = self._catalogue.instance(name)
        if instance is None:
            return None, [f"the catalogue does not know {name}: SageMaker may reject it"]
        return instance, []

    def _existing_config(self, job: EndpointJob, *, update: bool) -> str | None:
        """The configuration of an endpoint of that name; None if there is none.

        Raises:
            UsageError: it exists, but GPUproof did not create it, or it is not in service.
        """
        found = self._aws.describe_endpoint(job.name)
        if found is None:
            return None
        if ENDPOINT_TAG not in self._aws.tags(found["EndpointArn"]) and not update:
            raise UsageError(
                f"There is an endpoint {job.name} already, which GPUproof did not create.",
                remedy="Use another name (--name), or --update to replace what it serves.",
            )
        if found["EndpointStatus"] != "InService":
            raise UsageError(
                f"The endpoint {job.name} is {found['EndpointStatus']}: SageMaker updates only endpoints in service.",
                remedy=f"Wait, or delete it: gpuproof delete {job.name}",
            )
        return found["EndpointConfigName"]
