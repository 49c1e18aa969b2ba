"""Multi-model endpoints: models below an S3 prefix are downloaded when they are first invoked, and loaded through `/models`.

Source: https://docs.aws.amazon.com/sagemaker/latest/dg/build-multi-model-build-container.html
"""

from __future__ import annotations

import hashlib
import json
import shutil
import threading
from collections import defaultdict
from http import HTTPStatus
from pathlib import Path
from typing import Any, Protocol

from gpuproof.agent.artifacts.archive_create import ArtifactError
from gpuproof.agent.artifacts.archive_extract import unpack
from gpuproof_emulator.execution.s3_sync import DownloadFailed, S3Location, download
from gpuproof_emulator.protocol import AwsError, AwsRequest, AwsResponse

_TARGET = "HTTP_X_AMZN_SAGEMAKER_TARGET_MODEL"


class ManagedContainer(Protocol):
    """A container whose server has the multi-model API."""

    @property
    def ml(self) -> Path:
        """Its `/opt/ml`."""
        ...

    def invoke(self, request: AwsRequest, timeout: float | None = None) -> AwsResponse:
        """Forward an invocation and return the container's response."""
        ...

    def call(self, method: str, path: str, body: bytes = b"") -> tuple[int, bytes]:
        """Send a request to its server; returns status and body."""
        ...

    def stop(self) -> None:
        """End the container and everything in it."""
        ...


class MultiModel:
    """A container with the models of a prefix.

    Args:
        container: the running container.
        s3: an S3 client.
        prefix: `ModelDataUrl` of the model.
        scratch: folder for archives.
    """

    def __init__(self, container: ManagedContainer, s3: Any, prefix: str, scratch: Path) -> None:
        self._container = container
        self._s3 = s3
        self._prefix = prefix
        self._scratch = scratch
        self._locks: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)
        self._loaded: set[str] = set()

    def invoke(self, request: AwsRequest, timeout: float | None = None) -> AwsResponse:
        """Forward an invocation to the model that it names, which is loaded first.

        Raises:
            AwsError: it names no model, or one that does not exist or cannot be loaded.
        """
        target = request.environ.get(_TARGET, "")
        if not target:
            raise AwsError("ValidationError", "TargetModel is required for a multi-model endpoint.")
        name = hashlib.sha256(target.encode()).hexdigest()[:32]
        request.environ[_TARGET] = name
        with self._locks[name]:
            # The server evicts models when memory is short.
            if name not in self._loaded or self._container.call("GET", f"/models/{name}")[0] != HTTPStatus.OK:
                self._load(name, target)
                self._loaded.add(name)
        return self._container.invoke(request, timeout)

    def stop(self) -> None:
        """End the container."""
        self._container.stop()

    def _load(self, name: str, target: str) -> None:
        folder = self._container.ml / "models" / name / "model"
        if name not in self._loaded:
            shutil.rmtree(folder.parent, ignore_errors=True)
            self._download(target, folder)
        body = {"model_name": name, "url": f"/opt/ml/models/{name}/model"}
        status, answer = self._container.call("POST", "/models", json.dumps(body).encode())
        if status in (HTTPStatus.OK, HTTPStatus.CONFLICT):
            return
        text = _error_text(answer)
        if status == HTTPStatus.INSUFFICIENT_STORAGE:
            raise AwsError(
                "ModelError", f"There is not enough memory to load the model {target}: {text}", 507
            )
        raise AwsError("ModelError", f"The model {target} could not be loaded ({status}): {text}", 424)

    def _download(self, target: str, folder: Path) -> None:
        location = S3Location.parse(self._prefix).below(target.lstrip("/"))
        archive = self._scratch / f"{folder.parent.name}.tar.gz"
        try:
            download(self._s3, location.bucket, {location.key: archive.name}, self._scratch)
            unpack(archive, folder)
        except (DownloadFailed, ArtifactError) as error:
            shutil.rmtree(folder.parent, ignore_errors=True)
            raise AwsError(
                "ValidationError",
                f"Failed to download model data(bucket: {location.bucket}, key: {location.key}). Please ensure that there is"
                " an object located at the URL and that the role passed to CreateModel has permissions to download the"
                " model.",
            ) from error
        finally:
            archive.unlink(missing_ok=True)


def _error_text(answer: bytes) -> str:
    """What a server says of an error: the member `error` of its JSON, or else the whole body."""
    text = answer.decode("utf-8", "replace")
    try:
        document = json.loads(text)
    except ValueError:
        return text
    return str(document.get("error", text)) if isinstance(document, dict) else text
