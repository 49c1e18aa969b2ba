"""Finds what exists of a batch transform job that no command follows, so that it can be stopped and its model deleted."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from gpuproof.backends.api_call import ApiCall
from gpuproof.backends.aws import Aws
from gpuproof.backends.remote.s3_layout import uri
from gpuproof.backends.sagemaker.endpoints.plan import ENDPOINTS
from gpuproof.backends.sagemaker.transform.created import CreatedForJob
from gpuproof.backends.sagemaker.transform.plan import BUCKET_TAG, TAG, model_undo, stop_undo


def find_created(aws: Aws, name: str, notify: Callable[[str], None] = print) -> CreatedForJob | None:
    """The job of that name, with the model and the files that GPUproof created for it; None if there is no such job.

    Of a job that GPUproof did not create, only the job itself is found.
    """
    job = aws.transform_job(name)
    if job is None:
        return None
    return CreatedForJob(aws, name, list(_undo(aws, name, aws.tags(job["TransformJobArn"]))), notify)


def _undo(aws: Aws, name: str, tags: Mapping[str, str]) -> Iterator[ApiCall]:
    """The calls, last first."""
    if tags.get(TAG) == name:
        model = aws.describe_model(name)
        model_tags = {} if model is None else aws.tags(model["ModelArn"])
        is_own = model_tags.get(TAG) == name
        bucket = tags.get(BUCKET_TAG) or (model_tags.get(BUCKET_TAG) if is_own else None)
        if bucket is not None:
            prefix = f"{ENDPOINTS}{name}/"
            keys = [item.key for item in aws.list_objects(bucket, prefix)]
            if keys:
                request = {"Bucket": bucket, "Delete": {"Objects": [{"Key": key} for key in keys]}}
                yield ApiCall("s3", "delete_objects", request, f"delete {uri(bucket, prefix)}")
        if is_own:
            yield model_undo(name)
    yield stop_undo(name)
