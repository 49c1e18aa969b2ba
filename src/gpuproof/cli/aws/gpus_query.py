"""What the arguments of `gpuproof gpus` ask for: names, regions and filters."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from gpuproof.catalogue import Build, Catalogue, Instance, InstanceQuery
from gpuproof.catalogue.names import reject_unknown_region, reject_unknown_type
from gpuproof.catalogue.search import matching_gpus
from gpuproof.errors import UsageError
from gpuproof.units import CountRange, GpuRequest, MemoryRange, Money
from gpuproof.util.spelling import nearest_words

ALL_REGIONS = "all"

BYTES = {
    "fp32": 4.0,
    "fp16": 2.0,
    "bf16": 2.0,
    "fp8": 1.0,
    "int8": 1.0,
    "int4": 0.5,
    "fp4": 0.5,
    "adam": 16.0,
}
"""Bytes a parameter; `adam`: weights, gradients and Adam's states in mixed precision (ZeRO, arXiv:1910.02054)."""

_SCALES = {"M": 10**6, "B": 10**9, "T": 10**12}


class Named(NamedTuple):
    """What the positional arguments name.

    Attributes:
        types: instance types.
        gpus: names of GPUs, with their counts, as in `--gpu`.
        families: EC2 families.
    """

    types: tuple[Instance, ...] = ()
    gpus: tuple[str, ...] = ()
    families: tuple[str, ...] = ()


def parse_names(words: Sequence[str], catalogue: Catalogue) -> Named:
    """Returns what the words name. Raises UsageError for an unknown name, with the nearest ones."""
    types: list[Instance] = []
    gpus: list[str] = []
    families: list[str] = []
    known_families = {gpu_instance.family for gpu_instance in catalogue.tables.gpu_instances.values()}
    for word in words:
        if (instance := catalogue.instance(word)) is not None:
            types.append(instance)
        elif word.removeprefix("ml.") in known_families:
            families.append(word.removeprefix("ml."))
        elif matching_gpus((word.partition(":")[0],), catalogue.tables.gpus.values()):
            gpus.append(word)
        else:
            raise unknown_name(word, catalogue)
    if types and (gpus or families):
        raise UsageError(
            f"{types[0].name} is one instance type, and the other names select several.",
            remedy=f"gpuproof gpus {types[0].name}",
        )
    return Named(tuple(types), tuple(gpus), tuple(families))


def unknown_name(word: str, catalogue: Catalogue) -> UsageError:
    """The error for a name that is no instance type, family or GPU."""
    if "." in word:
        reject_unknown_type(word, catalogue)
    families = {gpu_instance.family for gpu_instance in catalogue.tables.gpu_instances.values()}
    offered = {item.family for item in catalogue.tables.gpu_instances.values() if item.status == "offered"}
    longer = sorted(family for family in offered if len(word) > 1 and family.startswith(word.lower()))
    near = longer or nearest_words(word, ["show", *catalogue.tables.gpus, *families], 3, cutoff=0.5)
    near = [item for item in near if item != "show"] if near[:1] != ["show"] else ["show"]
    remedy = (
        f"Did you mean {' or '.join(near)}?"
        if near
        else "`gpuproof gpus` lists the types with GPUs; `gpuproof catalogue refresh` adds new ones."
    )
    return UsageError(f"Unknown GPU {word}: no AWS instance type has one.", remedy=remedy)


def parse_regions(given: Sequence[str] | None, catalogue: Catalogue) -> list[str]:
    """Returns the regions of `--region us-east-1,eu-west-1`, each once. Raises UsageError for an unknown one."""
    words = [word.strip() for text in given or () for word in text.split(",")]
    if ALL_REGIONS in words:
        return list(catalogue.tables.priced_regions)
    for word in words:
        reject_unknown_region(word, catalogue)
    return list(dict.fromkeys(words))


