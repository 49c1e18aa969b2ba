"""What a run on SageMaker will do: every decision, and the AWS calls that carry it out, as data."""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from gpuproof.backends.aws import SageMakerKind
from gpuproof.backends.aws.s3 import encryption
from gpuproof.backends.local.agent_job import order_document
from gpuproof.backends.sagemaker.planning.agent_job import container_order
from gpuproof.backends.sagemaker.planning.bucket import BucketPlan
from gpuproof.backends.sagemaker.planning.role import ChosenRole
from gpuproof.backends.sagemaker.requests.common import Addresses, Order, Target, max_runtime
from gpuproof.backends.sagemaker.requests.limits import check_limits
from gpuproof.backends.sagemaker.requests.processing import output_name, processing_request
from gpuproof.backends.sagemaker.requests.training import training_request
from gpuproof.backends.sagemaker.s3_layout import CODE_TAGS, RunLayout, checkpoint_prefix, object_key, uri
from gpuproof.backends.sagemaker.submission.aws_call import Call
from gpuproof.backends.sagemaker.upload.upload_plan import Cargo
from gpuproof.jobs.source_tree import SourceTree
from gpuproof.jobs.spec import Job, ProcessingJob, TrainingJob
from gpuproof.jobs.validators import is_s3

_NAME_LIMIT = 63


@dataclass(frozen=True)
class SageMakerPlan:
    """A run on SageMaker, decided before anything is made.

    Args:
        job: its paths absolute.
        run_id: SageMaker's name for the job; made once, so that asking twice makes one.
        region: where it runs.
        role: what it runs as.
        bucket: where its files lie.
        targets: instance types to try, in order; the first is the one to begin with.
        tree: the source files that go along.
        cargo: what is sent.
        checkpoints: the `s3://` prefix that a training job's checkpoints are kept in step with.
        fresh: whether it was told to begin without earlier checkpoints.
        notes: what a person should know.
    """

    job: Job
    run_id: str
    region: str
    role: ChosenRole
    bucket: BucketPlan
    targets: tuple[Target, ...]
    tree: SourceTree
    cargo: Cargo
    checkpoints: str | None
    fresh: bool
    notes: tuple[str, ...]

    @property
    def target(self) -> Target:
        """What is tried first."""
        return self.targets[0]

    @property
    def kind(self) -> SageMakerKind:
        """What kind of job it is."""
        return self.job.kind

    @property
    def layout(self) -> RunLayout:
        """Where the run keeps its files in the bucket."""
        return RunLayout(self.run_id)

    @property
    def addresses(self) -> Addresses:
        """Where everything of the run lies on S3."""
        layout, job, bucket = self.layout, self.job, self.bucket.name
        inputs = {name: self.cargo.address(bucket, name) for name in job.inputs}
        if isinstance(job, TrainingJob):
            output = (
                job.output if job.output and job.output.startswith("s3://") else uri(bucket, layout.output)
            )
            return Addresses(
                code=uri(bucket, layout.code),
                inputs=inputs,
                output=output,
                checkpoints=self.checkpoints,
            )
        outputs: dict[str, str] = {}
        for number, (key, outlet) in enumerate(job.outputs.items(), 1):
            given = outlet.destination
            own = uri(bucket, layout.processing_output(output_name(key, number)))
            outputs[key] = given if given and given.startswith("s3://") else own
        return Addresses(
            code=uri(bucket, layout.code), inputs=inputs, outputs=outputs, verdict=uri(bucket, layout.verdict)
        )

    def most_usd(self, target: Target) -> float | None:
        """The most that a type may cost within the time limit, on demand; None where its price is unknown."""
        price = target.candidate.price
        if price is None:
            return None
        return price.usd_per_hour * max_runtime(self.job) / 3600 * self.job.instance_count

    def document(self, target: Target) -> dict[str, Any]:
        """`job.json` for a type."""
        return order_document(container_order(self.job, self.run_id, target.name, target.expected))

    def next(self, tried: str) -> SageMakerPlan | None:
        """The plan for another run, under another name, with the types after the one that was tried; None after the
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


def new_run_id(job_name: str) -> str:
    """A name that no run has: the job's, the time and something unique."""
    suffix = f"{time.strftime('%Y%m%d-%H%M%S')}-{secrets.token_hex(2)}"
    return f"{job_name[: _NAME_LIMIT - len(suffix) - 1].rstrip('-')}-{suffix}"


