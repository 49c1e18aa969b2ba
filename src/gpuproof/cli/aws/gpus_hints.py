"""Hints of `gpuproof gpus` on standard error: GB and GiB confused, a GPU that a region lacks, no result."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from gpuproof.catalogue import Catalogue, InstanceQuery
from gpuproof.catalogue.search import MIB

GIB = 2**30
_NEAREST = 3


def hints(catalogue: Catalogue, queries: Sequence[InstanceQuery], has_rows: bool) -> list[str]:
    """Hints for the user.

    Args:
        queries: one per region.
        has_rows: whether any type was found.
    """
    found = [hint for query in queries if (hint := _region_hint(catalogue, query))]
    found += _memory_hints(catalogue, queries[0])
    found += ignored_tables(catalogue)
    if not has_rows and not any("nearest" in hint for hint in found):
        found.append("No instance types match. Drop a filter, or try --include-retired.")
    return found


def ignored_tables(catalogue: Catalogue) -> list[str]:
    """Refreshed tables that cannot be read."""
    return [
        f"{path} cannot be read; using the shipped data. To replace it: gpuproof catalogue refresh"
        for path in catalogue.tables.ignored
    ]


def print_warnings(warnings: Sequence[str]) -> None:
    """Prints warnings to standard error, to keep the output machine-readable."""
    sys.stdout.flush()
    for warning in warnings:
        print(f"gpuproof: {warning}", file=sys.stderr)


def nearest_text(catalogue: Catalogue, region: str, candidates: Sequence[str]) -> str:
    """`eu-west-2 (London), eu-north-1 (Stockholm)`: the nearest of the regions; empty if there are none."""
    known = catalogue.tables.regions
    near = catalogue.nearest_regions(region, candidates)[:_NEAREST]
    return ", ".join(f"{item} ({known[item].name})" if item in known else item for item in near)


def _region_hint(catalogue: Catalogue, query: InstanceQuery) -> str | None:
    """Why a region has no row, with the nearest regions that have."""
    region = query.region
    if region is None:
        return None
    if not catalogue.region(region):
        return f"Availability in {region} was not checked. To check it: gpuproof catalogue refresh --region {region}"
    if not (query.gpus or query.families) or catalogue.search(query):
        return None
    named = InstanceQuery(gpus=query.gpus, families=query.families)
    anywhere = {instance.ec2_type for instance in catalogue.search(named)}
    offering = [region for region in catalogue.regions() if anywhere & set(catalogue.region(region))]
    what = ", ".join((*query.gpus, *query.families))
    if region in offering:
        return None
    near = nearest_text(catalogue, region, offering)
    return (
        f"{what} is not offered in {region}; nearest: {near}."
        if near
        else f"{what} is not offered in {region}."
    )


def _memory_hints(catalogue: Catalogue, query: InstanceQuery) -> list[str]:
    if not (query.gpu_memory and query.gpu_memory.low):
        return []
    low = query.gpu_memory.low.bytes
    short = sorted(
        {
            f"{gpu.name} ({gpu_instance.gpu_memory // MIB} MiB)"
            for gpu_instance in catalogue.tables.gpu_instances.values()
            if (gpu := catalogue.tables.gpus.get(gpu_instance.gpu_model or ""))
            and gpu_instance.fraction == 1.0
            and gpu_instance.status == "offered"
            and gpu_instance.gpu_memory // MIB < low // MIB <= gpu.memory_gb * GIB // MIB
        }
    )
    return (
        [f"Sold with as many GB, but less than {query.gpu_memory.low}: {', '.join(short)}."] if short else []
    )
