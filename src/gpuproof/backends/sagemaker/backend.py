"""SageMaker as a place where jobs run."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from gpuproof.backends.aws import Aws, AwsRefused
from gpuproof.backends.base import SAGEMAKER
from gpuproof.backends.expected_gpus import ExpectedGpus, expected_gpus
from gpuproof.backends.sagemaker.plan import SageMakerPlan, create_request, first_checkpoints, new_run_id
from gpuproof.backends.sagemaker.planning.bucket import BucketPlan, plan_bucket
from gpuproof.backends.sagemaker.planning.framework import framework_of
from gpuproof.backends.sagemaker.planning.image import choose_image, gpu_problem
from gpuproof.backends.sagemaker.planning.instance_types import Candidate, choose
from gpuproof.backends.sagemaker.planning.resume import earlier_checkpoints
from gpuproof.backends.sagemaker.planning.role import find_role
from gpuproof.backends.sagemaker.planning.warnings import notes_for
from gpuproof.backends.sagemaker.requests.common import Target
from gpuproof.backends.sagemaker.requests.processing import CODE, VERDICT
from gpuproof.backends.sagemaker.submission.capacity import Tried
from gpuproof.backends.sagemaker.submission.submit import Started, submit
from gpuproof.backends.sagemaker.tracking.progress import Watch
from gpuproof.backends.sagemaker.upload import upload_plan as loading
from gpuproof.catalogue import Catalogue
from gpuproof.errors import InvalidJob, UsageError
from gpuproof.jobs.local_paths import output_folders
from gpuproof.jobs.source_tree import SourceTree, collect
from gpuproof.jobs.spec import Job, ProcessingJob, TrainingJob
from gpuproof.jobs.validators import is_s3
from gpuproof.settings import cache_dir, own_folders


class SageMakerPlace:
    """SageMaker, in the account and region that the client asks.

    Args:
        aws: the client.
        catalogue: for types, prices, images and quotas.
        cache: the user's cache folder.
        sleep: waits that many seconds.
    """

    name = SAGEMAKER

    def __init__(
        self,
        aws: Aws,
        catalogue: Catalogue | None = None,
        *,
        cache: Path | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.aws = aws
        self.catalogue = catalogue or Catalogue.load()
        self._cache = cache
        self._sleep = sleep

    def plan(self, job: Job, *, fresh: bool = False) -> SageMakerPlan:
        """Decide everything; AWS is asked, and nothing is made.

        Args:
            job: its paths absolute.
            fresh: begin without an earlier run's checkpoints.

        Raises:
            GPUproofError: the job cannot run there.
        """
        _refuse(job)
        region = self.aws.region
        self._refuse_unknown(region)
        choice = choose(job, self.catalogue, region)
        tree = _source(job)
        targets, remarks = self._targets(job, tree, choice.candidates, region)
        local, remote = _inputs(job)
        role = find_role(self.aws, in_job=job.sagemaker.role)
        bucket = plan_bucket(self.aws, in_job=job.sagemaker.bucket)
        self._refuse_other_regions(job, remote, region)
        self._refuse_empty(remote)
        run_id = new_run_id(job.name)
        checkpoints, begun = self._checkpoints(job, bucket, run_id, fresh)
        plan = SageMakerPlan(
            job=job,
            run_id=run_id,
            region=region,
            role=role,
            bucket=bucket,
            targets=targets,
            tree=tree,
            cargo=loading.load(tree, local, remote, self._cache or cache_dir()),
            checkpoints=checkpoints,
            fresh=fresh,
            notes=tuple(
                note
                for note in (
                    *choice.notes,
                    *remarks,
                    tree.note,
                    role.note,
                    bucket.note,
                    begun,
                    *notes_for(job, targets[0], self.catalogue),
                )
                if note
            ),
        )
        for target in targets:
            create_request(plan, target)
        return plan

    def submit(
        self, plan: SageMakerPlan, watch: Watch | None = None, *, before: tuple[Tried, ...] = ()
    ) -> Started:
        """Carry a plan out; see `gpuproof.backends.sagemaker.submission.submit.submit`."""
        return submit(plan, self.aws, self.catalogue, watch, before=before, sleep=self._sleep)

    def _targets(
        self, job: Job, tree: SourceTree, candidates: tuple[Candidate, ...], region: str
    ) -> tuple[tuple[Target, ...], list[str]]:
        """Each type with its image; of those that resources gave, the ones that the image has kernels for."""
        framework = framework_of(job, tree) if job.image is None else None
        targets: list[Target] = []
        unfit: list[Target] = []
        remarks: list[str] = []
        for candidate in candidates:
            image = choose_image(job, framework, candidate, self.catalogue, region)
            target = Target(candidate, image, _expected(job, candidate, self.catalogue))
            problem = gpu_problem(image, candidate, self.catalogue)
            if problem is not None:
                remarks.append(problem)
            (unfit if problem is not None and job.instance_type is None else targets).append(target)
            if image.note is not None:
                remarks.append(image.note)
        return tuple(targets or unfit), list(dict.fromkeys(remarks))

    def _checkpoints(
        self, job: Job, bucket: BucketPlan, run_id: str, fresh: bool
    ) -> tuple[str | None, str | None]:
        """Where a training job's checkpoints are kept, and what to say of it."""
        if not isinstance(job, TrainingJob):
            return None, None
        if job.checkpoint is not None and job.checkpoint.s3 is not None:
            return job.checkpoint.s3, None
        own = first_checkpoints(bucket.name, job.name, run_id)
        if fresh or bucket.calls:
            return own, None
        try:
            earlier = earlier_checkpoints(self.aws, job, bucket.name)
        except AwsRefused as refused:
            if not refused.is_permission:
                raise
            return own, f"whether an earlier run left checkpoints was not looked at: {refused.code}"
        if earlier is None:
            return own, None
        note = f"/opt/ml/checkpoints begins with what {earlier.run_id} left (--fresh begins without)"
        return earlier.address, note

    def _refuse_unknown(self, region: str) -> None:
        """A region that neither boto3 nor the catalogue knows is most likely a slip of the keys."""
        if region in self.catalogue.tables.registries:
            return
        near = self.aws.unknown_region()
        if near is None:
            return
        raise UsageError(
            f"There is no AWS region {region}, as far as the installed boto3 knows.",
            remedy=f"Did you mean {near}?" if near else "If it is new: pip install -U boto3",
        )

    def _refuse_other_regions(self, job: Job, remote: dict[str, str], region: str) -> None:
        """SageMaker reads and writes buckets of its own region alone."""
        addresses = {f"input {name}": address for name, address in remote.items()}
        if isinstance(job, TrainingJob):
            addresses["output"] = job.output or ""
            addresses["checkpoint"] = (job.checkpoint.s3 if job.checkpoint else None) or ""
        else:
            addresses |= {f"output {key}": outlet.destination or "" for key, outlet in job.outputs.items()}
        regions: dict[str, str | None] = {}
        for what, address in addresses.items():
            if not is_s3(address):
                continue
            bucket = address.removeprefix("s3://").partition("/")[0]
            if bucket not in regions:
                regions[bucket] = self._region_of(bucket, region)
            _refuse_region(what, address, bucket, regions[bucket], region)

    def _refuse_empty(self, remote: dict[str, str]) -> None:
        """A job whose input is not there fails after its instances were paid for."""
        for name, address in remote.items():
            bucket, _, key = address.removeprefix("s3://").partition("/")
            try:
                found = next(self.aws.list_objects(bucket, key), None)
            except AwsRefused as refused:
                if refused.is_permission:
                    continue  # the role may well see what the user may not
                raise
            if found is None:
                raise InvalidJob(
                    f"The input {name} is {address}, and there is nothing.",
                    remedy=f"aws s3 ls s3://{bucket}/",
                )

    def _region_of(self, bucket: str, otherwise: str) -> str | None:
        try:
            return self.aws.bucket_region(bucket)
        except AwsRefused as refused:
            if refused.is_permission:
                return otherwise  # the role may well see what the user may not
            raise


