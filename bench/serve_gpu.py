"""ResNet-50 and BERT on a GPU: `gpuproof serve` compared with the bare loop over the same handler.

    python bench/serve_gpu.py [--only bert] [--ways fp32,autocast]
    python bench/serve_gpu.py --device cpu --quick     # the same code, with networks of toy size

Figures go to standard output and to bench/results (`--quick`: only where `--results` says). Where there is no CUDA GPU it
says so and returns 0, or 1 where `--device cuda` asked for one. Returns 1 where something could not be measured, where
requests failed, or where the server's answers were not the bare loop's.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import tempfile
from contextlib import nullcontext
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType

from serve.gpu_cases import FULL, QUICK, Net, Plan, as_npy, variants
from serve.gpu_device import NoGpu, cpu, gpu
from serve.gpu_report import GpuTable, as_json, as_markdown, together
from serve.gpu_utilization import UtilizationMonitor
from serve.gpu_variant import measure

from serve import generators

RESULTS = Path(__file__).parent / "results"


def main() -> int:
    """Prints the figures and writes them."""
    options = _arguments()
    # Ended from outside, it must still end the servers.
    signal.signal(signal.SIGTERM, _leave)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        place = cpu() if options.device == "cpu" else gpu()
    except NoGpu as reason:
        print(f"Nothing was measured: there is no CUDA GPU to use here ({reason}).")
        print("`python bench/serve_gpu.py --device cpu --quick` runs the same code on the CPU.")
        return 1 if options.device == "cuda" else 0
    plan = QUICK if options.quick else FULL
    results: Path | None = options.results or (None if options.quick else RESULTS)
    where = f"{place.words}; load by {generators.name()}"
    print(where, flush=True)
    tables: list[GpuTable] = []
    folder = nullcontext(options.scratch) if options.scratch else tempfile.TemporaryDirectory()
    with folder as name, UtilizationMonitor(place.index) as watch:
        for net in (net for net in plan.nets if options.only in ("", net.name)):
            table = _table(net, plan, where, options.shared)
            tables.append(table)
            for variant in (
                variant
                for variant in variants(place.half)
                if variant.name in (options.variants or plan.variants)
            ):
                print(f"{net.name}, {variant.name}", flush=True)
                scratch = Path(name) / f"{net.name}-{variant.name}"
                scratch.mkdir(parents=True, exist_ok=True)
                table.rows.append(measure(net, variant, plan, place, scratch, watch))
                if results:
                    stem = f"serve-gpu-{place.slug}{'-quick' if options.quick else ''}"
                    _write(results / f"{stem}.json", tables)
    print(as_markdown(tables))
    rows = [row.served for table in tables for row in table.rows]
    failed = sum(reading.failed for row in rows for readings in row.readings.values() for reading in readings)
    return 1 if failed or any(row.skipped for row in rows) else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    names = [variant.name for variant in variants("bf16")]
    parser.add_argument(
        "--device", choices=["cuda", "cpu"], help="default: cuda, and nothing where there is none"
    )
    parser.add_argument("--quick", action="store_true", help="networks of toy size, one round of a second")
    parser.add_argument(
        "--only", default="", choices=[net.name for net in FULL.nets], help="only one network"
    )
    parser.add_argument(
        "--ways",
        dest="variants",
        type=lambda value: value.split(","),
        metavar="fp32,autocast",
        help=f"those alone, of {', '.join(names)}",
    )
    parser.add_argument("--results", type=Path, metavar="FOLDER", help="where to write the figures")
    parser.add_argument(
        "--scratch", type=Path, metavar="FOLDER", help="keep questions, answers and the servers' logs there"
    )
    parser.add_argument(
        "--shared",
        default="nothing else was started on purpose",
        help="what else the machine did, for the report",
    )
    options = parser.parse_args()
    if options.device == "cpu" and not options.quick:
        parser.error("--device cpu goes with --quick: the whole networks take hours there")
    if unknown := set(options.variants or ()) - set(names):
        parser.error(f"there is no way {', '.join(sorted(unknown))}; there are {', '.join(names)}")
    return options


def _leave(_number: int, _frame: FrameType | None) -> None:
    sys.exit(143)


def _table(net: Net, plan: Plan, where: str, shared: str) -> GpuTable:
    item = net.items()[:1]
    return GpuTable(
        net.name,
        f"{item.shape} of {item.dtype}",
        len(as_npy(item)),
        plan.clients,
        plan.batches,
        where,
        f"{datetime.now(UTC).date().isoformat()}: {shared}.",
    )


def _write(path: Path, tables: list[GpuTable]) -> None:
    """Write the results; earlier ones of the same GPU that were not measured now are kept."""
    path.parent.mkdir(parents=True, exist_ok=True)
    before = json.loads(path.read_text())["networks"] if path.exists() else []
    all_tables = together([GpuTable.from_json(table) for table in before], tables)
    path.write_text(json.dumps(as_json(all_tables), indent=1) + "\n")
    path.with_suffix(".md").write_text(as_markdown(all_tables).rstrip() + "\n")


if __name__ == "__main__":
    sys.exit(main())
