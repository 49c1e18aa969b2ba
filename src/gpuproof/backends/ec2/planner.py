"""Plans runs on EC2: chooses instance types, machine image, zones, profile, bucket and checkpoints, and checks the job."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

from gpuproof.agent.paths import CONTRACT_ROOT
from gpuproof.backends.agent_job.launch_settings import new_cluster_key
from gpuproof.backends.agent_job.notifications import with_webhook
from gpuproof.backends.agent_job.provenance import provenance
from gpuproof.backends.aws import Aws, AwsRefused
from gpuproof.backends.ec2.plan import EC2Plan
from gpuproof.backends.ec2.planning.profile import find_profile
from gpuproof.backends.ec2.planning.regions import RegionPlanner
from gpuproof.backends.ec2.planning.resume import find_earlier_checkpoints
from gpuproof.backends.ec2.planning.volume import InputSize
from gpuproof.backends.ec2.planning.warnings import NOT_COVERED, job_warnings, max_runtime
from gpuproof.backends.ec2.requests.log_group import plan_log_group
from gpuproof.backends.ec2.spot_retries import SpotRetries
from gpuproof.backends.remote.bucket import BucketPlan, plan_bucket
from gpuproof.backends.remote.planning.framework import find_framework
from gpuproof.backends.remote.planning.job_files import (
    check_inputs_exist,
    collect_source,
    reject_secret_inputs,
    split_inputs,
)
from gpuproof.backends.remote.planning.schedule_role import find_schedule_role
from gpuproof.backends.remote.run_id import new_run_id
from gpuproof.backends.remote.s3_layout import checkpoint_prefix, uri
from gpuproof.backends.remote.upload.upload_plan import plan_uploads
from gpuproof.catalogue import Catalogue
from gpuproof.errors import InvalidJob, UsageError
from gpuproof.jobs.models.machine import MachineJob
from gpuproof.jobs.models.script_jobs import Job, ProcessingJob

_CODE_CHANNEL = "code"
"""The channel of the agent and the source on an EC2 host."""

_RESERVED_PATH = f"{CONTRACT_ROOT}/processing/gpuproof-out"
"""The folder of a processing job's verdict; see `gpuproof.agent.paths.ContainerPaths.results`."""

_OWN_AMI = "ec2: {ami: ami-…}"


class Planner:
    """Plans runs in one account and region.

    Args:
        catalogue: instance types, prices, images and quotas.
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

    def plan(self, job: Job, *, fresh: bool = False) -> EC2Plan:
        """Decide everything about a run. Makes requests to AWS, but creates nothing.

        Args:
            job: with absolute paths.
            fresh: start without an earlier run's checkpoints.

        Raises:
            GPUproofError: the job cannot run on EC2.
        """
        _check_job(job)
        job = with_webhook(job, os.environ)
        aws = self._aws
        regions = RegionPlanner(aws, self._catalogue, job, self._clock)
        tree = collect_source(job)
        # An image has what the script needs, whatever that imports.
        framework = find_framework(job, tree, _OWN_AMI) if job.image is None else None
        local, remote = split_inputs(job)
        uploads = plan_uploads(tree, local, remote, self._cache)
        reject_secret_inputs(job, uploads)
        check_inputs_exist(aws, remote)
        planned = regions.plan(framework, tree, InputSize(aws, uploads, remote))
        profile = find_profile(aws, job.ec2.instance_profile)
        bucket = plan_bucket(aws, in_job=job.ec2.bucket)
        run_id = new_run_id(job.name)
        checkpoints, checkpoint_warning = self._checkpoints(job, bucket, run_id, fresh)
        schedule_role, schedule_warning = self._schedule_role()
        warnings = (
            *planned.warnings,
            *tree.notes,
            profile.note,
            bucket.note,
            checkpoint_warning,
            schedule_warning,
            *job_warnings(job, planned.targets[0]),
        )
        plan = EC2Plan(
            job=job,
            run_id=run_id,
            region=regions.home,
            bucket=bucket,
            targets=planned.targets,
            tree=tree,
            uploads=uploads,
            checkpoints=checkpoints,
            fresh=fresh,
            profile=profile,
            networks=planned.networks,
            spot=job.resources.spot,
            max_duration=max_runtime(job),
            warnings=tuple(warning for warning in warnings if warning),
            retries=SpotRetries(job.ec2.retry_spot if job.resources.spot else 0),
            schedule_role=schedule_role,
            log_calls=plan_log_group(aws),
            cluster_key=new_cluster_key(job),
            provenance=provenance(job, tree, uploads.manifest()),
        )
        for target in plan.targets:
            plan.launch_call(target, target.zones[0])  # a job that exceeds EC2's limits is rejected
        return plan

    def _schedule_role(self) -> tuple[str | None, str | None]:
        """The role of the schedule that terminates the instances, and a warning if there is none."""
        try:
            return find_schedule_role(self._aws, "The schedule that terminates instances"), None
        except UsageError as error:
            return None, f"{NOT_COVERED} {error.message} {error.remedy or ''}".rstrip()

    def _checkpoints(
        self, job: Job, bucket: BucketPlan, run_id: str, fresh: bool
    ) -> tuple[str | None, str | None]:
        """The address of a training job's checkpoints, or of a machine's work folder, and a warning."""
        if isinstance(job, ProcessingJob):
            return None, None
        if job.checkpoint is not None and job.checkpoint.s3 is not None:
            return job.checkpoint.s3, None
        own = uri(bucket.name, checkpoint_prefix(job.name, run_id))
        if fresh or bucket.calls:
            return own, None
        try:
            earlier = find_earlier_checkpoints(self._aws, job, bucket.name)
        except AwsRefused as refused:
            if not refused.is_permission:
                raise
            return own, f"earlier checkpoints were not looked for: {refused.code}"
        if earlier is None:
            return own, None
        if isinstance(job, MachineJob):
            return earlier.address, f"the work folder is that of {earlier.run_id} (--fresh starts without)"
        note = f"/opt/ml/checkpoints starts with those of {earlier.run_id} (--fresh starts without)"
        return earlier.address, note


def _check_job(job: Job) -> None:
    """Reject what runs on EC2 do not support.

    Raises:
        InvalidJob: with what to do instead.
    """
    if isinstance(job, MachineJob) and job.ec2.container:
        raise InvalidJob(
            f"'{job.name}' is a machine with ec2.container: a machine runs in the environment of an AMI.",
            remedy="Remove ec2.container, and write the packages that you need into requirements.txt.",
        )
    if not isinstance(job, ProcessingJob) and _CODE_CHANNEL in job.inputs:
        raise InvalidJob(
            f"'{job.name}' has an input channel {_CODE_CHANNEL}, which GPUproof uses for its own files on EC2.",
            remedy="Give the channel another name.",
        )
    if isinstance(job, ProcessingJob):
        _check_paths(job)


def _check_paths(job: ProcessingJob) -> None:
    paths = [mount.path for mount in job.inputs.values()]
    paths += [output.path for output in job.outputs.values()]
    for path in paths:
        if path == _RESERVED_PATH or path.startswith(f"{_RESERVED_PATH}/"):
            raise InvalidJob(f"{path} is reserved for GPUproof's own files.", remedy="Use another path.")
