"""`gpuproof serve` compared with LitServe, MLServer, TorchServe, multi-model-server and FastAPI: the same model, side by side.

    python bench/serve.py [--quick] [--only mlp,json] [--stacks gpuproof,fastapi] [--shared "eight other jobs ran"]

Each peer gets a virtual environment of its own, made with uv in GPUPROOF_BENCH_CACHE (default: a folder in the temporary
directory); the Java servers need `java` on PATH. Figures go to standard output and to bench/results. Aims, on the MLP:
5 times each peer at 64 clients and p99 below theirs, at 1 client no slower than any; ResNet-18 within 5 % of the bare
predict loop, with one request at a time and with another waiting; `/ping` p99 under 10 ms while the model is busy; `/ping`
200 within a second after the model's own loading time. Returns 1 where one is missed.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType
from typing import Any

from serve.cases import FULL, HANDLERS, QUICK, Case, Reference, SampleRequest, model_folder
from serve.peers import GPUPROOF, PEERS, Peer, Unavailable, minimal_server
from serve.report import Row, Table
from serve.stack import Stack, StackFailed, free_port, start

from gpuproof.loadtest import Load, Target, open_loop
from serve import generators, measurement, paired_runs, report

RESULTS = Path(__file__).parent / "results"
_BATCHES = {"mlp": (1, 32), "resnet18": (1,)}
"""Batch sizes of the in-process ceiling; a model that does nothing has none."""
_PING_RATE = 50.0


def main() -> int:
    """Prints the figures and writes them; returns 1 where an aim is missed."""
    options = _arguments()
    # Ended from outside, it must still end the servers.
    signal.signal(signal.SIGTERM, _leave)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    cases = [
        case
        for case in (QUICK if options.quick else FULL)
        if options.only in ("", f"{case.model},{case.form}")
    ]
    words = [word.strip().lower() for word in options.stacks.split(",") if word.strip()]
    peers = [
        peer for peer in (GPUPROOF, *PEERS) if not words or any(word in peer.name.lower() for word in words)
    ]
    facts = {
        "machine": report.machine(),
        "python": platform.python_version(),
        "generator": generators.name(),
        "quick": options.quick,
    }
    cache = Path(os.environ.get("GPUPROOF_BENCH_CACHE") or Path(tempfile.gettempdir()) / "gpuproof-bench")
    cache.mkdir(parents=True, exist_ok=True)
    print(f"{facts['machine']}, Python {facts['python']}, load by {facts['generator']}", flush=True)
    pythons = {peer.name: _python(peer, cache) for peer in peers}
    tables: list[Table] = []
    text = "No case has that name."
    with tempfile.TemporaryDirectory(prefix="gpuproof-bench-") as name:
        for case in cases:
            before = os.getloadavg()[0]
            table = _measure(case, peers, pythons, Path(name))
            today = datetime.now(UTC).date().isoformat()
            table.when = f"{today}; load average {before:.1f} before and {os.getloadavg()[0]:.1f} after: {options.shared}"
            tables.append(table)
            text = report.as_markdown(tables, facts)
            if not options.dry:
                _write(tables, facts, options.quick)
    print(text)
    met = [_aim(*aim) for table in tables for aim in _aims(table)]
    return 0 if all(met) else 1


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="about a minute: the MLP with JSON, one round")
    parser.add_argument("--only", default="", metavar="mlp,json", help="one case")
    parser.add_argument(
        "--stacks", default="", metavar="gpuproof,fastapi", help="those with these words in their names"
    )
    parser.add_argument(
        "--shared",
        default="nothing else was started on purpose.",
        help="what else the machine did, for the report",
    )
    parser.add_argument("--dry", action="store_true", help="write no files")
    return parser.parse_args()


def _leave(_number: int, _frame: FrameType | None) -> None:
    sys.exit(143)


def _python(peer: Peer, cache: Path) -> Path | str:
    try:
        return peer.python(cache)
    except Unavailable as reason:
        print(f"{peer.name} is skipped: {reason}", flush=True)
        return str(reason)


def _measure(case: Case, peers: Sequence[Peer], pythons: dict[str, Path | str], scratch: Path) -> Table:
    model = model_folder(scratch, case.model)
    here = Reference(model)
    question = here.question()
    table = Table(case.name, case.clients, len(question.body(case)), bare_load=_bare_load(model))
    running: list[tuple[Row, Stack]] = []
    try:
        for peer in peers:
            if case.form not in peer.forms:
                continue
            row = Row(peer.name)
            table.rows.append(row)
            python = pythons[peer.name]
            if isinstance(python, str):
                row.skipped = python
                continue
            try:
                stack = _start(peer, python, scratch, model, case, question)
            except (StackFailed, OSError) as error:
                row.skipped = report.without_paths(str(error))
                print(f"{case.name}: {peer.name} is skipped: {row.skipped}", flush=True)
                continue
            row.cold_ping, row.cold_answer = stack.cold_ping, stack.cold_answer
            print(f"{case.name}: {peer.name} answers after {stack.cold_answer:.1f} s", flush=True)
            running.append((row, stack))
            stack.pause()
        for number in range(case.rounds):
            # Each round begins with another stack, so that none is always measured first.
            _round(
                case,
                here,
                table,
                running[number % len(running) :] + running[: number % len(running)],
                scratch,
            )
        for row, stack in running:
            _look_while_busy(case, row, stack, scratch)
    finally:
        for _, stack in running:
            stack.end()
    started = any(row.name == GPUPROOF.name for row, _ in running)
    if started and isinstance(python := pythons[GPUPROOF.name], Path):
        paired_runs.measure(
            case,
            model,
            question,
            lambda: _start(GPUPROOF, python, scratch, model, case, question),
            _bounds(python, scratch, model, case, question) if case.form == "json" else {},
            table,
            Path(tempfile.mkdtemp(dir=scratch)),
        )
    return table


def _bounds(
    python: Path, scratch: Path, model: Path, case: Case, question: SampleRequest
) -> dict[str, Callable[[], Stack]]:
    """Baselines that do less work than GPUproof for a large JSON body of numbers."""
    as_npy = replace(case, form="npy")

    def unread() -> Stack:
        folder = model_folder(scratch, case.model, longer=True)
        return _start(GPUPROOF, python, scratch, folder, as_npy, question.longer(len(question.body(case))))

    def least(processes: int) -> Stack:
        return _start(minimal_server(processes), python, scratch, model, case, question)

    return {
        "GPUproof with as many bytes that need no reading (NPY)": unread,
        "the least server there could be": lambda: least(1),
        "the same, where two processes read a body while it comes": lambda: least(2),
    }


def _start(
    peer: Peer, python: Path, scratch: Path, model: Path, case: Case, question: SampleRequest
) -> Stack:
    folder = Path(tempfile.mkdtemp(dir=scratch))
    port = free_port()
    how = peer.start(python, folder, model, port, case)
    accept = {"Accept": case.content_type}
    target = Target("127.0.0.1", port, how.path, peer.body(question, case), case.content_type, accept)
    ping = Target("127.0.0.1", port, how.ping, None)
    stack = start(how.command, how.environment, target, ping, folder / "server.log")
    given = _answer(target, case)
    if not _close(given, question.answer):
        stack.end()
        raise StackFailed(f"it answers {given[:3]} and not {question.answer[:3]}")
    return stack


def _answer(target: Target, case: Case) -> list[float]:
    """The numbers of an answer in any stack's format."""
    import io
    import urllib.request

    headers = {"Content-Type": case.content_type, "Accept": case.content_type}
    request = urllib.request.Request(target.url, target.body, headers)
    with urllib.request.urlopen(request, timeout=60) as answer:
        content = answer.read()
    if content.startswith(b"\x93NUMPY"):
        import numpy as np

        return np.load(io.BytesIO(content), allow_pickle=False).ravel().tolist()
    return _numbers(json.loads(content))


