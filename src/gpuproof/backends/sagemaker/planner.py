"""Plans runs on SageMaker: chooses instance types, image, role, bucket and checkpoints, and checks the job."""

from __future__ import annotations

import os
from pathlib import Path

from gpuproof.backends.agent_job.expected_gpus import ExpectedGpus, expected_gpus
from gpuproof.backends.agent_job.launch_settings import launch_settings, new_cluster_key, script_uses
from gpuproof.backends.agent_job.notifications import with_webhook
from gpuproof.backends.agent_job.provenance import provenance
from gpuproof.backends.aws import Aws, AwsRefused
from gpuproof.backends.remote.bucket import BucketPlan, plan_bucket
from gpuproof.backends.remote.planning.framework import framework_of
from gpuproof.backends.remote.planning.instance_search import Candidate, InstanceChoice
from gpuproof.backends.remote.planning.job_files import (
    check_inputs_exist,
    collect_source,
    reject_secret_inputs,
    split_inputs,
)
from gpuproof.backends.remote.planning.quota import QuotaCheck, no_quota
from gpuproof.backends.remote.planning.region import check_region
from gpuproof.backends.remote.run_id import new_run_id
from gpuproof.backends.remote.upload.upload_plan import plan_uploads
from gpuproof.backends.sagemaker.plan import SageMakerPlan, first_checkpoints
from gpuproof.backends.sagemaker.planning.image import choose_image, gpu_problem
from gpuproof.backends.sagemaker.planning.instance_types import choose_instance_types
from gpuproof.backends.sagemaker.planning.resume import find_earlier_checkpoints
from gpuproof.backends.sagemaker.planning.role import find_role
from gpuproof.backends.sagemaker.planning.seen_driver import seen_drivers
from gpuproof.backends.sagemaker.planning.warnings import job_warnings
from gpuproof.backends.sagemaker.requests.calls import create_request
from gpuproof.backends.sagemaker.requests.processing import CODE, VERDICT
from gpuproof.backends.sagemaker.target import Target
from gpuproof.catalogue import Catalogue
from gpuproof.errors import InvalidJob
from gpuproof.jobs.models.machine import MachineJob
from gpuproof.jobs.models.script_jobs import Job, ProcessingJob, SageMakerJob, TrainingJob
from gpuproof.jobs.source.tree import SourceTree
from gpuproof.jobs.validators import is_s3

_QUOTA_EXCEEDED = "ResourceLimitExceeded"
"""The error with which SageMaker rejects a job."""


