"""SageMaker's own resources: documents in memory, each with a file that is replaced atomically on every change."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Callable, Generator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

from gpuproof.util.atomic import write_bytes
from gpuproof_emulator.protocol import ACCOUNT

TRAINING, PROCESSING, TRANSFORM = "training-job", "processing-job", "transform-job"
MODEL, ENDPOINT_CONFIG, ENDPOINT = "model", "endpoint-config", "endpoint"
NOTEBOOK, LIFECYCLE_CONFIG = "notebook-instance", "notebook-instance-lifecycle-config"
APP = "app"
PIPELINE_EXECUTION = "pipeline-execution"
KINDS = (TRAINING, PROCESSING, TRANSFORM, MODEL, ENDPOINT_CONFIG, ENDPOINT, NOTEBOOK, LIFECYCLE_CONFIG, APP)
"""The kinds of resources that the emulator itself has."""


@dataclass
class Resource:
    """One SageMaker resource.

    Args:
        kind: such as `training-job`, as in its ARN.
        region: where it lives.
        name: unique among its kind in the region.
        document: the output of its Describe operation; times are seconds since the epoch.
        tags: by key.
        extra: further state of the emulator, which no operation returns.
    """

    kind: str
    region: str
    name: str
    document: dict[str, Any]
    tags: dict[str, str] = field(default_factory=dict)
    extra: dict[str, Any] = field(default_factory=dict)

    @property
    def arn(self) -> str:
        """The resource's ARN."""
        return resource_arn(self.kind, self.region, self.name)


class Store:
    """All resources. Thread-safe: reads see a consistent snapshot, and changes are atomic.

    Args:
        folder: where the files are; created if necessary.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._changed = threading.Condition(threading.RLock())
        self._resources: dict[tuple[str, str, str], Resource] = {}
        for path in sorted(folder.glob("*/*/*.json")):
            resource = Resource(**json.loads(path.read_text(encoding="utf-8")))
            self._resources[_key(resource)] = resource

    def get(self, kind: str, region: str, name: str) -> Resource | None:
        """One resource, or None if it does not exist."""
        with self._changed:
            return self._resources.get((kind, region, name))

    def all(self, kind: str | None = None, region: str | None = None) -> list[Resource]:
        """All resources of a kind and region, in the order of their creation."""
        with self._changed:
            return [
                resource
                for resource in self._resources.values()
                if kind in (None, resource.kind) and region in (None, resource.region)
            ]

    def add(self, resource: Resource) -> bool:
        """Add a new resource; returns false if one with that name already exists."""
        with self._changed:
            if _key(resource) in self._resources:
                return False
            self._resources[_key(resource)] = resource
            self._write(resource)
            return True

    @contextlib.contextmanager
    def locked(self) -> Generator[None]:
        """Keep other threads from changing anything between a check and the change that depends on it."""
        with self._changed:
            yield

    @contextlib.contextmanager
    def modify(self, resource: Resource) -> Generator[Resource]:
        """Change a resource atomically and write it to disk."""
        with self._changed:
            yield resource
            if "LastModifiedTime" in resource.document:
                resource.document["LastModifiedTime"] = time.time()
            # It may have been deleted meanwhile.
            if self._resources.get(_key(resource)) is resource:
                self._write(resource)
            self._changed.notify_all()

    def remove(self, resource: Resource) -> None:
        """Delete a resource."""
        with self._changed:
            self._resources.pop(_key(resource), None)
            self._path(resource).unlink(missing_ok=True)
            self._changed.notify_all()

    def clear(self) -> None:
        """Delete all resources."""
        with self._changed:
            for resource in list(self._resources.values()):
                self._path(resource).unlink(missing_ok=True)
            self._resources.clear()
            self._changed.notify_all()

    def wait_for(self, condition: Callable[[], bool], seconds: float) -> bool:
        """Wait until a condition on the resources holds; returns whether it does."""
        with self._changed:
            return self._changed.wait_for(condition, seconds)

    def _write(self, resource: Resource) -> None:
        path = self._path(resource)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_bytes(path, json.dumps(asdict(resource)).encode())

    def _path(self, resource: Resource) -> Path:
        return self._folder / resource.region / resource.kind / f"{quote(resource.name, safe='')}.json"


def resource_arn(kind: str, region: str, name: str) -> str:
    """The ARN of a resource in the partition of its region."""
    partition = (
        "aws-cn" if region.startswith("cn-") else "aws-us-gov" if region.startswith("us-gov-") else "aws"
    )
    return f"arn:{partition}:sagemaker:{region}:{ACCOUNT}:{kind}/{name}"


def _key(resource: Resource) -> tuple[str, str, str]:
    return resource.kind, resource.region, resource.name
