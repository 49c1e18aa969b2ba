"""`gpuproof gpus show A100`: everything known about a GPU model, and the types that have it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from gpuproof.catalogue import Catalogue, Gpu, Instance, InstanceQuery
from gpuproof.catalogue.search import matching_gpus
from gpuproof.cli.aws.gpus_show import driver_text, framework_lines
from gpuproof.cli.aws.gpus_table import fraction, money, price_document

if TYPE_CHECKING:
    from datetime import date

_RATES = ("fp32", "tf32", "fp16", "bf16", "fp8", "fp4")


def matching(catalogue: Catalogue, names: Sequence[str]) -> list[Gpu]:
    """The GPU models that names such as `A100` or `L4:1` match, in the order of the table."""
    found = matching_gpus((name.partition(":")[0] for name in names), catalogue.tables.gpus.values())
    return [gpu for gpu in catalogue.tables.gpus.values() if gpu.name in found]


def _text(catalogue: Catalogue, gpu: Gpu, region: str, today: date) -> str:
    capability = ".".join(map(str, gpu.compute_capability or ()))
    what = f"{gpu.vendor} {gpu.architecture}" + (f", compute capability {capability}" if capability else "")
    rates = ", ".join(f"{rate:g} {name}" for name, rate in _rates(gpu).items() if rate is not None)
    link = f", NVLink {gpu.nvlink:g} GB/s" if gpu.nvlink else ", no NVLink"
    types = _types(catalogue, gpu)
    lines = [
        ("", f"{gpu.name}: {gpu.memory_gb} GB {gpu.memory_type} ({what})"),
        ("bandwidth", f"{gpu.bandwidth:g} GB/s{link}"),
        ("TFLOP/s", f"{rates}, dense"),
        ("driver", driver_text(gpu)),
        *(
            ("runs" if first == 0 else "", text)
            for first, text in enumerate(
                line
                for arch in dict.fromkeys(instance.arch for instance in types)
                for line in framework_lines(catalogue, arch, gpu)
            )
        ),
        ("offered", _regions_text(catalogue, types)),
        ("note", f"{gpu.note}." if gpu.note else ""),
        ("source", _source(catalogue, gpu)),
    ]
    shown = [
        f"{label:<11}{text}" if label or index else text for index, (label, text) in enumerate(lines) if text
    ]
    return "\n".join([*shown, "", _table(catalogue, types, region, today), ""])


def _rates(gpu: Gpu) -> dict[str, float | None]:
    return {name: getattr(gpu, f"{name}_tflops") for name in _RATES}


def _types(catalogue: Catalogue, gpu: Gpu) -> tuple[Instance, ...]:
    return catalogue.search(InstanceQuery(gpus=(gpu.name,), include_retired=True))


def _regions_text(catalogue: Catalogue, types: Sequence[Instance]) -> str:
    regions = sorted(
        {offering.region for instance in types for offering in catalogue.offerings(instance.name)}
    )
    return f"in {', '.join(regions)}" if regions else "in none of the regions that were read"


def _table(catalogue: Catalogue, types: Sequence[Instance], region: str, today: date) -> str:
    from gpuproof.terminal.table import render_table

    rows = [
        [
            instance.name,
            fraction(instance),
            money(catalogue.price(instance.name, region), today),
            money(catalogue.price(f"ml.{instance.name}", region), today),
            instance.status,
        ]
        for instance in types
    ]
    return render_table(
        ["TYPE", "GPUS", f"EC2 $/H IN {region}", "SAGEMAKER", "STATUS"], rows, right=[1, 2, 3]
    )


def _source(catalogue: Catalogue, gpu: Gpu) -> str:
    source = catalogue.tables.sources.get(gpu.source)
    return f"{source.what if source else gpu.source} ({gpu.as_of}, confidence {gpu.confidence})"


def _json(catalogue: Catalogue, gpu: Gpu, region: str, _today: date) -> str:
    import json

    document: dict[str, Any] = {
        "version": 1,
        "region": region,
        "gpu": gpu._asdict(),
        "instances": [
            {
                "type": instance.name,
                "gpu_count": instance.gpu_count,
                "gpu_fraction": instance.fraction,
                "status": instance.status,
                "ec2_price": price_document(catalogue.price(instance.name, region)),
                "sagemaker_price": price_document(catalogue.price(f"ml.{instance.name}", region)),
                "offered_in": [offering.region for offering in catalogue.offerings(instance.name)],
            }
            for instance in _types(catalogue, gpu)
        ],
    }
    return json.dumps(document, indent=2) + "\n"


FORMATS: dict[str, Callable[[Catalogue, Gpu, str, date], str]] = {"text": _text, "json": _json}
"""Output formats of `gpus show GPU`."""
