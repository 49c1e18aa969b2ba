"""The GPUs of instances, by the catalogue."""

from __future__ import annotations

from collections.abc import Sequence

from gpuproof.account.cleanup.resource import Fleet
from gpuproof.catalogue import Catalogue

_GPU_FAMILIES = ("g", "p")
"""First letters of the families with NVIDIA GPUs: an unknown type of another family has none.

Source: https://docs.aws.amazon.com/ec2/latest/instancetypes/instance-type-names.html
"""


def may_have_gpu(catalogue: Catalogue, fleets: Sequence[Fleet]) -> bool:
    """Whether one of the types has a GPU, or is unknown and of a family with GPUs."""
    return bool(with_gpu(catalogue, fleets))


def with_gpu(catalogue: Catalogue, fleets: Sequence[Fleet]) -> list[Fleet]:
    """The instances whose type has a GPU, or is unknown and of a family with GPUs."""
    return [fleet for fleet in fleets if _may_have_gpu(catalogue, fleet.instance_type)]


def gpus_each(catalogue: Catalogue, fleets: Sequence[Fleet]) -> int | None:
    """GPUs of each instance that has some; None if a type is unknown, or the types differ in it."""
    counts = {_gpu_count(catalogue, fleet.instance_type) for fleet in with_gpu(catalogue, fleets)}
    return counts.pop() if len(counts) == 1 else None


def gpus_of(catalogue: Catalogue, fleets: Sequence[Fleet]) -> int | None:
    """GPUs of all instances; None if a type is unknown."""
    total = 0
    for fleet in fleets:
        count = _gpu_count(catalogue, fleet.instance_type)
        if count is None:
            return None
        total += count * fleet.count
    return total if fleets else None


def gpu_name(catalogue: Catalogue, fleets: Sequence[Fleet]) -> str | None:
    """The model of the GPUs, or the models joined by ` + `; None if they are unknown."""
    found = [catalogue.instance(fleet.instance_type) for fleet in fleets]
    models = dict.fromkeys(known.gpu_model for known in found if known is not None and known.gpu_model)
    return " + ".join(models) or None


def _may_have_gpu(catalogue: Catalogue, name: str) -> bool:
    known = catalogue.instance(name)
    return name.removeprefix("ml.").startswith(_GPU_FAMILIES) if known is None else known.gpu_count > 0


def _gpu_count(catalogue: Catalogue, name: str) -> int | None:
    known = catalogue.instance(name)
    return None if known is None else known.gpu_count