def parse_query(
    arguments: argparse.Namespace, named: Named, regions: Sequence[str], catalogue: Catalogue
) -> tuple[list[InstanceQuery], list[str]]:
    """Returns one query per region (or one without a region), and warnings."""
    warnings: list[str] = []
    text = _joined([*([arguments.gpu] if arguments.gpu else []), *named.gpus])
    asked = GpuRequest.parse(text) if text else None
    names = asked.names if asked else ()
    counted = asked is not None and (":" in text or not names)
    count = asked.count if asked and counted else None
    if arguments.count:
        count = CountRange.parse(arguments.count)
    for name in names:
        if not matching_gpus((name,), catalogue.tables.gpus.values()):
            raise unknown_name(name, catalogue)
    if arguments.use and arguments.on == "ec2":
        raise UsageError(
            f"--for {arguments.use} selects SageMaker, which contradicts --on ec2.",
            remedy="Remove one of them.",
        )
    query = InstanceQuery(
        gpus=names,
        families=named.families,
        gpu_memory=_memory(arguments.gpu_memory, "--gpu-memory", warnings),
        total_gpu_memory=_memory(arguments.total_gpu_memory, "--total-gpu-memory", warnings),
        fits=_weights(arguments.fits, warnings) if arguments.fits else None,
        count=count,
        service=arguments.on,
        use=arguments.use,
        max_price=float(Money.parse(arguments.max_price).usd) if arguments.max_price else None,
        market="spot" if arguments.spot else "on-demand",
        arch=arguments.arch,
        builds=_builds(arguments.framework, catalogue, warnings) if arguments.framework else (),
        include_retired=arguments.include_retired,
    )
    return [replace(query, region=region) for region in regions] or [query], warnings


def _joined(requests: Sequence[str]) -> str:
    """`A10G:4` and `L4:4` as `A10G,L4:4`; several counts stay, and are rejected by the parser."""
    names, counts = (
        zip(*(request.partition(":")[::2] for request in requests), strict=True) if requests else ((), ())
    )
    if len(set(filter(None, counts))) > 1:
        return ",".join(requests)
    return ",".join(names) + next((f":{count}" for count in counts if count), "")


def _memory(text: str | None, flag: str, warnings: list[str]) -> MemoryRange | None:
    if text is None:
        return None
    ends = text.strip().split("..")
    with_unit = "..".join(re.sub(r"^(\d+(?:\.\d+)?)(\+?)$", r"\1GB\2", end.strip()) for end in ends)
    if re.fullmatch(r"\d+(\.\d+)?", text.strip()):
        warnings.append(f"{flag} {text} selects {text} GB exactly; {flag} {text}+ includes more.")
    return MemoryRange.parse(with_unit)


def _weights(text: str, warnings: list[str]) -> int:
    """Bytes of the weights of `70B@bf16`."""
    match = re.fullmatch(r"([\d.]+)([MBT])(?:@(\w+))?", text.strip(), re.IGNORECASE)
    dtype = (match[3] or "bf16").lower() if match else ""
    try:
        parameters = float(match[1]) * _SCALES[match[2].upper()] if match else 0.0
    except ValueError:
        parameters = 0.0
    if match is None or not parameters or dtype not in BYTES:
        near = nearest_words(dtype, BYTES) if match and parameters else []
        raise UsageError(
            f"--fits {text} is not a number of parameters and a data type.",
            remedy=f"Did you mean {match[1]}{match[2]}@{near[0]}?"
            if match and near
            else f"Write, for example, 70B@bf16 or 500M@fp32; the types are {', '.join(BYTES)}.",
        )
    size = int(parameters * BYTES[dtype])
    what = "weights, gradients and Adam's states" if dtype == "adam" else "weights"
    rest = "activations" if dtype == "adam" else "caches and activations"
    warnings.append(
        f"--fits {text}: {size / 1e9:,.4g} GB of {what}, 10 % and 0.5 GiB a GPU on top; {rest} come in addition."
    )
    return size


def _builds(requirement: str, catalogue: Catalogue, warnings: list[str]) -> tuple[Build, ...]:
    from gpuproof.catalogue.builds import parse_requirement

    parsed = parse_requirement(requirement)
    if parsed is None:
        raise UsageError(
            f"'{requirement}' is not a framework build in the catalogue.",
            remedy="Write, for example, torch==2.11, torch==2.11+cu126, tensorflow==2.21 or jax.",
        )
    found = (catalogue.build(requirement, arch) for arch in ("x86_64", "arm64"))
    builds = tuple(build for build in found if build)
    if not builds:
        framework = parsed[0]
        newest = next(build.version for build in catalogue.tables.builds if build.framework == framework)
        warnings.append(
            f"Unknown build {requirement} (the newest known is {framework} {newest}); the filter was ignored."
        )
    unread = [build for build in builds if build.device == "gpu" and not build.architectures]
    warnings += [
        f"The GPUs that {build} for {build.arch} was compiled for are not known: whether it runs is unknown."
        for build in unread
    ]
    return builds
