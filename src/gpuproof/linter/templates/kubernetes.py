"""Reads the pods of Kubernetes manifests, in whatever kind of object they are: pods, jobs, deployments, Kubeflow's jobs, Ray's."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from gpuproof.linter.analysis.values import ABSENT, Value
from gpuproof.linter.source.span import Span, Unit

GPU = "nvidia.com/gpu"
_SLICE = re.compile(r"nvidia\.com/|gpu|vcuda|\bmig-", re.IGNORECASE)
"""Resources that are a GPU or a part of one, of any device plugin."""
INSTANCE_TYPE = ("node.kubernetes.io/instance-type", "beta.kubernetes.io/instance-type")
_MAX_DEPTH = 24


@dataclass(frozen=True, eq=False)
class Pod:
    """The pod that an object describes.

    Args:
        kind: the kind of the object: `Job`, `PyTorchJob`.
        name: the name of the object; empty if it has none.
        path: the keys that lead to the pod: `spec`, `template`, `spec`.
        manifest: the object.
        spec: the specification of the pod.
    """

    kind: str
    name: str
    path: tuple[str, ...]
    manifest: Value
    spec: Value

    @property
    def containers(self) -> list[Value]:
        """Its containers, without those that only prepare it."""
        return [item for item in self.spec.at("containers").items or () if item.entries is not None]

    @property
    def title(self) -> str:
        """The object for messages: `Job train`."""
        return f"{self.kind} {self.name}".strip()

    @property
    def gpus(self) -> Value:
        """The GPUs of all containers together; unknown if one of them is."""
        limits = [gpu_limit(container) for container in self.containers]
        numbers = [limit.number for limit in limits if not limit.is_absent]
        first = next((limit for limit in limits if not limit.is_absent), ABSENT)
        if any(number is None for number in numbers):
            return Value("unknown", (), first.span)
        return Value("known", (int(sum(number or 0 for number in numbers)),), first.span)

    @property
    def asks_for_gpus(self) -> bool:
        """Whether it asks for a GPU or a part of one in any way; true in doubt."""
        listed = (*self.containers, *(self.spec.at("initContainers").items or ()))
        return (
            any(not slice_limit(container).is_absent or _is_open(container) for container in listed)
            or not self.spec.at("resourceClaims").is_absent
            or not self.spec.at("resources").is_absent
        )

    def instance_types(self) -> Value:
        """The instance types of the nodes that it may run on, as the options of one value; absent if it does not say."""
        selected = self.spec.at("nodeSelector")
        for label in INSTANCE_TYPE:
            if not selected.at(label).is_absent:
                return selected.at(label)
        terms = self.spec.at(
            "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms"
        )
        if terms.items is None or len(terms.items) != 1:
            return ABSENT
        for expression in terms.items[0].at("matchExpressions").items or ():
            values = expression.at("values").items or ()
            if (
                expression.at("key").text in INSTANCE_TYPE
                and expression.at("operator").text == "In"
                and values
            ):
                texts = tuple(value.text for value in values if value.text is not None)
                return Value("known", texts, values[0].span)
        return ABSENT


def pods(unit: Unit) -> list[Pod]:
    """The pods of a manifest, in order; those of objects in a `List`, too."""
    from gpuproof.linter.templates import cloudformation  # yaml: only where such a file is

    return [pod for manifest in cloudformation.documents(unit) for pod in _of_object(manifest, 0)]


def gpu_limit(container: Value) -> Value:
    """The limit of whole GPUs of a container, as a number; absent without one."""
    limit = container.at("resources", "limits", GPU)
    if limit.is_absent:
        return container.at("resources", "requests", GPU)
    return as_number(limit)


def slice_limit(container: Value) -> Value:
    """The limit of GPUs or of parts of them; absent without one."""
    for kind in ("limits", "requests"):
        for name, value in container.at("resources", kind).parts.items():
            if _SLICE.search(str(name)):
                return as_number(value)
    return ABSENT if container.at("resources", "claims").is_absent else Value("unknown")


def as_number(value: Value) -> Value:
    """A quantity, which may be written as a text: `"1"`; unknown if a tool has yet to fill it in."""
    if value.text is not None and value.text.isdigit():
        return Value(value.certainty, (int(value.text),), value.span)
    if value.text is not None and ("{" in value.text or "$" in value.text):
        return Value("unknown", (), value.span)
    return value


def texts_of(value: Value) -> list[str]:
    """The words of `command` or `args`; an unknown one as `$(...)`."""
    return [str(item.value) if item.is_known else "$(...)" for item in value.items or ()]


def span_of(pod: Pod, unit: Unit) -> Span:
    """Where a pod's object is named."""
    return pod.manifest.at("metadata", "name").span or pod.manifest.at("kind").span or unit.span(1)


def _is_open(container: Value) -> bool:
    """Whether another tool completes a container: a patch of Kustomize has no image."""
    resources = container.at("resources")
    return container.at("image").is_absent or (resources.text is not None and "{" in resources.text)


def _of_object(manifest: Value, depth: int) -> Iterator[Pod]:
    if manifest.at("kind").text == "List" and depth < _MAX_DEPTH:
        for item in manifest.at("items").items or ():
            yield from _of_object(item, depth + 1)
        return
    kind = manifest.at("kind").text
    if kind is None or manifest.at("apiVersion").text is None:
        return
    name = manifest.at("metadata", "name").text or manifest.at("metadata", "generateName").text or ""
    for path, spec in _specs(manifest, (), 0):
        yield Pod(kind, name.rstrip("-"), path, manifest, spec)


def _specs(value: Value, path: tuple[str, ...], depth: int) -> Iterator[tuple[tuple[str, ...], Value]]:
    """The mappings below a value that are specifications of pods: they have a list of containers with names."""
    if depth > _MAX_DEPTH:
        return
    if value.items is not None:
        for item in value.items:
            yield from _specs(item, path, depth + 1)
        return
    if value.entries is None:
        return
    listed = value.at("containers").items
    if listed and all(item.entries is not None and not item.at("name").is_absent for item in listed):
        yield path, value
        return
    for key, inner in value.entries.items():
        yield from _specs(inner, (*path, str(key)), depth + 1)
