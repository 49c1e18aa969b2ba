"""Values that steps read from the results of commands."""

from __future__ import annotations

import json
import re
from datetime import datetime
from typing import Any

from acceptance.facts import cuda_of_tag
from acceptance.step import Document, Result


def has_resource(result: Result, kind: str, name: str) -> bool:
    """Whether `gpuproof cleanup` lists it."""
    return any(
        resource["kind"] == kind and resource["id"] == name for resource in result.document["resources"]
    )


def notebook_named(result: Result, name: str) -> Document:
    """An entry of `gpuproof notebook list`."""
    return next(notebook for notebook in result.document["notebooks"] if notebook["name"] == name)


def start_seconds(result: Result) -> float:
    """Seconds from the request to the script."""
    created, started = (
        datetime.fromisoformat(result.document["run"][key]) for key in ("created", "script_started")
    )
    return round((started - created).total_seconds(), 1)


def machine_driver(result: Result) -> Document:
    """The driver of a host, and what depends on it."""
    machine = result.machine
    names = ("driver", "cuda", "compat", "library_path", "torch", "gpu", "os", "kernel")
    return {name: machine.get(name) for name in names}


def training_driver(result: Result) -> Document:
    """The same of a training host, with the tag of its image."""
    tag = tag_of(result.earlier["sagemaker"]["run"]["image"])
    return {**machine_driver(result), "tag": tag, "cuda": result.machine.get("cuda") or cuda_of_tag(tag)}


def printed_by_handler(result: Result) -> Document:
    """What the handler has printed about its host."""
    found = re.search(r"acceptance: host (\{.*\})", result.errors)
    return json.loads(found[1]) if found else {}


def tag_of(image: str) -> str:
    """The tag of an image's address."""
    return image.rpartition(":")[2]


def member(value: Any, name: str) -> Any:
    """The value of a member anywhere in a JSON document; None if there is none."""
    children = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    if isinstance(value, dict) and name in value:
        return value[name]
    return next((found for child in children if (found := member(child, name)) is not None), None)
