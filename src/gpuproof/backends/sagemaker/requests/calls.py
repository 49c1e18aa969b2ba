"""The API calls that create the job, as data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpuproof.backends.api_call import ApiCall
from gpuproof.backends.remote.code_channel import job_file_call
from gpuproof.backends.remote.s3_layout import RunLayout
from gpuproof.backends.sagemaker.requests.common import JobRequest
from gpuproof.backends.sagemaker.requests.limits import check_limits
from gpuproof.backends.sagemaker.requests.processing import processing_request
from gpuproof.backends.sagemaker.requests.training import training_request
from gpuproof.jobs.models.script_jobs import ProcessingJob


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
    put = job_file_call(bucket, layout, agent_job, request.job.sagemaker.output_kms_key)
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
