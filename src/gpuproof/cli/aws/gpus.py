"""List AWS GPU instance types: memory, prices, supported frameworks; cheapest first.

`gpuproof gpus show TYPE` prints everything known about one type.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from gpuproof.cli.arguments import add_command
from gpuproof.errors import ExitCode, GPUproofError, UsageError

if TYPE_CHECKING:
    from gpuproof.catalogue import Build, Catalogue, InstanceQuery
    from gpuproof.cli.arguments import Subparsers

SORTS = ("price", "per-gpu", "per-tflop", "memory", "total-memory", "gpus", "vcpus", "name")
KINDS = ("training", "processing", "endpoint", "transform", "notebook", "studio", "cluster")


class NotInCatalogue(GPUproofError):
    """The catalogue has no data on this."""

    exit_code = ExitCode.UNDECIDED


def add_parser(commands: Subparsers) -> None:
    """Add `gpuproof gpus` to the command line."""
    parser = add_command(
        commands, "gpus", "list AWS GPU instance types: memory, prices, supported frameworks", __doc__
    )
    parser.add_argument(
        "--gpu", metavar="A10G", help="GPU model, or several: A10G,L4; with a count: A10G:1..4"
    )
    parser.add_argument(
        "--gpu-memory", metavar="24GB+", help="memory per GPU: 24GB+, 40GiB..80GiB (1 GiB = 1024 MiB)"
    )
    parser.add_argument("--total-gpu-memory", metavar="96GB+", help="total GPU memory of the instance")
    parser.add_argument(
        "--count",
        metavar="1..4",
        help="number of GPUs: 1, 1..4, 8+; a fractional GPU (g6f) counts as less than 1",
    )
    parser.add_argument(
        "--region", metavar="us-west-2", help="only types offered in this region, with its prices"
    )
    parser.add_argument("--place", choices=["ec2", "sagemaker"], help="the service to run on")
    parser.add_argument("--for", dest="use", choices=KINDS, help="only types that SageMaker accepts for this")
    parser.add_argument("--max-price", metavar="$2.50", help="maximum USD per hour and instance")
    parser.add_argument("--spot", action="store_true", help="use spot prices instead of on-demand prices")
    parser.add_argument(
        "--framework", metavar="torch==2.11", help="only types whose GPU is known to run this build"
    )
    parser.add_argument("--arch", choices=["x86_64", "arm64"], help="CPU architecture of the host")
    parser.add_argument(
        "--include-retired", action="store_true", help="include types that are no longer available"
    )
    parser.add_argument("--sort", choices=SORTS, default="price", help="sort order (default: price)")
    _add_format(parser)
    parser.set_defaults(run=run)
    actions = parser.add_subparsers(metavar="[show TYPE]")
    show = actions.add_parser(
        "show",
        help="print everything known about one type, and alternatives",
        description="Print everything known about one type, and alternatives.",
    )
    show.add_argument("type", metavar="TYPE", help="g5.xlarge, ml.g5.xlarge")
    show.add_argument(
        "--region",
        default=None,
        metavar="us-west-2",
        help="region for prices, offerings and quotas (default: us-east-1)",
    )
    show.add_argument("--for", dest="use", choices=KINDS, help="the SageMaker workload")
    show.add_argument(
        "--format", choices=["text", "json"], default="text", help="json is versioned and stable"
    )
    show.set_defaults(run=run_show)


def run(arguments: argparse.Namespace) -> int:
    """Entry point of `gpuproof gpus`."""
    from gpuproof.catalogue import Catalogue
    from gpuproof.cli.aws import gpus_table

    catalogue = Catalogue.load()
    query, warnings = _request(arguments, catalogue)
    rows = gpus_table.make_rows(catalogue, query)
    rows.sort(key=gpus_table.SORT_KEYS[arguments.sort])
    print(gpus_table.FORMATS[arguments.format](query, rows), end="")
    warnings += gpus_table.hints(catalogue, query)
    gpus_table.print_warnings(warnings)
    if arguments.framework and not query.builds:
        return ExitCode.UNDECIDED
    return ExitCode.OK if rows else ExitCode.FAILED


def run_show(arguments: argparse.Namespace) -> int:
    """Entry point of `gpuproof gpus show`."""
    from gpuproof.catalogue import Catalogue
    from gpuproof.cli.aws import gpus_show

    catalogue = Catalogue.load()
    instance = catalogue.instance(arguments.type)
    if instance is None:
        raise NotInCatalogue(
            gpus_show.unknown(catalogue, arguments.type),
            remedy=gpus_show.suggestion(catalogue, arguments.type),
        )
    region = arguments.region or "us-east-1"
    print(gpus_show.FORMATS[arguments.format](catalogue, instance, region, arguments.use), end="")
    return ExitCode.OK


def _request(arguments: argparse.Namespace, catalogue: Catalogue) -> tuple[InstanceQuery, list[str]]:
    from gpuproof.catalogue import InstanceQuery
    from gpuproof.units import CountRange, GpuRequest, MemoryRange, Money

    warnings: list[str] = []
    asked = GpuRequest.parse(arguments.gpu) if arguments.gpu else None
    names = asked.names if asked else ()
    counted = asked is not None and (":" in arguments.gpu or not names)
    count = asked.count if asked and counted else None
    if arguments.count:
        count = CountRange.parse(arguments.count)
    _check_names(names, catalogue)
    builds = _builds(arguments.framework, catalogue, warnings) if arguments.framework else ()
    if arguments.use and arguments.place == "ec2":
        raise UsageError(
            f"--for {arguments.use} selects SageMaker, which contradicts --place ec2.",
            remedy="Remove one of them.",
        )
    query = InstanceQuery(
        gpus=names,
        gpu_memory=MemoryRange.parse(arguments.gpu_memory) if arguments.gpu_memory else None,
        total_gpu_memory=MemoryRange.parse(arguments.total_gpu_memory)
        if arguments.total_gpu_memory
        else None,
        count=count,
        region=arguments.region,
        service=arguments.place,
        use=arguments.use,
        max_price=float(Money.parse(arguments.max_price).usd) if arguments.max_price else None,
        market="spot" if arguments.spot else "on-demand",
        arch=arguments.arch,
        builds=builds,
        include_retired=arguments.include_retired,
    )
    return query, warnings


def _check_names(names: tuple[str, ...], catalogue: Catalogue) -> None:
    from gpuproof.catalogue.search import matching_gpus

    known = catalogue.tables.gpus
    for name in names:
        if matching_gpus((name,), known.values()):
            continue
        from difflib import get_close_matches  # only for a mistake

        near = get_close_matches(name.upper(), known, n=3, cutoff=0.5)
        remedy = f"Did you mean {' or '.join(near)}?" if near else f"Known GPUs: {', '.join(known)}."
        raise NotInCatalogue(f"Unknown GPU {name}: no AWS instance type has one.", remedy=remedy)


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
    return builds


def _add_format(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--format", choices=["table", "json", "csv"], default="table", help="json is versioned and stable"
    )
