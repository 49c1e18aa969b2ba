"""The plan of a run on SageMaker: every decision, and the API calls that execute it as data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from gpuproof.agent.contract import script_arguments
from gpuproof.agent.job import AgentJob
from gpuproof.backends.agent_job.document import job_document, shown_job_document
from gpuproof.backends.api_call import ApiCall
from gpuproof.backends.aws import SageMakerKind
from gpuproof.backends.display import DisplayedPlan
from gpuproof.backends.offer import Offer
from gpuproof.backends.remote.agent_job import container_job
from gpuproof.backends.remote.bucket import BucketPlan
from gpuproof.backends.remote.code_channel import code_calls
from gpuproof.backends.remote.planning.plan_lines import gpu_text, input_lines, output_lines
from gpuproof.backends.remote.results.deliver import local_destinations
from gpuproof.backends.remote.results.output_names import output_name
from gpuproof.backends.remote.run_id import new_run_id
from gpuproof.backends.remote.s3_layout import RunLayout, checkpoint_prefix, uri
from gpuproof.backends.remote.upload.upload_plan import UploadPlan
from gpuproof.backends.sagemaker.planning.role import ChosenRole
from gpuproof.backends.sagemaker.requests.calls import create_calls
from gpuproof.backends.sagemaker.requests.common import Addresses, JobRequest, max_runtime
from gpuproof.backends.sagemaker.requests.training import max_wait
from gpuproof.backends.sagemaker.target import Target
from gpuproof.catalogue.prices import DERIVED, is_old, mark
from gpuproof.jobs.models.script_jobs import SageMakerJob, TrainingJob
from gpuproof.jobs.source.tree import SourceTree
from gpuproof.jobs.validators import is_s3
from gpuproof.settings import today
from gpuproof.units import Duration
from gpuproof.util.humanize import format_usd

if TYPE_CHECKING:
    from gpuproof.agent.job import PlannedFlops
    from gpuproof.backends.base import Run


@dataclass(frozen=True, repr=False)
class SageMakerPlan(DisplayedPlan):
    """The plan of a run on SageMaker; implements `gpuproof.backends.base.Plan`.

    Args:
        job: with absolute paths.
        run_id: the name of the SageMaker job, decided once so that a repeated request cannot create a second job.
        role: the role that it runs as.
        targets: instance types in the order in which they are tried.
        checkpoints: the `s3://` prefix that a training job's checkpoints are synchronized with.
        fresh: whether it starts without earlier checkpoints.
        cluster_key: the secret of the hosts' agents; empty on one host.
        provenance: what the run's record says of its code and inputs.
        warnings: what the user should know before the run starts.
        planned_flops: of a step of the script, if it was planned.
    """

    job: SageMakerJob
    run_id: str
    region: str
    role: ChosenRole
    bucket: BucketPlan
    targets: tuple[Target, ...]
    tree: SourceTree
    uploads: UploadPlan
    checkpoints: str | None
    fresh: bool
    cluster_key: str
    warnings: tuple[str, ...]
    planned_flops: PlannedFlops | None = None
    provenance: Mapping[str, Any] = field(default_factory=dict[str, Any])

    @property
    def target(self) -> Target:
        """The instance type that is tried first."""
        return self.targets[0]

    @property
    def offer(self) -> Offer:
        """What the first instance type costs; the on-demand price is the upper bound of the spot price."""
        price = self.target.candidate.price
        spot = isinstance(self.job, TrainingJob) and self.job.resources.spot
        return Offer(
            instance_type=self.target.name,
            usd_per_hour=None if price is None else price.usd_per_hour * self.job.instance_count,
            spot=spot,
            is_limit=spot,
            is_derived=bool(mark(price)),
        )

    @property
    def max_usd(self) -> float | None:
        """The highest possible cost, with a warm pool after the job; None if a price is unknown."""
        costs = [self.max_cost_usd(target) for target in self.targets]
        return None if None in costs else max(cost for cost in costs if cost is not None)

    @property
    def kind(self) -> SageMakerKind:
        """The kind of job."""
        return self.job.kind

    @property
    def kms_key(self) -> str | None:
        """The KMS key that the run's files are encrypted with; None for the bucket's default."""
        return self.job.sagemaker.output_kms_key

    @property
    def layout(self) -> RunLayout:
        """The names of the run's files in the bucket."""
        return RunLayout(self.run_id)

    @property
    def addresses(self) -> Addresses:
        """The S3 addresses of all files of the run."""
        layout, job, bucket = self.layout, self.job, self.bucket.name
        inputs = {name: self.uploads.address(bucket, name) for name in job.inputs}
        code = uri(bucket, layout.code)
        if isinstance(job, TrainingJob):
            output = job.output if job.output and is_s3(job.output) else uri(bucket, layout.output)
            return Addresses(code=code, inputs=inputs, output=output, checkpoints=self.checkpoints)
        outputs: dict[str, str] = {}
        for number, (key, output) in enumerate(job.outputs.items(), 1):
            given = output.destination
            own = uri(bucket, layout.processing_output(output_name(key, number)))
            outputs[key] = given if given and is_s3(given) else own
        return Addresses(code=code, inputs=inputs, outputs=outputs, verdict=uri(bucket, layout.verdict))

    def max_cost_usd(self, target: Target) -> float | None:
        """The highest possible cost on an instance type within the time limit, on demand, and of its warm pool afterwards; None if its price is unknown."""
        price = target.candidate.price
        if price is None:
            return None
        keep_alive = self.job.sagemaker.keep_alive
        billed = max_runtime(self.job) + (keep_alive.seconds if keep_alive is not None else 0)
        return price.usd_per_hour * billed / 3600 * self.job.instance_count

    def agent_job(self, target: Target) -> AgentJob:
        """The agent's job for an instance type."""
        planned = container_job(self.job, self.run_id, target.name, target.expected)
        applied = target.launch.apply(planned, self.cluster_key)
        return replace(applied, planned_flops=self.planned_flops, provenance=self.provenance)

    def request(self, target: Target) -> JobRequest:
        """The input of the request that creates the job on an instance type."""
        return JobRequest(
            self.job, self.run_id, self.role.arn, self.bucket.name, target, self.addresses, self.fresh
        )

    def files(self) -> list[tuple[str, int]]:
        """The source files, each with its size in bytes."""
        return self.tree.listing()

    def calls(self) -> tuple[ApiCall, ...]:
        """All API calls of the submission, in order, if the first instance type is available."""
        return (
            *self.bucket.calls,
            *self.uploads.calls(self.bucket.name, self.kms_key),
            *self.code_calls(),
            *self.create_calls(self.target),
        )

    def code_calls(self) -> tuple[ApiCall, ApiCall]:
        """The calls that copy the uploaded agent and source into the code channel."""
        agent, source = self.uploads.agent.digest, self.uploads.source.digest
        return code_calls(self.bucket.name, self.layout, agent, source, self.kms_key)

    def create_calls(self, target: Target) -> tuple[ApiCall, ApiCall]:
        """The calls that create the job on an instance type.

        Raises:
            InvalidJob: the request exceeds SageMaker's limits.
        """
        return create_calls(self.request(target), self.layout, job_document(self.agent_job(target)))

    def next_plan(self, tried: str) -> SageMakerPlan | None:
        """The plan of another run, under another name, on the instance types after one that was tried; None after the
        last.
        """
        names = [target.name for target in self.targets]
        left = self.targets[names.index(tried) + 1 :] if tried in names else ()
        if not left:
            return None
        return replace(
            self,
            run_id=new_run_id(self.job.name),
            targets=left,
            bucket=replace(self.bucket, calls=(), note=None),
        )

    def describe(self) -> Iterator[tuple[str, str]]:
        """The plan as labels and texts."""
        job = self.job
        planned = container_job(job, self.run_id, self.target.name, self.target.expected)
        yield "script", " ".join([job.entry_point, *script_arguments(planned)])
        yield "code", self.tree.describe()
        yield "image", f"{self.target.image.uri} ({self.target.image.because})"
        yield "instance", self._instances_text()
        yield "GPU", gpu_text(job, self.target.expected)
        if (launcher := self.target.launch.describe(self.target.gpus, job.instance_count)) is not None:
            yield "launcher", launcher
        addresses = self.addresses
        yield from input_lines(job, addresses.inputs, self.uploads.folders)
        yield from output_lines(job, addresses.output, addresses.outputs, addresses.checkpoints)
        yield "role", self.role.arn + (f" ({self.role.because})" if self.role.because else "")
        yield "bucket", self.bucket.name + (" (will be created)" if self.bucket.calls else "")
        yield "time limit", self._limit_text()
        if isinstance(job, TrainingJob) and job.resources.spot:
            limit = Duration(max_wait(job))
            text = "spot capacity: cheaper, but may be reclaimed; the job then continues from its checkpoints"
            yield "spot", f"{text}; {limit} for waiting and running"
        for warning in self.warnings:
            yield "note", warning

    def document(self) -> dict[str, Any]:
        """The plan and its API calls as JSON, version 1; environment variables are hidden."""
        return {
            "version": 1,
            "backend": "sagemaker",
            "run": self.run_id,
            "region": self.region,
            "instance_types": [
                {
                    "name": target.name,
                    "max_usd": self.max_cost_usd(target),
                    "usd_per_hour": target.candidate.price.usd_per_hour if target.candidate.price else None,
                    "price_kind": target.candidate.price.kind if target.candidate.price else None,
                    "price_as_of": target.candidate.price.as_of if target.candidate.price else None,
                    "image": target.image.uri,
                }
                for target in self.targets
            ],
            "job": shown_job_document(self.agent_job(self.target)),
            "files": [{"name": name, "bytes": size} for name, size in self.files()],
            "notes": list(self.warnings),
            "calls": [call.to_json() for call in self.calls()],
        }

    def detach_notes(self, run: Run) -> Iterator[str]:
        """What GPUproof does not do for a run that it does not follow."""
        if len(self.targets) > 1:
            yield "detached: if AWS has no capacity for this instance type, the others are not tried"
        if any(local_destinations(self.job)):
            yield f"detached: its results stay on S3; download them with: gpuproof pull {run.cli_name}"

    def _instances_text(self) -> str:
        count = f"{self.job.instance_count} x " if self.job.instance_count > 1 else ""
        each = " each" if count else ""
        first, *others = [f"{target.name}{_price_text(target, each)}" for target in self.targets]
        prices = [target.candidate.price for target in self.targets if target.candidate.price]
        as_of = ""
        if prices:
            oldest = min(prices, key=lambda price: price.as_of)
            old = " (more than a year ago)" if is_old(oldest, today()) else ""
            as_of = f"; list prices in {self.region} as of {oldest.as_of}{old}"
            if any(map(mark, prices)):
                as_of += f"; {DERIVED} is derived from similar prices"
        rest = f"\nelse {', '.join(others)}" if others else ""
        return f"{count}{first}{as_of}{rest}"

    def _limit_text(self) -> str:
        text = str(Duration(max_runtime(self.job)))
        costs = [(cost, target) for target in self.targets if (cost := self.max_cost_usd(target)) is not None]
        if not costs:
            return text
        highest, target = max(costs, key=lambda cost: cost[0])
        first, dearest = self.max_cost_usd(self.target), f"{self._cost_text(target)} on {target.name}"
        if first is None:
            return f"{text}; at most {dearest}"
        if highest > first:
            return f"{text}; at most {self._cost_text(self.target)} on {self.target.name}, {dearest}"
        return f"{text}; at most {self._cost_text(self.target)} on demand"

    def _cost_text(self, target: Target) -> str:
        return f"{mark(target.candidate.price)}{format_usd(self.max_cost_usd(target))}"


def first_checkpoints(bucket: str, job_name: str, run_id: str) -> str:
    """The address of the checkpoints of a run that does not continue from earlier ones."""
    return uri(bucket, checkpoint_prefix(job_name, run_id))


def _price_text(target: Target, each: str) -> str:
    price = target.candidate.price
    return "" if price is None else f" at {mark(price)}{format_usd(price.usd_per_hour)} an hour{each}"