def first_checkpoints(bucket: str, job_name: str, run_id: str) -> str:
    """Where checkpoints of a job go that begins anew."""
    return uri(bucket, checkpoint_prefix(job_name, run_id))


def wanted_here(job: Job) -> tuple[Path | None, dict[str, Path]]:
    """The folders on this machine for a training job's archives, and for a processing job's outputs by their names."""
    if isinstance(job, TrainingJob):
        return (None if job.output is None or is_s3(job.output) else Path(job.output)), {}
    return None, {
        output_name(key, number): Path(outlet.destination)
        for number, (key, outlet) in enumerate(job.outputs.items(), 1)
        if outlet.destination is not None and not is_s3(outlet.destination)
    }


def plan_calls(plan: SageMakerPlan) -> tuple[Call, ...]:
    """Everything that `submit` will ask AWS for, in order, where the first instance type is to be had."""
    kms_key = plan.job.sagemaker.output_kms_key
    return (
        *plan.bucket.calls,
        *plan.cargo.calls(plan.bucket.name, kms_key),
        *code_calls(plan),
        *create_calls(plan, plan.target),
    )


def code_calls(plan: SageMakerPlan) -> tuple[Call, ...]:
    """What brings the agent and the source, once they are sent, into the code channel."""
    layout, bucket, cargo = plan.layout, plan.bucket.name, plan.cargo
    kms_key = plan.job.sagemaker.output_kms_key
    agent, source = object_key(cargo.agent.digest), object_key(cargo.source.digest)
    return (
        _copy(bucket, agent, layout.agent, "bring the agent into the code channel", kms_key),
        _copy(bucket, source, layout.source, "bring the source into the code channel", kms_key),
    )


def create_calls(plan: SageMakerPlan, target: Target) -> tuple[Call, Call]:
    """What makes the job on one instance type.

    Raises:
        InvalidJob: the request is beyond SageMaker's limits.
    """
    bucket, key = plan.bucket.name, plan.job.sagemaker.output_kms_key
    request = create_request(plan, target)
    content = json.dumps(plan.document(target)).encode()
    word = plan.kind.capitalize()
    stop = Call(
        "sagemaker", f"stop_{plan.kind}_job", {f"{word}JobName": plan.run_id}, f"stop the job {plan.run_id}"
    )
    put = Call(
        "s3",
        "put_object",
        {"Bucket": bucket, "Key": plan.layout.job, "Body": content, **_tagging(), **encryption(key)},
        "tell the agent what to do",
        _delete(bucket, plan.layout.job),
    )
    what = f"create the {plan.kind} job {plan.run_id} on {target.name}"
    return put, Call("sagemaker", f"create_{plan.kind}_job", request, what, stop)


def create_request(plan: SageMakerPlan, target: Target) -> dict[str, Any]:
    """What CreateTrainingJob or CreateProcessingJob is asked, held against the API's limits."""
    job = plan.job
    order = Order(job, plan.run_id, plan.role.arn, plan.bucket.name, target, plan.addresses, plan.fresh)
    if isinstance(job, ProcessingJob):
        request, operation = processing_request(order, job), "CreateProcessingJob"
    else:
        request, operation = training_request(order, job), "CreateTrainingJob"
    check_limits(operation, request)
    return request


def _copy(bucket: str, source: str, key: str, what: str, kms_key: str | None) -> Call:
    request: Mapping[str, Any] = {
        "Bucket": bucket,
        "Key": key,
        "CopySource": {"Bucket": bucket, "Key": source},
        "TaggingDirective": "REPLACE",
        **_tagging(),
        **encryption(kms_key),
    }
    return Call("s3", "copy_object", request, what, _delete(bucket, key))


def _delete(bucket: str, key: str) -> Call:
    request = {"Bucket": bucket, "Delete": {"Objects": [{"Key": key}]}}
    return Call("s3", "delete_objects", request, f"remove s3://{bucket}/{key}")


def _tagging() -> dict[str, str]:
    return {"Tagging": "&".join(f"{key}={value}" for key, value in CODE_TAGS.items())}
