"""`gpuproof gpus show TYPE`: everything known about one instance type, and alternatives to it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from gpuproof.catalogue import JOB_KINDS, Catalogue, Gpu, Instance, JobKind, Price
from gpuproof.catalogue.prices import is_old, mark
from gpuproof.cli.aws.gpus_hints import nearest_text
from gpuproof.cli.aws.gpus_table import GIB, fraction, gib, money, price_document
from gpuproof.util.versions import version_key

if TYPE_CHECKING:
    from datetime import date

MOST_REPLACEMENTS = 5
FRAMEWORK_NAMES = {"tensorflow": "TensorFlow", "torch": "torch"}


def _text(catalogue: Catalogue, instance: Instance, region: str, use: JobKind | None, today: date) -> str:
    gpu = catalogue.tables.gpus.get(instance.gpu_model or "")
    lines = [
        ("", _title(instance, gpu)),
        ("status", _status(instance)),
        ("host", _host(instance)),
        ("SageMaker", _sagemaker(catalogue, instance)),
        ("offered", _offered(catalogue, instance, region)),
        ("price", _prices(catalogue, instance, region, use, today)),
        ("driver", driver_text(gpu) if gpu else ""),
        *(
            ("runs" if first else "", text)
            for first, text in _first(framework_lines(catalogue, instance.arch, gpu))
        ),
        *(
            ("quota" if first else "", text)
            for first, text in _first(_quota(catalogue, instance, region, use))
        ),
        *(
            ("image" if first else "", text)
            for first, text in _first(_images(catalogue, instance, region, use))
        ),
        *(
            ("instead" if first else "", text)
            for first, text in _first(_instead(catalogue, instance, region, use))
        ),
        ("note", " ".join(f"{text}." for text in (instance.note, gpu.note if gpu else "") if text)),
        ("source", _source(catalogue, instance)),
    ]
    shown = [
        f"{label:<11}{text}" if label or index else text for index, (label, text) in enumerate(lines) if text
    ]
    table = _region_table(catalogue, instance, use, today)
    return "\n".join(shown) + "\n" + (f"\n{table}\n" if table else "")


def _first(texts: Sequence[str]) -> list[tuple[bool, str]]:
    return [(index == 0, text) for index, text in enumerate(texts)]


def _title(instance: Instance, gpu: Gpu | None) -> str:
    if gpu is None and instance.gpu_count == 0:
        kind = "" if instance.accelerator == "none" else f" (but {instance.accelerator})"
        return f"{instance.name}: no GPU{kind}"
    capability = ".".join(map(str, gpu.compute_capability)) if gpu and gpu.compute_capability else ""
    what = f" ({gpu.architecture}, compute capability {capability})" if gpu and capability else ""
    each = "" if instance.gpu_count == 1 else " each"
    memory = f"{gib(instance.gpu_memory)}{each}" if instance.gpu_memory else "memory unknown"
    if instance.fraction < 1:
        seen = f"{fraction(instance)} of one {instance.gpu_model}, seen as one GPU"
    else:
        seen = f"{instance.gpu_count} {instance.gpu_model}"
    return f"{instance.name}: {seen}, {memory}{what}"


def _status(instance: Instance) -> str:
    if instance.status == "retired":
        dates = (
            f"in the EC2 API until {instance.last_seen}, removed by {instance.gone_by}"
            if instance.last_seen
            else ""
        )
        announced = f"AWS announced its end for {instance.retires_on}" if instance.retires_on else ""
        return "retired on EC2: " + (
            "; ".join(text for text in (announced, dates) if text) or "no longer in its API"
        )
    if instance.status == "legacy":
        return "legacy: still offered; AWS has announced its end"
    if instance.status == "capacity-block":
        return "only by Capacity Block reservation"
    return "offered"


def _host(instance: Instance) -> str:
    vcpus = "vCPUs unknown" if instance.vcpus is None else f"{instance.vcpus} vCPU"
    memory = "memory unknown" if instance.memory is None else f"{instance.memory / GIB:g} GiB"
    parts = [vcpus, memory, instance.arch, instance.network]
    if instance.efa_interfaces:
        parts.append(f"EFA ({instance.efa_interfaces})")
    if instance.local_disk:
        parts.append(f"{instance.local_disk // 10**9} GB of local disk")
    return ", ".join(part for part in parts if part)


def _sagemaker(catalogue: Catalogue, instance: Instance) -> str:
    accepted = catalogue.accepted_for(f"ml.{instance.ec2_type}")
    if not accepted:
        return "not accepted by any SageMaker API"
    refused = [kind for kind in JOB_KINDS if kind not in accepted]
    caveat = (
        "; the API still accepts it, but it is no longer available" if instance.status == "retired" else ""
    )
    return f"for {', '.join(accepted)}" + (f"; not for {', '.join(refused)}" if refused else "") + caveat


def _offered(catalogue: Catalogue, instance: Instance, region: str) -> str:
    if instance.gpu_count == 0:
        return ""
    here = catalogue.offerings(instance.name, region)
    everywhere = [offering.region for offering in catalogue.offerings(instance.name)]
    if not everywhere:
        return "in none of the regions that were read"
    if here:
        return f"in {region} ({', '.join(here[0].az_ids)}) and {len(everywhere) - 1} other regions"
    absent = f"not in {region}" if catalogue.region(region) else f"availability in {region} was not checked"
    return f"{absent}; nearest: {nearest_text(catalogue, region, everywhere)}"


def _prices(catalogue: Catalogue, instance: Instance, region: str, use: JobKind | None, today: date) -> str:
    ec2 = catalogue.price(instance.ec2_type, region)
    spot = catalogue.price(instance.ec2_type, region, market="spot")
    sagemaker = catalogue.price(f"ml.{instance.ec2_type}", region, use=use)
    named = (("EC2", ec2), ("spot", spot), ("SageMaker", sagemaker))
    told = [_one_price(name, price, today) for name, price in named if price]
    if not told:
        return f"unknown for {region}"
    caveat = " (price lists still contain retired types)" if instance.status == "retired" else ""
    return f"{'; '.join(told)} an hour in {region}{caveat}"


def _one_price(name: str, price: Price, today: date) -> str:
    most = f" to ${price.usd_per_hour_max:.3f}" if price.usd_per_hour_max else ""
    old = ", more than a year old" if is_old(price, today) else ""
    return f"{name} {mark(price)}${price.usd_per_hour:.3f}{most} ({price.kind} {price.as_of}{old})"


def driver_text(gpu: Gpu) -> str:
    """The driver branches, kernel module and CUDA toolkits that support a GPU."""
    if gpu.driver_first is None:
        return ""
    branches = (
        f"NVIDIA {gpu.driver_first} to {gpu.driver_last}"
        if gpu.driver_last
        else f"NVIDIA {gpu.driver_first} or later"
    )
    toolkits = (
        f"CUDA {gpu.cuda_first} to {gpu.cuda_last}" if gpu.cuda_last else f"CUDA {gpu.cuda_first} or later"
    )
    module = (
        "either kernel module" if gpu.kernel_module == "either" else f"the {gpu.kernel_module} kernel module"
    )
    return f"{branches}, {module}; {toolkits}"


def framework_lines(catalogue: Catalogue, arch: str, gpu: Gpu | None) -> list[str]:
    """The versions of each framework by how they run on a GPU, on hosts of one architecture."""
    if gpu is None:
        return []
    lines: list[str] = []
    for framework, title in FRAMEWORK_NAMES.items():
        by_kind: dict[str, list[str]] = {}
        builds = [
            build
            for build in catalogue.tables.builds
            if (build.framework, build.arch, build.variant) == (framework, arch, "default")
        ]
        for build in sorted(builds, key=lambda build: version_key(build.version)):
            by_kind.setdefault(catalogue.runs_on(build, gpu).kind, []).append(build.version)
        words = {
            "native": "native",
            "ptx": "by PTX (slow first start)",
            "no": "no",
            "unknown": "unknown",
        }
        told = [f"{words[kind]}: {_ranges(by_kind[kind], builds)}" for kind in words if kind in by_kind]
        if told:
            lines.append(f"{title} {'; '.join(told)}")
        lines += _variants(catalogue, framework, by_kind.get("no", []), arch, gpu)
    return lines or [f"unknown for {arch} hosts"]


def _ranges(versions: Sequence[str], builds: Sequence[Any]) -> str:
    order = sorted((build.version for build in builds), key=version_key)
    groups: list[list[str]] = []
    for version in versions:
        if groups and order.index(version) == order.index(groups[-1][-1]) + 1:
            groups[-1].append(version)
        else:
            groups.append([version])
    return ", ".join(group[0] if len(group) == 1 else f"{group[0]} to {group[-1]}" for group in groups)


def _variants(catalogue: Catalogue, framework: str, dropped: Sequence[str], arch: str, gpu: Gpu) -> list[str]:
    others = [
        str(build)
        for build in catalogue.tables.builds
        if (build.framework, build.arch) == (framework, arch)
        and build.version in dropped
        and build.variant != "default"
        and catalogue.runs_on(build, gpu).runs
    ]
    return [f"{', '.join(others)} still supports it"] if others else []


def _quota(catalogue: Catalogue, instance: Instance, region: str, use: JobKind | None) -> list[str]:
    if instance.status == "retired" or instance.gpu_count == 0:
        return []
    quota = catalogue.quota(instance.name, region, use)
    if quota is None:
        return []
    counts = f": {quota.needed} vCPUs per instance" if quota.needed and quota.unit == "vCPU" else ""
    has = f"; your limit is {quota.limit:g}" if quota.limit is not None else ""
    fresh = f"; new accounts start at {quota.default:g}" if quota.default is not None and not has else ""
    return [
        f"{quota.name} ({quota.code or 'code unknown'}){counts}{has}{fresh}",
        quota.command,
        quota.console_url,
    ]


def _images(catalogue: Catalogue, instance: Instance, region: str, use: JobKind | None) -> list[str]:
    if instance.status == "retired" or not instance.on_sagemaker:
        return []
    found = (
        catalogue.image(name, None, use or "training", instance.name, region) for name in FRAMEWORK_NAMES
    )
    return [image.uri for image in found if image]


def _instead(catalogue: Catalogue, instance: Instance, region: str, use: JobKind | None) -> list[str]:
    if instance.gpu_count and instance.status in ("offered", "capacity-block"):
        accepted = catalogue.accepted_for(instance.name)
        if not (use and instance.on_sagemaker and use not in accepted):
            return []
    offered = region if catalogue.region(region) else None
    found = catalogue.replacements(instance.name, use, offered)[:MOST_REPLACEMENTS]
    width = max((len(match.instance.name) for match in found), default=0)
    return [f"{match.instance.name:<{width}}  {match.reason}" for match in found]


def _source(catalogue: Catalogue, instance: Instance) -> str:
    source = catalogue.tables.sources.get(instance.source)
    return f"{source.what if source else instance.source} ({instance.as_of})"


def _json(catalogue: Catalogue, instance: Instance, region: str, use: JobKind | None, _today: date) -> str:
    import json

    gpu = catalogue.tables.gpus.get(instance.gpu_model or "")
    quota = catalogue.quota(instance.name, region, use)
    builds = [build for build in catalogue.tables.builds if build.arch == instance.arch]
    document: dict[str, Any] = {
        "version": 1,
        "region": region,
        "instance": instance._asdict(),
        "gpu": gpu._asdict() if gpu else None,
        "accepted_for": list(catalogue.accepted_for(f"ml.{instance.ec2_type}")),
        "offered_in": {
            offering.region: list(offering.az_ids) for offering in catalogue.offerings(instance.name)
        },
        "regions": _region_documents(catalogue, instance, use),
        "ec2_price": price_document(catalogue.price(instance.ec2_type, region)),
        "ec2_spot_price": price_document(catalogue.price(instance.ec2_type, region, market="spot")),
        "sagemaker_price": price_document(catalogue.price(f"ml.{instance.ec2_type}", region, use)),
        "frameworks": {str(build): catalogue.runs_on(build, gpu)._asdict() for build in builds}
        if gpu
        else {},
        "quota": quota._asdict() if quota else None,
        "replacements": [
            {"type": replacement.instance.name, "reason": replacement.reason}
            for replacement in catalogue.replacements(
                instance.name, use, region if catalogue.region(region) else None
            )
        ],
    }
    return json.dumps(document, indent=2) + "\n"


def _region_table(catalogue: Catalogue, instance: Instance, use: JobKind | None, today: date) -> str:
    """A table of all regions that offer the type or have a price for it; empty without any."""
    from gpuproof.terminal.table import render_table

    rows = [
        [
            region,
            catalogue.tables.regions[region].name if region in catalogue.tables.regions else "",
            zones,
            *(money(price, today) for price in prices),
        ]
        for region, zones, prices in _prices_by_region(catalogue, instance, use)
    ]
    if not rows:
        return ""
    return render_table(["REGION", "NAME", "ZONES", "EC2 $/H", "SPOT", "SAGEMAKER"], rows, right=[2, 3, 4, 5])


def _region_documents(catalogue: Catalogue, instance: Instance, use: JobKind | None) -> list[dict[str, Any]]:
    """The rows of `_region_table` for JSON."""
    return [
        {
            "region": region,
            "az_ids": [
                zone for offering in catalogue.offerings(instance.name, region) for zone in offering.az_ids
            ],
            **{
                name: price.usd_per_hour if price else None
                for name, price in zip(("ec2", "spot", "sagemaker"), prices, strict=True)
            },
        }
        for region, _, prices in _prices_by_region(catalogue, instance, use)
    ]


def _prices_by_region(
    catalogue: Catalogue, instance: Instance, use: JobKind | None
) -> list[tuple[str, str, tuple[Price | None, Price | None, Price | None]]]:
    offered = {offering.region: str(len(offering.az_ids)) for offering in catalogue.offerings(instance.name)}
    found: list[tuple[str, str, tuple[Price | None, Price | None, Price | None]]] = []
    for region in sorted({*offered, *catalogue.tables.priced_regions}):
        prices = (
            catalogue.price(instance.ec2_type, region),
            catalogue.price(instance.ec2_type, region, market="spot"),
            catalogue.price(f"ml.{instance.ec2_type}", region, use),
        )
        # Price lists also contain types that a region no longer offers.
        checked = instance.gpu_count > 0 and bool(catalogue.region(region))
        if region in offered or (any(prices) and not checked):
            found.append((region, offered.get(region, "-"), prices))
    return found


FORMATS: dict[str, Callable[[Catalogue, Instance, str, JobKind | None, date], str]] = {
    "text": _text,
    "json": _json,
}
"""Output formats of `gpus show`."""
