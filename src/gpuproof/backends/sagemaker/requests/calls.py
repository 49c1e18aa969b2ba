"""The API calls that fill the code channel and create the job, as data."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from gpuproof.backends.api_call import ApiCall
from gpuproof.backends.aws.s3 import encryption
from gpuproof.backends.sagemaker.requests.common import JobRequest
from gpuproof.backends.sagemaker.requests.limits import check_limits
from gpuproof.backends.sagemaker.requests.processing import processing_request
from gpuproof.backends.sagemaker.requests.training import training_request
from gpuproof.backends.sagemaker.s3_layout import CODE_TAGS, RunLayout, object_key
from gpuproof.jobs.spec import ProcessingJob


def code_calls(
    bucket: str, layout: RunLayout, agent_digest: str, source_digest: str, kms_key: str | None
) -> tuple[ApiCall, ApiCall]:
    """The calls that copy the uploaded agent and source into the run's code channel."""
    agent, source = object_key(agent_digest), object_key(source_digest)
    return (
        _copy(bucket, agent, layout.agent, "copy the agent into the code channel", kms_key),
        _copy(bucket, source, layout.source, "copy the source into the code channel", kms_key),
    )


def create_calls(
    request: JobRequest, layout: RunLayout, agent_job: Mapping[str, Any]
) -> tuple[ApiCall, ApiCall]:
    """The calls that write the agent's `job.json` and create the job.

    Args:
        agent_job: the content of `job.json`.

    Raises:
        InvalidJob: the request exceeds SageMaker's limits.
    """
    kind, run_id, bucket = request.job.kind, request.run_id, request.bucket
    stop = ApiCall(
        "sagemaker",
        f"stop_{kind}_job",
        {f"{kind.capitalize()}JobName": run_id},
        f"stop the job {run_id}",
    )
    put = ApiCall(
        "s3",
        "put_object",
        {
            "Bucket": bucket,
            "Key": layout.job,
            "Body": json.dumps(agent_job).encode(),
            **_tagging(),
            **encryption(request.job.sagemaker.output_kms_key),
        },
        "write the agent's job.json",
        _delete(bucket, layout.job),
    )
    what = f"create the {kind} job {run_id} on {request.target.name}"
    return put, ApiCall("sagemaker", f"create_{kind}_job", create_request(request), what, stop)


def create_request(request: JobRequest) -> dict[str, Any]:
    """The request of CreateTrainingJob or CreateProcessingJob, checked against the API's limits.

    Raises:
        InvalidJob: the request exceeds SageMaker's limits.
    """
    job = request.job
    if isinstance(job, ProcessingJob):
        built, operation = processing_request(request, job), "CreateProcessingJob"
    else:
        built, operation = training_request(request, job), "CreateTrainingJob"
    check_limits(operation, built)
    return built


def _copy(bucket: str, source: str, key: str, what: str, kms_key: str | None) -> ApiCall:
    request: Mapping[str, Any] = {
        "Bucket": bucket,
        "Key": key,
        "CopySource": {"Bucket": bucket, "Key": source},
        "TaggingDirective": "REPLACE",
        **_tagging(),
        **encryption(kms_key),
    }
    return ApiCall("s3", "copy_object", request, what, _delete(bucket, key))


def _delete(bucket: str, key: str) -> ApiCall:
    request = {"Bucket": bucket, "Delete": {"Objects": [{"Key": key}]}}
    return ApiCall("s3", "delete_objects", request, f"delete s3://{bucket}/{key}")


def _tagging() -> dict[str, str]:
    return {"Tagging": "&".join(f"{key}={value}" for key, value in CODE_TAGS.items())}
