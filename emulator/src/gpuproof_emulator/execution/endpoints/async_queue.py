"""Asynchronous endpoints: a queue of requests in S3, whose results are written to S3.

Source: https://docs.aws.amazon.com/sagemaker/latest/dg/async-inference.html
"""

from __future__ import annotations

import io
import json
import threading
import time
import uuid
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from gpuproof_emulator.clients import Clients
from gpuproof_emulator.execution.s3_sync import S3Location
from gpuproof_emulator.protocol import AwsError, AwsRequest, AwsResponse

MAX_INPUT = 1 << 30
"""Bytes of an input, as on the page above."""
# https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_runtime_InvokeEndpointAsync.html
_TTL_S = 21_600.0
_TIMEOUT_S = 900.0
_HEADER = "HTTP_X_AMZN_SAGEMAKER_"
_UNSUPPORTED = {"s3outputpathextension": "S3OutputPathExtension", "filename": "Filename"}
_POLL_S = 1.0

Invoke = Callable[[AwsRequest, float], AwsResponse]


@dataclass(frozen=True)
class _Item:
    id: str
    request: AwsRequest
    input: str
    output: S3Location
    failure: S3Location | None
    received: float
    deadline: float
    timeout: float


class AsyncQueue:
    """The queue of one asynchronous endpoint.

    Args:
        clients: of the emulator's S3 and SNS.
        endpoint: the endpoint's name.
        region: its region.
        config: `AsyncInferenceConfig` of its configuration.
        invoke: sends a request to a variant; the second argument is the timeout in seconds.
        has_instances: whether any instance is in service.
    """

    def __init__(
        self,
        clients: Clients,
        role: str | None,
        endpoint: str,
        region: str,
        config: Mapping[str, Any],
        invoke: Invoke,
        has_instances: Callable[[], bool],
    ) -> None:
        self._clients = clients
        self._role = role
        self._endpoint = endpoint
        self._region = region
        self.config = config
        self._invoke = invoke
        self._has_instances = has_instances
        self._items: deque[_Item] = deque()
        self._wake = threading.Condition()
        self._closed = False
        workers = (config.get("ClientConfig") or {}).get("MaxConcurrentInvocationsPerInstance", 1)
        for number in range(workers):
            threading.Thread(target=self._work, name=f"{endpoint} queue {number}", daemon=True).start()

    def submit(self, request: AwsRequest) -> AwsResponse:
        """`InvokeEndpointAsync`: queue a request.

        Raises:
            AwsError: it is invalid.
        """
        for name, member in _UNSUPPORTED.items():
            if request.header(f"x-amzn-sagemaker-{name}"):
                raise AwsError("ValidationError", f"This emulator does not support {member}.")
        where = request.header("x-amzn-sagemaker-inputlocation")
        if not where.startswith("s3://"):
            raise AwsError(
                "ValidationError", f"InputLocation '{where}' is not the address of an object in S3."
            )
        inference_id = request.header("x-amzn-sagemaker-inference-id") or str(uuid.uuid4())
        output = self.config["OutputConfig"]
        name = str(uuid.uuid4())
        moment = time.time()
        item = _Item(
            inference_id,
            request,
            where,
            S3Location.parse(output["S3OutputPath"]).below(f"{name}.out"),
            S3Location.parse(path).below(f"{name}-error.out")
            if (path := output.get("S3FailurePath"))
            else None,
            moment,
            moment + _seconds(request, "requestttlseconds", _TTL_S),
            _seconds(request, "invocationtimeoutseconds", _TIMEOUT_S),
        )
        with self._wake:
            self._items.append(item)
            self._wake.notify()
        body = json.dumps({"InferenceId": inference_id}).encode()
        headers = [
            ("Content-Type", "application/json"),
            ("Content-Length", str(len(body))),
            ("x-amzn-RequestId", request.request_id),
            ("X-Amzn-SageMaker-OutputLocation", str(item.output)),
        ]
        if item.failure is not None:
            headers.append(("X-Amzn-SageMaker-FailureLocation", str(item.failure)))
        return AwsResponse(202, tuple(headers), [body])

    def notify(self) -> None:
        """Look at the queue again, because instances came into service."""
        with self._wake:
            self._wake.notify_all()

    def close(self) -> None:
        """Drop the requests that are queued, and end the threads."""
        with self._wake:
            self._closed = True
            self._items.clear()
            self._wake.notify_all()

    def _work(self) -> None:
        while (item := self._next()) is not None:
            try:
                self._process(item)
            except Exception as error:  # noqa: BLE001 - the next request must be processed after any error
                self._fail(item, f"{type(error).__name__}: {error}")

    def _next(self) -> _Item | None:
        with self._wake:
            while not self._closed:
                if self._items and self._has_instances():
                    return self._items.popleft()
                self._wake.wait(_POLL_S if self._items else None)
            return None

    def _process(self, item: _Item) -> None:
        if time.time() > item.deadline:
            self._fail(item, "ClientError: The request expired in the queue before it was processed.")
            return
        s3 = self._clients.of_role(self._role, "s3", self._region)
        where = S3Location.parse(item.input)
        try:
            found = s3.get_object(Bucket=where.bucket, Key=where.key)
        except s3.exceptions.ClientError as error:
            code = error.response["Error"]["Code"]
            self._fail(item, f"ClientError: Failed to download the input {item.input}: {code}.")
            return
        if found["ContentLength"] > MAX_INPUT:
            self._fail(item, f"ClientError: The input {item.input} exceeds {MAX_INPUT} bytes.")
            return
        try:
            invocation = _invocation(item.request, found["Body"].read(), found.get("ContentType", ""))
            response = self._invoke(invocation, item.timeout)
        except AwsError as error:
            self._fail(item, f"{error.code}: {error.message}")
            return
        content = b"".join(response.body)
        if response.status != 200:
            self._fail(item, json.loads(content)["Message"])
            return
        headers = {name.lower(): value for name, value in response.headers}
        kind = headers.get("content-type", "application/octet-stream")
        self._write(item.output, content, kind)
        self._publish(item, "SuccessTopic", {"contentType": kind, "outputLocation": str(item.output)}, "")

    def _fail(self, item: _Item, reason: str) -> None:
        # The SDK reads the failure with the predictor's deserializer, whose own error may hide the reason.
        print(
            f"gpuproof: an asynchronous request of the endpoint {self._endpoint} failed: {reason}", flush=True
        )
        if item.failure is not None:
            self._write(item.failure, reason.encode(), "text/plain")
        self._publish(item, "ErrorTopic", None, reason)

    def _write(self, location: S3Location, content: bytes, kind: str) -> None:
        key = self.config["OutputConfig"].get("KmsKeyId")
        extra = {"ServerSideEncryption": "aws:kms", "SSEKMSKeyId": key} if key else {}
        s3 = self._clients.of_role(self._role, "s3", self._region)
        try:
            s3.put_object(Bucket=location.bucket, Key=location.key, Body=content, ContentType=kind, **extra)
        except s3.exceptions.ClientError as error:
            print(f"gpuproof: the endpoint {self._endpoint} could not write {location}: {error}", flush=True)

    def _publish(self, item: _Item, topic: str, result: Mapping[str, str] | None, reason: str) -> None:
        arn = (self.config["OutputConfig"].get("NotificationConfig") or {}).get(topic)
        if not arn:
            return
        message: dict[str, Any] = {
            "awsRegion": self._region,
            "eventTime": datetime.now(UTC).isoformat(),
            "receivedTime": datetime.fromtimestamp(item.received, UTC).isoformat(),
            "invocationStatus": "Failed" if result is None else "Completed",
            "requestParameters": {
                "contentType": item.request.header("x-amzn-sagemaker-content-type"),
                "endpointName": self._endpoint,
                "inputLocation": item.input,
            },
            "inferenceId": item.id,
            "eventVersion": "1.0",
            "eventSource": "aws:sagemaker",
            "eventName": "InferenceResult",
        }
        if result is None:
            message["failureReason"] = reason
        else:
            message["responseParameters"] = dict(result)
        sns = self._clients.of_role(self._role, "sns", self._region)
        try:
            sns.publish(TopicArn=arn, Message=json.dumps(message))
        except sns.exceptions.ClientError as error:
            print(f"gpuproof: the endpoint {self._endpoint} could not notify {arn}: {error}", flush=True)


def _invocation(request: AwsRequest, content: bytes, kind: str) -> AwsRequest:
    """The invocation that the container gets.

    Without ContentType, its content type is that of the object: the SDK's AsyncPredictor names the type only there
    (sagemaker 2.257.7, predictor_async.py).

    Args:
        kind: content type of the input in S3.
    """
    environ = {
        "REQUEST_METHOD": "POST",
        "PATH_INFO": request.path.replace("/async-invocations", "/invocations"),
        "CONTENT_TYPE": request.header("x-amzn-sagemaker-content-type") or kind,
        "HTTP_ACCEPT": request.header("x-amzn-sagemaker-accept"),
    }
    for name in ("CUSTOM_ATTRIBUTES", "INFERENCE_ID"):
        if value := request.environ.get(_HEADER + name):
            environ[_HEADER + name] = value
    return AwsRequest(environ, io.BytesIO(content), len(content), request.request_id)


def _seconds(request: AwsRequest, header: str, default: float) -> float:
    text = request.header(f"x-amzn-sagemaker-{header}")
    return float(text) if text else default
