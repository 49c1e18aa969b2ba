"""Requests to SageMaker Runtime."""

from __future__ import annotations

import contextlib
from typing import Any

from gpuproof.backends.aws.session import AwsSession

_SERVICE = "sagemaker-runtime"
_CONNECT_SECONDS = 10


class RuntimeCalls(AwsSession):
    """The client's methods for SageMaker Runtime."""

    def invoke_endpoint(self, request: dict[str, Any], *, stream: bool, timeout: float) -> dict[str, Any]:
        """Invoke an endpoint once. Only throttled requests are repeated: others may have reached the model.

        Args:
            request: of `InvokeEndpoint` or `InvokeEndpointWithResponseStream`.
            stream: whether the response is a stream of events.
            timeout: seconds to wait for the response.

        Returns:
            The response, with an unread body.
        """
        method = "invoke_endpoint_with_response_stream" if stream else "invoke_endpoint"
        operation = "InvokeEndpointWithResponseStream" if stream else "InvokeEndpoint"
        client = self._runtime_client(timeout)

        def attempt() -> dict[str, Any]:
            with self._translated(_SERVICE, operation, f"endpoint {request['EndpointName']}", once=True):
                return getattr(client, method)(**request)

        return self._with_retries(_SERVICE, attempt, once=True)

    def translated_stream(self, operation: str) -> contextlib.AbstractContextManager[None]:
        """Translates the errors of reading a response's body."""
        return self._translated(_SERVICE, operation)

    def _runtime_client(self, timeout: float) -> Any:
        from botocore.config import Config  # slow to import: only for runs on AWS

        config = Config(
            retries={"total_max_attempts": 1}, connect_timeout=_CONNECT_SECONDS, read_timeout=timeout
        )
        with self._translated(_SERVICE, ""), self._lock:
            return self._open_session().client(_SERVICE, region_name=self._given_region, config=config)
