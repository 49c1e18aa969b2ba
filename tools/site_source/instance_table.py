"""The catalogue of instance types as a table that one filters and sorts, from `gpuproof.catalogue` (its CSV files)."""

from __future__ import annotations

import html
import json
from collections.abc import Iterable, Iterator
from fractions import Fraction
from typing import TYPE_CHECKING, NamedTuple

from site_source.pages import Page, plain, table

if TYPE_CHECKING:
    from gpuproof.catalogue import Build, Catalogue, Gpu, Instance, Price

HOME = "us-east-1"
"""The region whose prices the page has without JavaScript."""

FRAMEWORKS = {"torch": "PyTorch", "tensorflow": "TensorFlow"}
SUPPORT = {"native": "yes", "ptx": "slow start", "no": "no", "unknown": "unknown"}
GIB = 1024**3


class Column(NamedTuple):
    """A column: the key of its cells, its heading, and whether it holds numbers."""

    key: str
    heading: str
    is_number: bool = True


def catalogue_page() -> Page:
    """The page with the table, its filters, and the sources of its facts."""
    from gpuproof.catalogue import Catalogue
    from gpuproof.catalogue.tables import Tables

    catalogue = Catalogue(Tables(refreshed=None))
    instances = _instances(catalogue)
    builds = [build for framework in FRAMEWORKS if (build := catalogue.build(framework))]
    regions = _priced_regions(catalogue, instances)
    text = "\n".join(
        [
            "# AWS GPU instance types\n",
            f"{len(instances)} types that AWS sells or has announced to end, on EC2 and, with the prefix `ml.`, on SageMaker. `gpuproof gpus` has the same",
            "facts offline, with more filters and formats ([GPUs](gpus.md)).\n",
            *_filters(catalogue, instances, builds, regions),
            *_table(catalogue, instances, builds),
            _script(catalogue, instances, regions),
            "Prices are list prices in USD per hour of one instance, on demand. `~` is derived from similar prices; `-` is unknown or not sold. A listed",
            "price does not guarantee capacity. *slow start*: the framework has only PTX for this GPU, which the driver compiles at the first start.\n",
            "## Sources\n",
            "Each fact has a source and a date in `src/gpuproof/catalogue/data`.\n",
            table(("Source", "Read on", "Confidence"), _sources(catalogue, instances, builds, regions)),
        ]
    )
    return Page("catalogue.md", text, hide=("navigation", "toc"))


def _instances(catalogue: Catalogue) -> list[Instance]:
    from gpuproof.catalogue import InstanceQuery

    return list(catalogue.search(InstanceQuery()))


def _priced_regions(catalogue: Catalogue, instances: Iterable[Instance]) -> list[str]:
    """Regions in which at least one of the types has a price."""
    return [
        region
        for region in catalogue.known_regions()
        if any(catalogue.price(instance.name, region) for instance in instances)
    ]


def _columns(builds: Iterable[Build]) -> list[Column]:
    return [
        Column("type", "Type", False),
        Column("gpu", "GPU", False),
        Column("count", "GPUs"),
        Column("memory", "GiB each"),
        Column("total", "GiB in all"),
        Column("capability", "Compute capability"),
        Column("vcpus", "vCPU"),
        Column("ram", "RAM GiB"),
        Column("ec2", "EC2"),
        Column("spot", "Spot"),
        Column("sagemaker", "SageMaker"),
        *(
            Column(build.framework, f"{FRAMEWORKS[build.framework]} {build.version}", False)
            for build in builds
        ),
        Column("status", "Status", False),
    ]


def _filters(
    catalogue: Catalogue, instances: list[Instance], builds: list[Build], regions: list[str]
) -> Iterator[str]:
    names = {row.region: row.name for row in catalogue.tables.regions.values()}
    gpus = sorted({instance.gpu_model for instance in instances if instance.gpu_model})
    yield '<form class="gp-filters" id="catalogue-filters" hidden>'
    yield '<label>Search <input type="search" name="text" placeholder="g5, A100, arm64 …"></label>'
    yield _select("GPU", "gpu", [("", "any"), *((gpu, gpu) for gpu in gpus)])
    yield '<label>GPUs, at least <input type="number" name="count" min="0" max="16" step="1"></label>'
    yield '<label>GiB each, at least <input type="number" name="memory" min="0" step="1"></label>'
    yield '<label>USD per hour, at most <input type="number" name="price" min="0" step="0.1"></label>'
    yield _select(
        "Region", "region", [(region, f"{region} ({names.get(region, '')})") for region in regions], HOME
    )
    yield _select(
        "Runs",
        "runs",
        [
            ("", "any"),
            *((build.framework, f"{FRAMEWORKS[build.framework]} {build.version}") for build in builds),
        ],
    )
    yield _select(
        "SageMaker",
        "use",
        [
            ("", "any"),
            *((kind, kind) for kind in ("training", "processing", "endpoint", "transform", "notebook")),
        ],
    )
    yield '<button type="reset">Reset</button>'
    yield '<output id="catalogue-count" aria-live="polite"></output>'
    yield "</form>\n"


def _select(label: str, name: str, options: Iterable[tuple[str, str]], chosen: str = "") -> str:
    tags = "".join(
        f'<option value="{html.escape(value)}"{" selected" if value == chosen else ""}>{html.escape(text)}</option>'
        for value, text in options
    )
    return f'<label>{label} <select name="{name}">{tags}</select></label>'


