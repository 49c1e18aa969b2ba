"""Sends an invocation to a variant, and records its metrics and its data."""

from __future__ import annotations

import time

from gpuproof_emulator.execution.endpoints.deployment import Deployment
from gpuproof_emulator.execution.endpoints.invocations import ModelResponse
from gpuproof_emulator.execution.endpoints.metrics import Invocation, InvocationMetrics
from gpuproof_emulator.protocol import AwsError, AwsRequest, AwsResponse

_STREAMED = "/invocations-response-stream"
_NO_RESPONSE = 504  # for the metrics of a container that did not respond in time
_UNSUPPORTED = {
    "target-container-hostname": "TargetContainerHostname",
    "enable-explanations": "EnableExplanations",
    "inference-component": "InferenceComponentName",
    "prefix-aware-id": "PrefixAwareId",
}


def reject_unsupported_headers(request: AwsRequest) -> None:
    """Reject members of an invocation that the emulator does not support.

    Raises:
        AwsError: the request has one.
    """
    for header, member in _UNSUPPORTED.items():
        if request.header(f"x-amzn-sagemaker-{header}"):
            raise AwsError("ValidationError", f"This emulator does not support {member}.")


def invoke_variant(
    request: AwsRequest,
    endpoint: str,
    deployment: Deployment,
    metrics: InvocationMetrics,
    *,
    region: str = "",
    timeout: float | None = None,
) -> AwsResponse:
    """Send an invocation to the variant that it names or that the weights choose.

    Args:
        region: of the endpoint, if not that of the request's signature.
        timeout: seconds within which the container must respond; SageMaker's limit if None. A request with a timeout
            is one of an asynchronous endpoint, whose body may be larger.

    Raises:
        AwsError: there is no such variant, the body is too large, or the container does not respond.
    """
    start = time.perf_counter()
    name = request.header("x-amzn-sagemaker-target-variant") or deployment.choose_variant()
    variant = deployment.variants.get(name)
    if variant is None:
        raise AwsError("ValidationError", f"Variant {name} not found for the endpoint {endpoint}.")
    if timeout is None and request.size > variant.max_body:
        raise AwsError("413", f"HTTP content length exceeded {variant.max_body} bytes.", 413)
    if request.header("x-amzn-sagemaker-target-model") and not variant.models:
        raise AwsError(
            "ValidationError", f"TargetModel is only for multi-model endpoints; {endpoint} has one model."
        )
    sent = time.perf_counter()
    response = variant.model.invoke(request, timeout)
    model = time.perf_counter() - sent
    status = (response.model_status or _NO_RESPONSE) if isinstance(response, ModelResponse) else 200
    overhead = time.perf_counter() - start - model
    metrics.record(region or request.region, endpoint, name, Invocation(status, model, overhead))
    if deployment.capture is not None and response.status == 200 and not request.path.endswith(_STREAMED):
        deployment.capture.capture(endpoint, name, request, response)
    return response
