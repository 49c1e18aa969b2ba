"""The API calls that fill a run's code channel: agent, source and `job.json`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from gpuproof.backends.api_call import ApiCall
from gpuproof.backends.aws.services.s3 import encryption
from gpuproof.backends.remote.s3_layout import CODE_TAGS, RunLayout, object_key


def code_calls(
    bucket: str, layout: RunLayout, agent_digest: str, source_digest: str, kms_key: str | None
) -> tuple[ApiCall, ApiCall]:
    """The calls that copy the uploaded agent and source into the run's code channel."""
    agent, source = object_key(agent_digest), object_key(source_digest)
    return (
        _copy(bucket, agent, layout.agent, "copy the agent into the code channel", kms_key),
        _copy(bucket, source, layout.source, "copy the source into the code channel", kms_key),
    )


def job_file_call(
    bucket: str, layout: RunLayout, agent_job: Mapping[str, Any], kms_key: str | None
) -> ApiCall:
    """The call that writes the agent's `job.json`."""
    request = {
        "Bucket": bucket,
        "Key": layout.job,
        "Body": json.dumps(agent_job).encode(),
        **_tagging(),
        **encryption(kms_key),
    }
    return ApiCall("s3", "put_object", request, "write the agent's job.json", _delete(bucket, layout.job))


def environment_call(bucket: str, layout: RunLayout, environment: Mapping[str, str]) -> ApiCall:
    """The call that writes the job's environment variables, for a host that no API passes them to.

    Args:
        environment: the variables, which `--dry-run` hides.
    """
    request = {
        "Bucket": bucket,
        "Key": layout.environment,
        "Body": json.dumps(dict(environment)).encode(),
        **_tagging(),
    }
    return ApiCall(
        "s3",
        "put_object",
        request,
        "write the job's environment variables",
        _delete(bucket, layout.environment),
    )


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