def _refuse(job: Job) -> None:
    way = job.distribution.chosen if isinstance(job, TrainingJob) and job.distribution is not None else None
    if way is not None:
        raise InvalidJob(
            f"'{job.name}' is distributed ({way}), and GPUproof starts one process a host on SageMaker.",
            remedy="Leave 'distribution' out: each host runs the script, and SM_HOSTS names them all.",
        )
    own = job.sagemaker
    if own.keep_alive is not None and job.resources.spot:
        raise InvalidJob(
            f"'{job.name}' asks for a warm pool (keep_alive) and for spot capacity, and SageMaker has no such pools.",
            remedy="Leave one out: --no-spot, or no --keep-alive.",
        )
    if not isinstance(job, ProcessingJob):
        return
    if own.keep_alive is not None:
        raise InvalidJob(
            f"'{job.name}' asks for a warm pool (keep_alive), which training jobs alone have.",
            remedy="Leave keep_alive out.",
        )
    places = [mount.path for mount in job.inputs.values()]
    places += [outlet.path for outlet in job.outputs.values()]
    for path in places:
        if path in (CODE, VERDICT) or path.startswith((f"{CODE}/", f"{VERDICT}/")):
            raise InvalidJob(f"{path} is where GPUproof's own files lie.", remedy="Name another path.")


def _source(job: Job) -> SourceTree:
    local, _ = _inputs(job)
    return collect(
        Path(job.source_dir), job.entry_point, exclude=[*local.values(), *output_folders(job), *own_folders()]
    )


def _inputs(job: Job) -> tuple[dict[str, Path], dict[str, str]]:
    """The inputs on this machine, and the addresses of the others."""
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
                f"Input '{name}' of '{job.name}' is not there: {path}.", remedy=f"--input {name}=FOLDER"
            )
        local[name] = path.resolve()
    return local, remote


def _expected(job: Job, candidate: Candidate, catalogue: Catalogue) -> ExpectedGpus:
    """What the job asks for; on the type that its resources gave, by the model that this type has."""
    if job.instance_type is not None or candidate.instance is None:
        return expected_gpus(job.model_copy(update={"instance_type": candidate.name}), catalogue)
    asked = expected_gpus(job, catalogue)
    return ExpectedGpus(asked.count, candidate.instance.gpu_model, asked.because)


def _refuse_region(what: str, address: str, bucket: str, found: str | None, region: str) -> None:
    if found is None:
        raise InvalidJob(f"The {what} is {address}, and there is no bucket {bucket}.", remedy="aws s3 ls")
    if found != region:
        raise InvalidJob(
            f"The {what} is {address}, whose bucket is in {found}, and the job would run in {region}: "
            "SageMaker takes both from one region.",
            remedy=f"--region {found}, or a copy of the data: aws s3 sync {address} s3://BUCKET-IN-{region}/…",
        )
