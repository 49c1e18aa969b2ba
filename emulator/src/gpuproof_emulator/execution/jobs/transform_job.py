"""Runs one batch transform job: model containers, the objects of the input, and their results in S3.

Sources: https://docs.aws.amazon.com/sagemaker/latest/dg/batch-transform.html and
https://docs.aws.amazon.com/sagemaker/latest/dg/your-algorithms-batch-code.html
"""

from __future__ import annotations

import gzip
import io
import itertools
import json
import threading
import time
import zlib
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpuproof_emulator.context import Context
from gpuproof_emulator.execution.endpoints.container_spec import (
    STARTUP_TIMEOUT_S,
    ContainerSpec,
    ServingFailed,
    model_data,
)
from gpuproof_emulator.execution.endpoints.invocations import ModelResponse
from gpuproof_emulator.execution.endpoints.model_server import GPUproofServer
from gpuproof_emulator.execution.jobs.job_control import SHUT_DOWN, JobControl, JobFailed
from gpuproof_emulator.execution.jobs.startup_faults import apply_startup_faults
from gpuproof_emulator.execution.jobs.transform_records import TooLarge, assemble, split_object
from gpuproof_emulator.execution.log_shipper import LogStream
from gpuproof_emulator.execution.s3_sync import DownloadFailed, S3Location, list_prefix, read_manifest
from gpuproof_emulator.protocol import AwsError, AwsRequest, now
from gpuproof_emulator.store import MODEL, Resource

LOG_GROUP = "/aws/sagemaker/TransformJobs"
_INVOCATION_S = 600.0
_POLL_S = 0.2
_SEE_LOGS = "{kind}: See job logs for more information"
_DEFAULTS: dict[str, Any] = {
    "MaxConcurrentTransforms": 1,
    "MaxPayloadInMB": 6,
    "BatchStrategy": "MULTI_RECORD",
}
"""What holds if neither the request nor the container's `/execution-parameters` say otherwise."""


@dataclass(frozen=True)
class _Parameters:
    concurrency: int
    payload_mb: int
    strategy: str


