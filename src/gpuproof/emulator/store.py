"""SageMaker's own resources: documents in memory, each with a file that is replaced whole on every change."""

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


@dataclass
class Resource:
    """One resource of SageMaker.

    Args:
        kind: such as `training-job`, as in its ARN.
        region: where it lives.
        name: unique among its kind in the region.
        document: what its Describe operation answers; times are seconds since the epoch.
        tags: by key.
        extra: what the emulator remembers beside it and never tells.
    """

    kind: str
    region: str
    name: str
    document: dict[str, Any]
    tags: dict[str, str] = field(default_factory=dict)
    extra: dict[str, Any] = field(default_factory=dict)


class Store:
    """All resources. Safe for threads: what is read is a snapshot of a moment, what is changed is changed at once.

    Args:
        folder: where the files lie; made if need be.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._changed = threading.Condition(threading.RLock())
        self._resources: dict[tuple[str, str, str], Resource] = {}
        for path in sorted(folder.glob("*/*/*.json")):
            resource = Resource(**json.loads(path.read_text(encoding="utf-8")))
            self._resources[_key(resource)] = resource

    def get(self, kind: str, region: str, name: str) -> Resource | None:
        """One resource, if it is there."""
        with self._changed:
            return self._resources.get((kind, region, name))

    def all(self, kind: str | None = None, region: str | None = None) -> list[Resource]:
        """All resources of a kind and region, in the order in which they were made."""
        with self._changed:
            return [
                resource
                for resource in self._resources.values()
                if kind in (None, resource.kind) and region in (None, resource.region)
            ]

    def add(self, resource: Resource) -> bool:
        """Take a new resource in; false if one of that name is there already."""
        with self._changed:
            if _key(resource) in self._resources:
                return False
            self._resources[_key(resource)] = resource
            self._write(resource)
            return True

    @contextlib.contextmanager
    def at_once(self) -> Generator[None]:
        """What is looked up within this still holds for what is added within it."""
        with self._changed:
            yield

    @contextlib.contextmanager
    def changing(self, resource: Resource) -> Generator[Resource]:
        """Change a resource: nobody sees it half changed, and it is on disk afterwards."""
        with self._changed:
            yield resource
            if "LastModifiedTime" in resource.document:
                resource.document["LastModifiedTime"] = time.time()
            # Somebody may have deleted it meanwhile.
            if self._resources.get(_key(resource)) is resource:
                self._write(resource)
            self._changed.notify_all()

    def remove(self, resource: Resource) -> None:
        """Forget a resource."""
        with self._changed:
            self._resources.pop(_key(resource), None)
            self._path(resource).unlink(missing_ok=True)
            self._changed.notify_all()

    def wait_for(self, condition: Callable[[], bool], seconds: float) -> bool:
        """Wait until a condition on the resources holds; whether it does."""
        with self._changed:
            return self._changed.wait_for(condition, seconds)

    def _write(self, resource: Resource) -> None:
        path = self._path(resource)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_bytes(path, json.dumps(asdict(resource)).encode())

    def _path(self, resource: Resource) -> Path:
        return self._folder / resource.region / resource.kind / f"{quote(resource.name, safe='')}.json"


def _key(resource: Resource) -> tuple[str, str, str]:
    return resource.kind, resource.region, resource.name