class Planner:
    """Plans runs in one account and region.

    Args:
        catalogue: instance types, prices, images and quotas.
    """

    def __init__(self, aws: Aws, cache: Path, catalogue: Catalogue | None = None) -> None:
        self._aws = aws
        self._cache = cache
        self._catalogue = catalogue or Catalogue.load()

    def plan(self, job: Job, *, fresh: bool = False, check_quota: bool = False) -> SageMakerPlan:
        """Decide everything about a run. Makes requests to AWS, but creates nothing.

        Args:
            job: with absolute paths.
            fresh: start without an earlier run's checkpoints.
            check_quota: leave out instance types whose quota is too small, where its code is known.

        Raises:
            GPUproofError: the job cannot run on SageMaker.
        """
        if isinstance(job, MachineJob):
            raise InvalidJob(
                f"'{job.name}' is a machine, which runs on EC2 or here. On SageMaker, a notebook instance does the same.",
                remedy="gpuproof notebook create --help\nOr: --on ec2",
            )
        _check_job(job)
        job = with_webhook(job, os.environ)
        region = check_region(self._aws, self._catalogue)
        choice = choose_instance_types(job, self._catalogue, region)
        if check_quota:
            choice = self._within_quotas(job, choice)
        tree = collect_source(job)
        targets, target_warnings = self._targets(job, tree, choice.candidates, region)
        local, remote = split_inputs(job)
        uploads = plan_uploads(tree, local, remote, self._cache)
        reject_secret_inputs(job, uploads)
        role = find_role(self._aws, in_job=job.sagemaker.role)
        bucket = plan_bucket(self._aws, in_job=job.sagemaker.bucket)
        self._check_bucket_regions(job, remote, region)
        check_inputs_exist(self._aws, remote)
        run_id = new_run_id(job.name)
        checkpoints, checkpoint_warning = self._checkpoints(job, bucket, run_id, fresh)
        plan = SageMakerPlan(
            job=job,
            run_id=run_id,
            region=region,
            role=role,
            bucket=bucket,
            targets=targets,
            tree=tree,
            uploads=uploads,
            checkpoints=checkpoints,
            fresh=fresh,
            cluster_key=new_cluster_key(job),
            provenance=provenance(job, tree, uploads.manifest()),
            warnings=tuple(
                warning
                for warning in (
                    *choice.warnings,
                    *target_warnings,
                    *tree.notes,
                    role.note,
                    bucket.note,
                    checkpoint_warning,
                    *job_warnings(job, targets[0], self._catalogue),
                )
                if warning
            ),
        )
        for target in targets:
            create_request(plan.request(target))
        return plan

    def _within_quotas(self, job: SageMakerJob, choice: InstanceChoice) -> InstanceChoice:
        """The instance types without those whose quota is too small.

        Raises:
            NoCapacity: none is left.
        """
        spot = job.resources.spot and isinstance(job, TrainingJob)
        quota = QuotaCheck(
            self._aws,
            self._catalogue,
            code=_QUOTA_EXCEEDED,
            spot=spot,
            count=job.instance_count,
            use=job.kind,
        )
        problems = [(candidate, quota.problem(candidate.name)) for candidate in choice.candidates]
        left = tuple(one for one, problem in problems if problem is None)
        unavailable = [problem for _, problem in problems if problem is not None]
        if not left:
            raise no_quota(unavailable)
        left_out = [f"{item.summary}: it is not tried" for item in unavailable]
        return InstanceChoice(left, (*left_out, *choice.warnings))

    def _targets(
        self, job: SageMakerJob, tree: SourceTree, candidates: tuple[Candidate, ...], region: str
    ) -> tuple[tuple[Target, ...], list[str]]:
        """Each instance type with its image, without those whose GPU the image does not support, unless the job names them."""
        framework = framework_of(job, tree) if job.image is None else None
        uses = script_uses(job, max(candidate.gpus for candidate in candidates))
        chooses = framework is not None and framework.version is None
        seen = seen_drivers(self._aws, job.kind) if chooses and any(c.gpus for c in candidates) else {}
        targets: list[Target] = []
        unfit: list[Target] = []
        warnings: list[str] = []
        for candidate in candidates:
            image = choose_image(job, framework, candidate, self._catalogue, region, seen)
            launch = launch_settings(job, uses, candidate.gpus, candidate.price)
            target = Target(candidate, image, _expected(job, candidate, self._catalogue), launch)
            problem = gpu_problem(image, candidate, self._catalogue)
            if problem is not None:
                warnings.append(problem)
            (unfit if problem is not None and job.instance_type is None else targets).append(target)
            if image.note is not None:
                warnings.append(image.note)
        return tuple(targets or unfit), list(dict.fromkeys(warnings))

    def _checkpoints(
        self, job: SageMakerJob, bucket: BucketPlan, run_id: str, fresh: bool
    ) -> tuple[str | None, str | None]:
        """The address of a training job's checkpoints, and a warning."""
        if not isinstance(job, TrainingJob):
            return None, None
        if job.checkpoint is not None and job.checkpoint.s3 is not None:
            return job.checkpoint.s3, None
        own = first_checkpoints(bucket.name, job.name, run_id)
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
        note = f"/opt/ml/checkpoints starts with those of {earlier.run_id} (--fresh starts without)"
        return earlier.address, note

    def _check_bucket_regions(self, job: SageMakerJob, remote: dict[str, str], region: str) -> None:
        """SageMaker reads and writes only buckets of its own region."""
        addresses = {f"input {name}": address for name, address in remote.items()}
        if isinstance(job, TrainingJob):
            addresses["output"] = job.output or ""
            addresses["checkpoint"] = (job.checkpoint.s3 if job.checkpoint else None) or ""
        else:
            addresses |= {f"output {key}": output.destination or "" for key, output in job.outputs.items()}
        regions: dict[str, str | None] = {}
        for what, address in addresses.items():
            if not is_s3(address):
                continue
            bucket = address.removeprefix("s3://").partition("/")[0]
            if bucket not in regions:
                regions[bucket] = self._region_of(bucket, region)
            _check_bucket_region(what, address, bucket, regions[bucket], region)

    def _region_of(self, bucket: str, otherwise: str) -> str | None:
        try:
            return self._aws.bucket_region(bucket)
        except AwsRefused as refused:
            if refused.is_permission:
                return otherwise  # the role may have permissions that the user lacks
            raise


def _check_job(job: SageMakerJob) -> None:
    own = job.sagemaker
    if own.keep_alive is not None and job.resources.spot:
        raise InvalidJob(
            f"'{job.name}' combines a warm pool (keep_alive) with spot capacity, which SageMaker does not support.",
            remedy="Use --no-spot, or remove keep_alive.",
        )
    if not isinstance(job, ProcessingJob):
        return
    if own.keep_alive is not None:
        raise InvalidJob(
            f"'{job.name}' uses a warm pool (keep_alive), which only training jobs support.",
            remedy="Remove keep_alive.",
        )
    paths = [mount.path for mount in job.inputs.values()]
    paths += [output.path for output in job.outputs.values()]
    for path in paths:
        if path in (CODE, VERDICT) or path.startswith((f"{CODE}/", f"{VERDICT}/")):
            raise InvalidJob(f"{path} is reserved for GPUproof's own files.", remedy="Use another path.")


def _expected(job: SageMakerJob, candidate: Candidate, catalogue: Catalogue) -> ExpectedGpus:
    """The GPUs that the job asks for; for a type chosen by resources, with that type's GPU model."""
    if job.instance_type is not None or candidate.instance is None:
        return expected_gpus(job.model_copy(update={"instance_type": candidate.name}), catalogue)
    requested = expected_gpus(job, catalogue)
    return ExpectedGpus(requested.count, candidate.instance.gpu_model, requested.because)


def _check_bucket_region(what: str, address: str, bucket: str, found: str | None, region: str) -> None:
    if found is None:
        raise InvalidJob(f"The {what} is {address}, but there is no bucket {bucket}.", remedy="aws s3 ls")
    if found != region:
        raise InvalidJob(
            f"The {what} is {address}, whose bucket is in {found}, but the job would run in {region}: "
            "SageMaker requires both in one region.",
            remedy=f"Use --region {found}, or copy the data: aws s3 sync {address} s3://BUCKET-IN-{region}/…",
        )
