"""A planned notebook instance: everything that is decided, and the API calls as data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gpuproof.backends.api_call import ApiCall
from gpuproof.backends.remote.bucket import BucketPlan
from gpuproof.backends.remote.planning.instance_search import Candidate
from gpuproof.backends.remote.run_files import deletion_call
from gpuproof.backends.remote.upload.content_hash import HashedFile
from gpuproof.backends.sagemaker.notebooks.lifecycle_script import LifecycleScript
from gpuproof.backends.sagemaker.planning.role import ChosenRole
from gpuproof.catalogue.prices import hourly_text
from gpuproof.jobs.models.notebook import NotebookJob
from gpuproof.settings import today
from gpuproof.util.humanize import format_usd
from gpuproof.version import __version__

NAME_TAG = "gpuproof:notebook"
"""Tag of notebook instances that GPUproof created; its value is the instance's name."""

BUCKET_TAG = "gpuproof:bucket"
CREATION_TAG = "gpuproof:creation"
"""Tag with the id of the creation, by which it recognizes its instance after a lost connection."""

_HOURS_PER_DAY = 24


@dataclass(frozen=True)
class NotebookPlan:
    """A planned notebook instance.

    Args:
        bucket: from which it reads the agent.
        candidates: the instance types to try, in order.
    """

    job: NotebookJob
    creation_id: str
    region: str
    role: ChosenRole
    bucket: BucketPlan
    agent: HashedFile
    script: LifecycleScript
    candidates: tuple[Candidate, ...]
    warnings: tuple[str, ...] = ()

    @property
    def calls(self) -> tuple[ApiCall, ...]:
        """All calls that create the notebook instance, on the first instance type."""
        return (*self.bucket.calls, self.upload_call, self.config_call, self.create_call(self.candidates[0]))

    @property
    def upload_call(self) -> ApiCall:
        """The call that uploads the agent, unless it is there."""
        address = {"Bucket": self.bucket.name, "Key": self.script.agent_key}
        undo = deletion_call(self.bucket.name, [self.script.agent_key], "the agent")
        request = {**address, "Body": str(self.agent.path)}
        return ApiCall("s3", "put_object", request, "upload the agent, unless it is there", undo)

    @property
    def config_call(self) -> ApiCall:
        """The call that creates the lifecycle configuration, unless it exists."""
        name = {"NotebookInstanceLifecycleConfigName": self.script.config_name}
        undo = ApiCall(
            "sagemaker",
            "delete_notebook_instance_lifecycle_config",
            name,
            f"delete the lifecycle configuration {self.script.config_name}",
        )
        tags = {"gpuproof:kind": "notebook-lifecycle", "gpuproof:version": __version__}
        request = {**name, "OnStart": [{"Content": self.script.encoded()}], "Tags": _listed(tags)}
        what = f"create the lifecycle configuration {self.script.config_name}, unless it exists"
        return ApiCall("sagemaker", "create_notebook_instance_lifecycle_config", request, what, undo)

    def create_call(self, candidate: Candidate) -> ApiCall:
        """The call that creates the notebook instance."""
        job = self.job
        request: dict[str, Any] = {
            "NotebookInstanceName": job.name,
            "InstanceType": candidate.name,
            "RoleArn": self.role.arn,
            "LifecycleConfigName": self.script.config_name,
            "VolumeSizeInGB": job.volume_size,
            "RootAccess": "Enabled" if job.root_access else "Disabled",
            "DirectInternetAccess": "Enabled" if job.internet_access else "Disabled",
            "InstanceMetadataServiceConfiguration": {"MinimumInstanceMetadataServiceVersion": "2"},
            "Tags": _listed(self.tags),
        }
        optional = {
            "SubnetId": job.subnet,
            "SecurityGroupIds": list(job.security_groups),
            "KmsKeyId": job.kms_key,
            "PlatformIdentifier": job.platform,
        }
        request.update({name: value for name, value in optional.items() if value})
        what = f"create the notebook instance {job.name} on {candidate.name}"
        undo = ApiCall(
            "sagemaker",
            "delete_notebook_instance",
            {"NotebookInstanceName": job.name},
            f"stop and delete the notebook instance {job.name}",
        )
        return ApiCall("sagemaker", "create_notebook_instance", request, what, undo)

    @property
    def tags(self) -> dict[str, str]:
        """The tags of the notebook instance: the user's and GPUproof's."""
        return {
            **self.job.tags,
            NAME_TAG: self.job.name,
            "gpuproof:kind": "notebook",
            "gpuproof:version": __version__,
            BUCKET_TAG: self.bucket.name,
            CREATION_TAG: self.creation_id,
        }

    def describe(self) -> list[tuple[str, str]]:
        """The plan for the user: labels and texts."""
        job = self.job
        lines = [("notebook", job.name)]
        lines += [("instance", price_line(candidate)) for candidate in self.candidates[:1]]
        if others := [candidate.name for candidate in self.candidates[1:]]:
            lines.append(("fallbacks", ", ".join(others)))
        if job.idle_timeout is None:
            stop = "never stops by itself"
        else:
            stop = f"stops after {job.idle_timeout} in which no kernel and no GPU worked"
        lines.append(("idle", stop))
        lines.append(("volume", f"{job.volume_size} GB, encrypted with {job.kms_key or 'an AWS key'}"))
        lines.append(("root", "users may become root" if job.root_access else "no root access for users"))
        lines.append(("role", self.role.arn))
        lines.append(("bucket", self.bucket.name))
        lines += [("warning", warning) for warning in self.warnings]
        return lines

    def to_json(self) -> dict[str, Any]:
        """The JSON form of a dry run."""
        return {
            "version": 1,
            "notebook": self.job.name,
            "region": self.region,
            "instance_types": [
                {
                    "name": candidate.name,
                    "usd_per_hour": None if candidate.price is None else candidate.price.usd_per_hour,
                }
                for candidate in self.candidates
            ],
            "role": self.role.arn,
            "bucket": self.bucket.name,
            "warnings": list(self.warnings),
            "calls": [call.to_json() for call in self.calls],
        }


def price_line(candidate: Candidate) -> str:
    """An instance type with its GPUs and its price for an hour and a day."""
    instance, price = candidate.instance, candidate.price
    gpus = f" ({instance.gpu_count} x {instance.gpu_model})" if instance and instance.gpu_model else ""
    if price is None:
        return f"{candidate.name}{gpus} at an unknown price"
    day = format_usd(price.usd_per_hour * _HOURS_PER_DAY)
    return f"{candidate.name}{gpus} at {hourly_text(price, today())}, {day} a day"


def _listed(tags: Mapping[str, str]) -> list[dict[str, str]]:
    return [{"Key": key, "Value": value} for key, value in tags.items()]
