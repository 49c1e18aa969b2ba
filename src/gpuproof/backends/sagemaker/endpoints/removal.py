"""Deletes parts of an endpoint: waits while SageMaker refuses, and takes what is gone already as deleted."""

from __future__ import annotations

import time
from collections.abc import Callable

from gpuproof.backends.api_call import ApiCall
from gpuproof.backends.aws import Aws, AwsRefused
from gpuproof.backends.aws.retry import poll_pauses
from gpuproof.backends.progress import SubmitProgress
from gpuproof.backends.sagemaker.endpoints.requests import endpoint_undo
from gpuproof.backends.sagemaker.endpoints.wait import IN_PROGRESS, LONGEST_WAIT
from gpuproof.errors import GPUproofError


class Remover:
    """Deletes parts of an endpoint.

    Args:
        progress: told about each step.
        sleep: waits for a number of seconds.
    """

    def __init__(
        self, aws: Aws, progress: SubmitProgress, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        self._aws = aws
        self._progress = progress
        self._sleep = sleep

    def endpoint(self, name: str) -> bool:
        """Delete an endpoint and wait until it is gone; false if it was gone already.

        SageMaker deletes no endpoint that is being created or updated: it is waited for.
        """
        asked = False
        for pause in poll_pauses(LONGEST_WAIT):
            found = self._aws.describe_endpoint(name)
            if found is None:
                return asked
            if found["EndpointStatus"] not in IN_PROGRESS:
                self._progress.step(f"delete the endpoint {name}")
                asked = self.call(endpoint_undo(name))
                continue
            self._progress.step(f"wait until the endpoint {name} can be deleted: {found['EndpointStatus']}")
            self._sleep(pause)
        raise GPUproofError(
            f"The endpoint {name} is still in progress.",
            remedy=f"gpuproof delete {name}{self._aws.region_flag}",
        )

    def call(self, call: ApiCall) -> bool:
        """Execute a call that deletes something; false if it was gone already."""
        try:
            self._aws.call(call.service, call.operation, **call.request)
        except AwsRefused as refused:
            if refused.is_missing:
                return False
            raise
        return True

    def files(self, bucket: str, prefix: str) -> None:
        """Delete all objects below a prefix."""
        self._aws.delete_objects(bucket, [item.key for item in self._aws.list_objects(bucket, prefix)])