def _numbers(output: Any) -> list[float]:
    if isinstance(output, dict):
        return _numbers(output["outputs"][0]["data"] if "outputs" in output else output["predictions"])
    if isinstance(output, list):
        return [number for part in output for number in _numbers(part)]
    return [float(output)]


def _close(given: list[float], wanted: list[float]) -> bool:
    return len(given) == len(wanted) and all(
        math.isclose(left, other, rel_tol=1e-2, abs_tol=1e-3)
        for left, other in zip(given, wanted, strict=True)
    )


def _round(case: Case, here: Reference, table: Table, stacks: list[tuple[Row, Stack]], scratch: Path) -> None:
    for batch in _BATCHES.get(case.model, ()):
        table.ceilings.setdefault(batch, []).append(here.ceiling(batch, min(2.0, case.seconds)))
    for clients in case.clients:
        for row, stack in stacks:
            reading, _ = measurement.measure(stack, clients, case.seconds, scratch)
            row.readings.setdefault(clients, []).append(reading)
            print(
                f"  {clients:3} clients {reading.rate:8,.1f}/s  p50 {reading.p50 * 1e3:7.2f}  p99 {reading.p99 * 1e3:7.1f} ms"
                f"  CPU {reading.cpu * 1e6:6,.0f} us  others {reading.others:.1f}  {row.name}"
                + (f"  {reading.failed} failed" if reading.failed else ""),
                flush=True,
            )


