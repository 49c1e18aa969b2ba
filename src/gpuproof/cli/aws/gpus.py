"""List AWS GPU instance types: memory, prices, supported frameworks; cheapest first.

`gpuproof gpus A100` lists the types with that GPU, `gpuproof gpus g5` those of a family. `gpuproof gpus g5.xlarge` prints
everything known about one type, `gpuproof gpus show A100` everything about a GPU.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from gpuproof.cli.arguments import add_command, add_format_flag
from gpuproof.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from gpuproof.catalogue import Catalogue
    from gpuproof.cli.arguments import Subparsers
    from gpuproof.cli.aws.gpus_query import Named

SORTS = ("price", "per-gpu", "per-tflop", "memory", "total-memory", "gpus", "vcpus", "name")
KINDS = ("training", "processing", "endpoint", "transform", "notebook", "studio", "cluster")
SHOW = "show"


def add_parser(commands: Subparsers) -> None:
    """Add `gpuproof gpus` to the command line."""
    parser = add_command(
        commands, "gpus", "list AWS GPU instance types: memory, prices, supported frameworks", __doc__
    )
    parser.add_argument(
        "names",
        nargs="*",
        metavar="[show] NAME",
        help="GPUs (A100, L4:1), families (g5) or instance types (ml.g5.xlarge); `show` prints all facts about a GPU",
    )
    parser.add_argument(
        "--gpu", metavar="A10G", help="GPU model, or several: A10G,L4; with a count: A10G:1..4"
    )
    parser.add_argument(
        "--gpu-memory",
        metavar="24GB+",
        help="memory per GPU: 24GB+, 40GiB..80GiB (1 GiB = 1024 MiB); without a unit GB",
    )
    parser.add_argument("--total-gpu-memory", metavar="96GB+", help="total GPU memory of the instance")
    parser.add_argument(
        "--fits",
        metavar="70B@bf16",
        help="only types whose GPUs hold the weights of a model: parameters and fp32, bf16, fp16, fp8, int8, int4, or "
        "adam for training",
    )
    parser.add_argument(
        "--count",
        metavar="1..4",
        help="number of GPUs: 1, 1..4, 8+; a fractional GPU (g6f) counts as less than 1",
    )
    parser.add_argument(
        "--region",
        action="append",
        metavar="us-west-2",
        help="only types offered in this region, with its prices; several: us-west-2,eu-west-1 or all "
        "(default: prices of us-east-1)",
    )
    parser.add_argument("--on", choices=["ec2", "sagemaker"], help="the service to run on")
    parser.add_argument(
        "--for",
        dest="use",
        choices=KINDS,
        metavar="KIND",
        help=f"only types that SageMaker accepts for this: {', '.join(KINDS)}",
    )
    parser.add_argument(
        "--max-price", metavar="USD", help="maximum price per hour and instance, such as 2.50"
    )
    parser.add_argument("--spot", action="store_true", help="use spot prices instead of on-demand prices")
    parser.add_argument(
        "--framework",
        metavar="torch==2.11",
        help="only types whose GPU runs this build, or may run it",
    )
    parser.add_argument("--arch", choices=["x86_64", "arm64"], help="CPU architecture of the host")
    parser.add_argument(
        "--include-retired", action="store_true", help="include types that are no longer available"
    )
    parser.add_argument(
        "--sort",
        choices=SORTS,
        default="price",
        metavar="KEY",
        help=f"sort order: {', '.join(SORTS)} (default: price)",
    )
    add_format_flag(parser, "csv", aliases={"table": "text"})
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Entry point of `gpuproof gpus`."""
    from gpuproof.catalogue import Catalogue
    from gpuproof.cli.aws.gpus_query import Named, parse_names, parse_regions

    catalogue = Catalogue.load()
    words: list[str] = arguments.names
    shows = bool(words) and words[0] == SHOW
    named = parse_names(words[1:] if shows else words, catalogue)
    regions = parse_regions(arguments.region, catalogue)
    if shows and named == Named():
        raise UsageError("`gpuproof gpus show` needs a name.", remedy="gpuproof gpus show g5.xlarge")
    if named.types or (shows and named.gpus):
        return _show(arguments, catalogue, named, regions)
    return _list(arguments, catalogue, named, regions)


def _list(arguments: argparse.Namespace, catalogue: Catalogue, named: Named, regions: list[str]) -> int:
    from gpuproof.cli.aws import gpus_hints, gpus_query, gpus_table
    from gpuproof.settings import today

    queries, warnings = gpus_query.parse_query(arguments, named, regions, catalogue)
    rows = [row for query in queries for row in gpus_table.make_rows(catalogue, query)]
    rows.sort(key=gpus_table.SORT_KEYS[arguments.sort])
    print(gpus_table.FORMATS[arguments.format](queries, rows, today()), end="")
    warnings += gpus_hints.hints(catalogue, queries, bool(rows))
    gpus_hints.print_warnings(warnings)
    if arguments.framework and (
        not queries[0].builds or (rows and all(row.support == "unknown" for row in rows))
    ):
        return ExitCode.UNDECIDED
    return ExitCode.OK if rows else ExitCode.FAILED


def _show(arguments: argparse.Namespace, catalogue: Catalogue, named: Named, regions: list[str]) -> int:
    from gpuproof.cli.aws import gpus_hints, gpus_model, gpus_show
    from gpuproof.settings import today

    if arguments.format == "csv":
        raise UsageError("`gpuproof gpus show` has no CSV output.", remedy="--format json")
    region = regions[0] if regions else "us-east-1"
    texts = [
        gpus_show.FORMATS[arguments.format](catalogue, instance, region, arguments.use, today())
        for instance in named.types
    ]
    texts += [
        gpus_model.FORMATS[arguments.format](catalogue, gpu, region, today())
        for gpu in gpus_model.matching(catalogue, named.gpus)
    ]
    if arguments.format == "json" and len(texts) > 1:
        raise UsageError(
            f"JSON describes one type or GPU at a time, and {' '.join(arguments.names)} names {len(texts)}.",
            remedy="Name one of them.",
        )
    print("\n".join(texts), end="")
    gpus_hints.print_warnings(gpus_hints.ignored_tables(catalogue))
    return ExitCode.OK
