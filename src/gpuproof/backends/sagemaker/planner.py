"""Plans runs on SageMaker: chooses instance types, image, role, bucket and checkpoints, and checks the job."""

from __future__ import annotations

from pathlib import Path

from gpuproof.backends.aws import Aws, AwsRefused
from gpuproof.backends.expected_gpus import ExpectedGpus, expected_gpus
from gpuproof.backends.launch_settings import launch_settings, new_cluster_key, script_uses
from gpuproof.backends.remote.bucket import BucketPlan, plan_bucket
from gpuproof.backends.remote.run_id import new_run_id
from gpuproof.backends.remote.upload.upload_plan import UploadPlan, plan_uploads
from gpuproof.backends.sagemaker.plan import SageMakerPlan, first_checkpoints
from gpuproof.backends.sagemaker.planning.framework import framework_of
from gpuproof.backends.sagemaker.planning.image import choose_image, gpu_problem
from gpuproof.backends.sagemaker.planning.instance_types import choose_instance_types
from gpuproof.backends.sagemaker.planning.resume import find_earlier_checkpoints
from gpuproof.backends.sagemaker.planning.role import find_role
from gpuproof.backends.sagemaker.planning.warnings import job_warnings
from gpuproof.backends.sagemaker.requests.calls import create_request
from gpuproof.backends.sagemaker.requests.processing import CODE, VERDICT
from gpuproof.backends.sagemaker.target import Candidate, Target
from gpuproof.catalogue import Catalogue
from gpuproof.errors import InvalidJob, UsageError
from gpuproof.jobs.local_paths import output_folders
from gpuproof.jobs.source.secret_files import find_secret_names, find_secrets, reject_secrets
from gpuproof.jobs.source.tree import SourceTree, collect
from gpuproof.jobs.spec import Job, ProcessingJob, TrainingJob
from gpuproof.jobs.validators import is_s3
from gpuproof.settings import own_folders


class Planner:
    """Plans runs in one account and region.

    Args:
        aws: the client.
        cache: the user's cache folder.
        catalogue: instance types, prices, images and quotas.
    """

    def __init__(self, aws: Aws, cache: Path, catalogue: Catalogue | None = None) -> None:
        self._aws = aws
        self._cache = cache
        self._catalogue = catalogue or Catalogue.load()

    def plan(self, job: Job, *, fresh: bool = False) -> SageMakerPlan:
        """Decide everything about a run. Makes requests to AWS, but creates nothing.

        Args:
            job: with absolute paths.
            fresh: start without an earlier run's checkpoints.

        Raises:
            GPUproofError: the job cannot run on SageMaker.
        """
        _check_job(job)
        region = self._aws.region
        self._check_region(region)
        choice = choose_instance_types(job, self._catalogue, region)
        tree = _source(job)
        targets, target_warnings = self._targets(job, tree, choice.candidates, region)
        local, remote = _inputs(job)
        uploads = plan_uploads(tree, local, remote, self._cache)
        _reject_secret_inputs(job, uploads)
        role = find_role(self._aws, in_job=job.sagemaker.role)
        bucket = plan_bucket(self._aws, in_job=job.sagemaker.bucket)
        self._check_bucket_regions(job, remote, region)
        self._check_inputs_exist(remote)
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

    def _targets(
        self, job: Job, tree: SourceTree, candidates: tuple[Candidate, ...], region: str
    ) -> tuple[tuple[Target, ...], list[str]]:
        """Each instance type with its image, without those whose GPU the image does not support, unless the job names them."""
        framework = framework_of(job, tree) if job.image is None else None
        uses = script_uses(job, max(candidate.gpus for candidate in candidates))
        targets: list[Target] = []
        unfit: list[Target] = []
        warnings: list[str] = []
        for candidate in candidates:
            image = choose_image(job, framework, candidate, self._catalogue, region)
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
        self, job: Job, bucket: BucketPlan, run_id: str, fresh: bool
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

    def _check_region(self, region: str) -> None:
        """Reject a region that neither boto3 nor the catalogue knows: most likely a typing error."""
        if region in self._catalogue.tables.registries:
            return
        near = self._aws.unknown_region()
        if near is None:
            return
        raise UsageError(
            f"The installed boto3 knows no AWS region {region}.",
            remedy=f"Did you mean {near}?" if near else "If the region is new: pip install -U boto3",
        )

    def _check_bucket_regions(self, job: Job, remote: dict[str, str], region: str) -> None:
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

    def _check_inputs_exist(self, remote: dict[str, str]) -> None:
        """Reject a missing input: the job would fail only after its instances were billed."""
        for name, address in remote.items():
            bucket, _, key = address.removeprefix("s3://").partition("/")
            try:
                found = next(self._aws.list_objects(bucket, key), None)
            except AwsRefused as refused:
                if refused.is_permission:
                    continue  # the role may have permissions that the user lacks
                raise
            if found is None:
                raise InvalidJob(
                    f"The input {name} does not exist: no object matches {address}.",
                    remedy=f"aws s3 ls s3://{bucket}/",
                )

    def _region_of(self, bucket: str, otherwise: str) -> str | None:
        try:
            return self._aws.bucket_region(bucket)
        except AwsRefused as refused:
            if refused.is_permission:
                return otherwise  # the role may have permissions that the user lacks
            raise


def _check_job(job: Job) -> None:
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


def _source(job: Job) -> SourceTree:
    local, _ = _inputs(job)
    tree = collect(
        Path(job.source_dir),
        job.entry_point,
        exclude=[*local.values(), *output_folders(job), *own_folders()],
        include=job.include,
        respect_gitignore=job.respect_gitignore,
    )
    secrets = find_secrets(tree.root, [file.relative for file in tree.files], job.include)
    reject_secrets(tree.root, list(secrets))
    return tree


def _reject_secret_inputs(job: Job, uploads: UploadPlan) -> None:
    for folder in uploads.folders.values():
        reject_secrets(folder.root, list(find_secret_names(folder.root, list(folder.files), job.include)))


def _inputs(job: Job) -> tuple[dict[str, Path], dict[str, str]]:
    """The paths of local inputs, and the addresses of inputs on S3."""
    local: dict[str, Path] = {}
    remote: dict[str, str] = {}
    for name, given in job.inputs.items():
        source = given if isinstance(given, str) else given.source
        if is_s3(source):
            remote[name] = source
            continue
        path = Path(source)
        if not path.exists():
            raise InvalidJob(
                f"Input '{name}' of '{job.name}' does not exist: {path}.", remedy=f"--input {name}=FOLDER"
            )
        local[name] = path.resolve()
    return local, remote


def _expected(job: Job, candidate: Candidate, catalogue: Catalogue) -> ExpectedGpus:
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