def _table(catalogue: Catalogue, instances: list[Instance], builds: list[Build]) -> Iterator[str]:
    columns = _columns(builds)
    yield '<div class="gp-scroll" tabindex="0" role="region" aria-label="Instance types">'
    yield '<table id="catalogue" class="gp-catalogue"><thead><tr>'
    for column in columns:
        kind = ' class="gp-number"' if column.is_number else ""
        yield f'<th scope="col" data-key="{column.key}"{kind}>{html.escape(column.heading)}</th>'
    yield "</tr></thead><tbody>"
    for instance in instances:
        cells = _cells(catalogue, instance, builds)
        yield f'<tr data-type="{instance.name}">'
        for column in columns:
            text, value, title = cells[column.key]
            kind = ' class="gp-number"' if column.is_number else ""
            hint = f' title="{html.escape(title)}"' if title else ""
            tag, scope = ("th", " scope=row") if column.key == "type" else ("td", "")
            yield f'<{tag}{scope} data-key="{column.key}" data-value="{html.escape(value)}"{kind}{hint}>{html.escape(text)}</{tag}>'
        yield "</tr>"
    yield "</tbody></table></div>\n"


def _cells(catalogue: Catalogue, instance: Instance, builds: list[Build]) -> dict[str, tuple[str, str, str]]:
    """Text, value for sorting, and hint of each cell."""
    gpu = catalogue.gpu(instance.gpu_model or "")
    capability = ".".join(map(str, gpu.compute_capability)) if gpu and gpu.compute_capability else "-"
    fraction = "" if instance.fraction == 1 else f" ({Fraction(instance.fraction)})"
    each, total = instance.gpu_memory / GIB, instance.total_gpu_memory / GIB
    ram = (instance.memory or 0) / GIB
    prices = {
        key: _price_cell(price)
        for key, price in zip(("ec2", "spot", "sagemaker"), _prices(catalogue, instance, HOME), strict=True)
    }
    return {
        "type": (instance.name, instance.name, instance.note),
        "gpu": (
            f"{instance.gpu_model}{fraction}",
            instance.gpu_model or "",
            f"{gpu.architecture}, {gpu.memory_type}" if gpu else "",
        ),
        "count": (str(instance.gpu_count), str(instance.whole_gpus), ""),
        "memory": (f"{each:.1f}", f"{each:.3f}", ""),
        "total": (f"{total:.1f}", f"{total:.3f}", ""),
        "capability": (capability, capability, ""),
        "vcpus": (str(instance.vcpus or "-"), str(instance.vcpus or ""), instance.arch),
        "ram": (f"{ram:g}" if ram else "-", f"{ram:g}", ""),
        **prices,
        **{build.framework: _support_cell(catalogue, build, gpu) for build in builds},
        "status": (
            instance.status,
            instance.status,
            f"ends {instance.retires_on}" if instance.retires_on else "",
        ),
    }


def _support_cell(catalogue: Catalogue, build: Build, gpu: Gpu | None) -> tuple[str, str, str]:
    support = catalogue.runs_on(f"{build.framework}=={build.version}", gpu)
    return SUPPORT[support.kind], support.kind, support.reason


def _prices(
    catalogue: Catalogue, instance: Instance, region: str
) -> tuple[Price | None, Price | None, Price | None]:
    """EC2 on demand, EC2 spot, SageMaker."""
    on_sagemaker = f"ml.{instance.name}" if catalogue.accepted_for(f"ml.{instance.name}") else ""
    return (
        catalogue.price(instance.name, region),
        catalogue.price(instance.name, region, market="spot"),
        catalogue.price(on_sagemaker, region) if on_sagemaker else None,
    )


def _price_cell(price: Price | None) -> tuple[str, str, str]:
    text = _price_text(price)
    return (text or "-", text.lstrip("~"), f"{price.kind}, {price.as_of}" if price else "")


def _price_text(price: Price | None) -> str:
    if price is None:
        return ""
    return f"{'~' if price.kind == 'derived' else ''}{price.usd_per_hour:.2f}"


def _script(catalogue: Catalogue, instances: list[Instance], regions: list[str]) -> str:
    """The data of the filters: prices by region, and what SageMaker accepts each type for."""
    data = {
        "prices": {
            region: {
                instance.name: texts
                for instance in instances
                if any(texts := [_price_text(price) for price in _prices(catalogue, instance, region)])
            }
            for region in regions
        },
        "uses": {instance.name: catalogue.accepted_for(f"ml.{instance.name}") for instance in instances},
        "arch": {instance.name: instance.arch for instance in instances},
    }
    text = json.dumps(data, separators=(",", ":")).replace("<", "\\u003c")
    return f'<script type="application/json" id="catalogue-data">{text}</script>\n'


def _sources(
    catalogue: Catalogue, instances: list[Instance], builds: list[Build], regions: list[str]
) -> list[tuple[str, str, str]]:
    """The sources of the facts of the table, by name."""
    keys = {instance.source for instance in instances} | {build.source for build in builds}
    keys |= {gpu.source for instance in instances if (gpu := catalogue.gpu(instance.gpu_model or ""))}
    for region in regions:
        keys |= {
            price.source for instance in instances for price in _prices(catalogue, instance, region) if price
        }
    sources = catalogue.tables.sources
    found = [sources[key] for key in sorted(keys) if key in sources]
    return [(plain(source.what), source.read_on, source.confidence) for source in found]