def _look_while_busy(case: Case, row: Row, stack: Stack, scratch: Path) -> None:
    """Memory after loading, and the latency of `/ping` under the highest number of clients."""
    clients = case.clients[-1]
    stack.go_on()
    load = threading.Thread(target=generators.load, args=(stack.target, clients, case.seconds + 1, scratch))
    load.start()
    time.sleep(0.5)
    pings = open_loop(
        stack.ping, _PING_RATE, case.seconds - 0.5, Load(connections=4, warm_up=0.0, timeout=10.0)
    )
    row.ping_p99[clients] = pings.latency.percentile(99)
    row.memory = stack.memory()
    load.join()
    stack.pause()
    print(
        f"  ping p99 {row.ping_p99[clients] * 1e3:.1f} ms, {row.memory / 1e6:.0f} MB  {row.name}", flush=True
    )


def _bare_load(model: Path) -> float:
    """Seconds that a process takes to import torch and load the model."""
    code = f"import sys; sys.path.insert(0, {str(HANDLERS)!r}); import inference; inference.model_fn({str(model)!r})"
    began = time.perf_counter()
    subprocess.run([sys.executable, "-c", code], check=True)
    return time.perf_counter() - began


def _write(tables: list[Table], facts: dict[str, Any], quick: bool) -> None:
    """Write the results; earlier cases of the same kind of machine that were not measured now are kept."""
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"serve-{report.file_words()}{'-quick' if quick else ''}.json"
    before = (
        [Table.from_json(case) for case in json.loads(path.read_text())["cases"]] if path.exists() else []
    )
    now = {table.name: table for table in tables}
    order = [case.name for case in FULL]
    kept = [table for table in before if table.name not in now and table.name in order]
    together = sorted([*kept, *tables], key=lambda table: order.index(table.name))
    path.write_text(json.dumps(report.as_json(together, facts), indent=1) + "\n")
    path.with_suffix(".md").write_text(report.as_markdown(together, facts).rstrip() + "\n")


def _aims(table: Table) -> list[tuple[str, bool, str]]:
    own = next((row for row in table.rows if row.name == report.OWN and not row.skipped), None)
    peers = [row for row in table.rows if row is not own and not row.skipped]
    if own is None:
        return []
    aims: list[tuple[str, bool, str]] = []
    if table.name.startswith("mlp, ") and peers:
        at_64 = {row.name: report.ratio(own, row, 64) or 0.0 for row in peers}
        slowest = min(at_64, key=lambda name: at_64[name])
        aims.append(
            (
                f"{table.name}: 5 times each peer at 64 clients",
                at_64[slowest] >= 5,
                f"{at_64[slowest]:.1f} times {slowest}",
            )
        )
        best = min(report.p99(row, 64) for row in peers)
        mine = report.p99(own, 64)
        aims.append(
            (
                f"{table.name}: p99 below theirs at 64 clients",
                mine < best,
                f"{mine * 1e3:.0f} ms beside {best * 1e3:.0f}",
            )
        )
        at_1 = min(report.ratio(own, row, 1) or 0.0 for row in peers)
        aims.append(
            (f"{table.name}: no slower than any at 1 client", at_1 >= 1, f"{at_1:.2f} times the quickest")
        )
    for clients, shares in table.beside.items():
        share = statistics.median(shares)
        what = f"{table.name}: within 5 % of the bare loop, {clients} at a time"
        without = 100 * statistics.median(table.without_server)
        output = f"{100 * share:.1f} % of it; without a server reading and writing leave {without:.1f} %"
        if clients == 1:
            output += "".join(
                f"; {name}: {100 * statistics.median(paces):.1f} %" for name, paces in table.bounds.items()
            )
        aims.append((what, share >= 0.95, output))
    ping = max(own.ping_p99.values(), default=0.0)
    aims.append((f"{table.name}: /ping p99 under 10 ms while busy", ping < 0.01, f"{ping * 1e3:.1f} ms"))
    beside = own.cold_ping - table.bare_load
    aims.append((f"{table.name}: /ping 200 under a second beside the load", beside < 1, f"{beside:.2f} s"))
    return aims


def _aim(what: str, met: bool, figure: str) -> bool:
    print(f"{'met   ' if met else 'MISSED'} {what}: {figure}")
    return met


if __name__ == "__main__":
    sys.exit(main())
