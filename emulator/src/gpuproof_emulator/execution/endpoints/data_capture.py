"""Data capture: requests to an endpoint and its responses, as JSON lines in S3.

Source: https://docs.aws.amazon.com/sagemaker/latest/dg/model-monitor-data-capture-endpoint.html
"""

from __future__ import annotations

import base64
import json
import random
import uuid
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from gpuproof_emulator.execution.s3_sync import S3Location
from gpuproof_emulator.protocol import AwsRequest, AwsResponse

_MODES = {"Input": ("INPUT",), "Output": ("OUTPUT",), "InputAndOutput": ("INPUT", "OUTPUT")}


class DataCapture:
    """Stores the share of the invocations that a configuration samples, each as a file with one line.

    Args:
        s3: an S3 client.
        config: `DataCaptureConfig` of an endpoint configuration.
        sample: returns a number from 0 to 1.
        clock: returns the time.
    """

    def __init__(
        self,
        s3: Any,
        config: Mapping[str, Any],
        sample: Callable[[], float] = random.random,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._s3 = s3
        self._config = config
        self._sample = sample
        self._clock = clock

    def capture(self, endpoint: str, variant: str, request: AwsRequest, response: AwsResponse) -> None:
        """Store an invocation, if it is sampled. Failures to store it do not fail the invocation."""
        if not self._config.get("EnableCapture", True):
            return
        if self._sample() * 100 >= self._config["InitialSamplingPercentage"]:
            return
        moment = self._clock()
        modes = [mode for item in self._config["CaptureOptions"] for mode in _MODES[item["CaptureMode"]]]
        data: dict[str, Any] = {}
        if "INPUT" in modes:
            kind = request.environ.get("CONTENT_TYPE", "")
            data["endpointInput"] = self._record("INPUT", kind, request.content())
        if "OUTPUT" in modes:
            headers = {name.lower(): value for name, value in response.headers}
            data["endpointOutput"] = self._record(
                "OUTPUT", headers.get("content-type", ""), b"".join(response.body)
            )
        metadata = {"eventId": str(uuid.uuid4()), "inferenceTime": f"{moment:%Y-%m-%dT%H:%M:%SZ}"}
        if inference_id := request.header("x-amzn-sagemaker-inference-id"):
            metadata["inferenceId"] = inference_id
        line = {"captureData": data, "eventMetadata": metadata, "eventVersion": "0"}
        self._store(self._key(endpoint, variant, moment, metadata["eventId"]), json.dumps(line) + "\n")

    def _record(self, mode: str, content_type: str, content: bytes) -> dict[str, str]:
        encoding = self._encoding(content_type)
        if encoding == "BASE64":
            data = base64.b64encode(content).decode()
        else:
            data = content.decode("utf-8", "replace")
        return {"observedContentType": content_type, "mode": mode, "data": data, "encoding": encoding}

    def _encoding(self, content_type: str) -> str:
        plain = content_type.partition(";")[0].strip()
        given = self._config.get("CaptureContentTypeHeader") or {}
        if plain in given.get("CsvContentTypes", ("text/csv",)):
            return "CSV"
        if plain in given.get("JsonContentTypes", ("application/json",)):
            return "JSON"
        return "BASE64"

    def _key(self, endpoint: str, variant: str, moment: datetime, event: str) -> S3Location:
        name = f"{moment:%M-%S}-{moment.microsecond // 1000:03d}-{event}.jsonl"
        return S3Location.parse(self._config["DestinationS3Uri"]).below(
            endpoint, variant, f"{moment:%Y/%m/%d/%H}", name
        )

    def _store(self, location: S3Location, text: str) -> None:
        key = self._config.get("KmsKeyId")
        extra = {"ServerSideEncryption": "aws:kms", "SSEKMSKeyId": key} if key else {}
        try:
            self._s3.put_object(Bucket=location.bucket, Key=location.key, Body=text.encode(), **extra)
        except self._s3.exceptions.ClientError as error:
            print(f"gpuproof: data capture could not write {location}: {error}", flush=True)