class TransformJobRun:
    """Runs one batch transform job.

    Args:
        context: the emulator's shared state.
        job: the new job.
        control: requests to the job from other threads.
        folder: for its instances' disks.
    """

    def __init__(self, context: Context, job: Resource, control: JobControl, folder: Path) -> None:
        self._context = context
        self._job = job
        self._document = job.document
        self._control = control
        self._folder = folder
        model = context.store.get(MODEL, job.region, job.document["ModelName"])
        self._role = None if model is None else model.document.get("ExecutionRoleArn")
        self._s3 = context.clients.of_role(self._role, "s3", job.region)
        self._server = GPUproofServer(context)
        self._failure: Exception | None = None
        self._log: LogStream | None = None
        self._numbers = itertools.count()

    def run(self) -> None:
        """Run the job to its end, and record its status."""
        try:
            apply_startup_faults(
                self._context,
                self._control,
                self._job.name,
                self._document["TransformResources"]["InstanceType"],
            )
            worker = threading.Thread(target=self._work, name=f"{self._job.name} transform", daemon=True)
            worker.start()
            while worker.is_alive() and not self._ending:
                self._control.sleep(_POLL_S)
            if self._ending:
                self._server.shutdown()
            worker.join()
            status, reason = self._outcome()
        except JobFailed as error:
            status, reason = "Failed", str(error)
        finally:
            self._server.shutdown()
        with self._context.store.modify(self._job):
            if reason:
                self._document["FailureReason"] = reason[:1024]
            self._document["TransformEndTime"] = now()
            self._document["TransformJobStatus"] = status

    @property
    def _ending(self) -> bool:
        return self._control.stop_requested or self._control.shut_down

    def _outcome(self) -> tuple[str, str]:
        if self._control.shut_down:
            return "Failed", SHUT_DOWN
        if self._control.stop_requested:
            return "Stopped", ""
        if self._failure is None:
            return "Completed", ""
        if isinstance(self._failure, JobFailed):
            return "Failed", str(self._failure)
        raise self._failure

    def _work(self) -> None:
        try:
            self._transform()
        except Exception as error:  # noqa: BLE001 - the job's own thread decides what it means
            self._failure = error

    def _transform(self) -> None:
        bucket, keys = self._input()
        with self._context.store.modify(self._job):
            self._document["TransformStartTime"] = now()
        containers = self._start_containers()
        self._log = LogStream(
            self._context.clients.of_role(self._role, "logs", self._job.region),
            LOG_GROUP,
            f"{self._job.name}/data-log",
        )
        parameters = self._parameters(containers[0])
        self._write_log(
            f"[sagemaker logs]: MaxConcurrentTransforms={parameters.concurrency},"
            f" MaxPayloadInMB={parameters.payload_mb}, BatchStrategy={parameters.strategy}"
        )
        with ThreadPoolExecutor(parameters.concurrency * len(containers)) as pool:
            for key, path in keys.items():
                if self._ending:
                    return
                self._transform_object(pool, containers, parameters, S3Location(bucket, key), path)

    def _input(self) -> tuple[str, dict[str, str]]:
        source = self._document["TransformInput"]["DataSource"]["S3DataSource"]
        location = S3Location.parse(source["S3Uri"])
        try:
            if source["S3DataType"] == "ManifestFile":
                return read_manifest(self._s3, location)
            return location.bucket, list_prefix(self._s3, location)
        except DownloadFailed as error:
            raise JobFailed(f"ClientError: {error}") from error

    def _start_containers(self) -> list[Any]:
        model = self._context.store.get(MODEL, self._job.region, self._document["ModelName"])
        if model is None:
            raise JobFailed(f"ClientError: The model {self._document['ModelName']} no longer exists.")
        (container,) = model.document.get("Containers") or [model.document["PrimaryContainer"]]
        started: list[Any] = []
        for number in range(self._document["TransformResources"]["InstanceCount"]):
            spec = ContainerSpec(
                endpoint=self._job.name,
                variant="AllTraffic",
                region=self._job.region,
                image=container.get("Image", ""),
                model_data=model_data(container),
                environment=self._environment(container),
                role=model.document.get("ExecutionRoleArn"),
                folder=self._folder / f"instance-{number}",
                isolated=bool(model.document.get("EnableNetworkIsolation")),
                startup_timeout=STARTUP_TIMEOUT_S,
                log_group=LOG_GROUP,
                instance_type=self._document["TransformResources"]["InstanceType"],
            )
            try:
                started.append(self._server.start(spec))
            except ServingFailed as error:
                raise JobFailed(f"AlgorithmError: {error}") from error
        return started

    def _environment(self, container: Mapping[str, Any]) -> dict[str, str]:
        return {
            **(container.get("Environment") or {}),
            **(self._document.get("Environment") or {}),
            "SAGEMAKER_BATCH": "true",
        }

    def _parameters(self, container: Any) -> _Parameters:
        found = dict(_DEFAULTS)
        status, body = container.call("GET", "/execution-parameters")
        if status == 200:
            found.update(json.loads(body))
        found.update({name: value for name in _DEFAULTS if (value := self._document.get(name)) is not None})
        strategy = str(found["BatchStrategy"]).replace("_", "").lower()
        return _Parameters(
            max(1, int(found["MaxConcurrentTransforms"])),
            int(found["MaxPayloadInMB"]),
            "SingleRecord" if strategy == "singlerecord" else "MultiRecord",
        )

    def _transform_object(
        self,
        pool: ThreadPoolExecutor,
        containers: list[Any],
        parameters: _Parameters,
        source: S3Location,
        path: str,
    ) -> None:
        split = self._document["TransformInput"].get("SplitType", "None")
        try:
            content = self._read(source)
            bodies = list(split_object(content, split, parameters.strategy, parameters.payload_mb))
        except TooLarge as error:
            self._write_log(f"[sagemaker logs]: {source.bucket}/{source.key}: {error}")
            raise JobFailed(_SEE_LOGS.format(kind="ClientError")) from error
        chosen = [containers[next(self._numbers) % len(containers)] for _ in bodies]
        results = list(pool.map(self._invoke, chosen, bodies, [source] * len(bodies)))
        output = self._document["TransformOutput"]
        target = S3Location.parse(output["S3OutputPath"]).below(f"{path}.out")
        key = output.get("KmsKeyId")
        extra = {"ServerSideEncryption": "aws:kms", "SSEKMSKeyId": key} if key else {}
        body = assemble(results, output.get("AssembleWith", "None"))
        self._s3.put_object(Bucket=target.bucket, Key=target.key, Body=body, **extra)

    def _read(self, source: S3Location) -> bytes:
        try:
            content = self._s3.get_object(Bucket=source.bucket, Key=source.key)["Body"].read()
        except self._s3.exceptions.ClientError as error:
            raise JobFailed(f"ClientError: {source}: {error.response['Error']['Code']}") from error
        if self._document["TransformInput"].get("CompressionType") != "Gzip":
            return content
        try:
            return gzip.decompress(content)
        except (OSError, EOFError, zlib.error) as error:
            raise JobFailed(f"ClientError: {source} is not a gzip file") from error

    def _invoke(self, container: Any, body: bytes, source: S3Location) -> bytes:
        config = self._document.get("ModelClientConfig") or {}
        timeout = float(config.get("InvocationsTimeoutInSeconds", _INVOCATION_S))
        environ = {
            "REQUEST_METHOD": "POST",
            "PATH_INFO": "/invocations",
            "CONTENT_TYPE": self._document["TransformInput"].get("ContentType", ""),
            "HTTP_ACCEPT": self._document["TransformOutput"].get("Accept", ""),
        }
        status, text = 0, "the container did not respond in time"
        for _ in range(1 + config.get("InvocationsMaxRetries", 0)):
            if self._ending:
                break
            try:
                response = container.invoke(AwsRequest(environ, io.BytesIO(body), len(body)), timeout)
            except AwsError as error:
                status, text = error.status, error.message
                continue
            content = b"".join(response.body)
            if response.status == 200:
                return content
            status = response.model_status if isinstance(response, ModelResponse) else response.status
            text = json.loads(content)["OriginalMessage"] or text
            if 400 <= status < 500:
                break
        self._write_log(
            f"[sagemaker logs]: {source.bucket}/{source.key}: Bad HTTP status received from algorithm: {status}"
        )
        self._write_log(f"[sagemaker logs]: {source.bucket}/{source.key}: {text}")
        raise JobFailed(_SEE_LOGS.format(kind="ClientError" if 400 <= status < 500 else "AlgorithmError"))

    def _write_log(self, line: str) -> None:
        if self._log is not None:
            moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime())
            self._log.add(f"{moment}:{line}".encode())
            self._log.flush()
