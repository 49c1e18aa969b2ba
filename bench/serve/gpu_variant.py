"""One variant of one network: the bare loop, the server's answers compared with it, and the server under load."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import urllib.request
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

from gpuproof.loadtest import Target

from . import measurement
from .cases import NPY
from .generators import Reading
from .gpu_cases import Net, Plan, Variant, as_npy
from .gpu_device import BenchDevice
from .gpu_report import GpuRow
from .gpu_utilization import UtilizationMonitor
from .report import Row, without_paths
from .stack import ONE_THREAD, Stack, StackFailed, free_port, start

_LOOP = Path(__file__).parent / "bare_loop.py"
_PATIENCE_S = 600.0
"""For compiling a model for many sizes of batches, before it is healthy or predicts."""
_AT_ONCE = 16
_ASKED_TOGETHER = 4
"""Number of times that each item is requested concurrently with others."""


def measure(
    net: Net, variant: Variant, plan: Plan, place: BenchDevice, scratch: Path, watch: UtilizationMonitor
) -> GpuRow:
    """Measure a variant; returns its figures, or the reason why there are none.

    Args:
        scratch: a folder that holds afterwards the questions (`items.npy`), the bare loop's answers (`bare.npy`), the
            server's (`served.npy`; `together.npy` with the same question several times in a row, asked at once) and
            `server.log`.
        watch: a started monitor.
    """
    row = GpuRow(Row(variant.name), " ".join(variant.flags) or "none (fp32)")
    model = net.folder(scratch)
    items = net.items()
    (scratch / "items.npy").write_bytes(as_npy(items))
    try:
        _bare(row, model, variant, plan, place, scratch, watch)
        _served(row, model, items, variant, plan, place, scratch, watch)
        if plan.rounds > 1:
            _bare(row, model, variant, plan, place, scratch, watch)
    except (StackFailed, OSError, subprocess.TimeoutExpired) as error:
        row.served.skipped = without_paths(str(error))
        print(f"{net.name}, {variant.name}: not measured: {row.served.skipped}", flush=True)
    return row


def difference(given: Any, wanted: Any, tolerance: float) -> float:
    """The largest deviation of answers from the expected ones, as a share of the largest expected number.

    Args:
        given, wanted: arrays of shape (n, ...), one row a question; the questions are all different.
        tolerance: the largest accepted deviation.

    Raises:
        Failed: if the deviation is larger, or the answers are too similar to detect a mix-up.
    """
    import numpy as np

    if given.shape != wanted.shape:
        raise StackFailed(
            f"the server's answers have the shape {given.shape}, the bare loop's {wanted.shape}"
        )
    largest = float(np.abs(wanted).max())
    found = float(np.abs(given - wanted).max()) / largest
    if not found <= tolerance:
        raise StackFailed(
            f"the server's answers are not the bare loop's: they differ by {found:.1e} of the largest number, and "
            f"{tolerance:.0e} is allowed"
        )
    nearest = min(
        float(np.abs(output - two).max()) for at, output in enumerate(wanted) for two in wanted[:at]
    )
    if not nearest / largest > 2 * found:
        raise StackFailed("the answers to different questions are too much alike: a mix-up would not show")
    return found


def _bare(
    row: GpuRow,
    model: Path,
    variant: Variant,
    plan: Plan,
    place: BenchDevice,
    scratch: Path,
    watch: UtilizationMonitor,
) -> None:
    answers = scratch / "bare.npy"
    # Without -P its own folder would be on the path, before the handler's modules.
    command = [sys.executable, "-P", str(_LOOP), str(model), str(scratch / "items.npy"), str(answers)]
    command += ["--batches", ",".join(map(str, plan.batches)), "--seconds", str(plan.bare), *variant.flags]
    done = subprocess.run(
        command,
        env={**os.environ, **ONE_THREAD, **place.environment},
        capture_output=True,
        text=True,
        timeout=_PATIENCE_S,
    )
    if done.returncode:
        last = done.stderr.strip().splitlines()[-1:] or [f"exit code {done.returncode}"]
        raise StackFailed(f"the bare loop failed: {last[0]}")
    output = json.loads(done.stdout.splitlines()[-1])
    wanted = "cpu" if place.index is None else "cuda"
    if output["device"] != wanted:
        raise StackFailed(f"the bare loop's model is on {output['device']} and not on {wanted}")
    row.parameters = output["parameters"]
    for batch in plan.batches:
        measured = output["batches"][str(batch)]
        reading = Reading(measured["rate"], measured["p50"], measured["p99"], 0)
        row.bare.setdefault(batch, []).append(reading)
        if use := watch.during((measured["began"], measured["ended"])):
            row.bare_use.setdefault(batch, []).append(use)
        _say(f"bare, batches of {batch}", reading)


def _served(
    row: GpuRow,
    model: Path,
    items: Any,
    variant: Variant,
    plan: Plan,
    place: BenchDevice,
    scratch: Path,
    watch: UtilizationMonitor,
) -> None:
    port = free_port()
    question = scratch / "question.npy"
    question.write_bytes(as_npy(items[:1]))
    command = [sys.executable, "-m", "gpuproof", "serve", str(model), "--python", sys.executable]
    command += [
        "--host",
        "127.0.0.1",
        "--port",
        str(port),
        "--warmup",
        str(question),
        *place.flags,
        *variant.flags,
    ]
    target = Target("127.0.0.1", port, "/invocations", question.read_bytes(), NPY, {"Accept": NPY})
    ping = Target("127.0.0.1", port, "/ping", None)
    stack = start(command, place.environment, target, ping, scratch / "server.log", _PATIENCE_S)
    try:
        row.served.cold_ping, row.served.cold_answer = stack.cold_ping, stack.cold_answer
        row.difference = _compare(target, items, variant, scratch)
        for _ in range(plan.rounds):
            for clients in plan.clients:
                _load(row, stack, clients, plan, scratch, watch)
        row.served.memory = stack.memory()
    finally:
        stack.end()


def _compare(target: Target, items: Any, variant: Variant, scratch: Path) -> float:
    """The larger difference of single requests and of concurrent ones, which are batched."""
    import numpy as np

    wanted = np.load(scratch / "bare.npy")
    targets = [replace(target, body=as_npy(item[None])) for item in items]
    singly = _answers(targets, 1)
    np.save(scratch / "served.npy", singly)
    together = _answers(targets * _ASKED_TOGETHER, _AT_ONCE)
    np.save(scratch / "together.npy", together)
    found = [difference(singly, wanted, variant.tolerance)]
    found += [difference(part, wanted, variant.tolerance) for part in np.split(together, _ASKED_TOGETHER)]
    return max(found)


def _answers(targets: Sequence[Target], at_once: int) -> Any:
    """One row for each target, in their order."""
    import numpy as np

    with ThreadPoolExecutor(at_once) as pool:
        return np.concatenate(list(pool.map(_answer, targets)))


def _answer(target: Target) -> Any:
    import numpy as np

    headers = {"Content-Type": target.content_type, **target.headers}
    request = urllib.request.Request(target.url, target.body, headers)
    with urllib.request.urlopen(request, timeout=60) as answer:
        return np.load(io.BytesIO(answer.read()), allow_pickle=False)


def _load(
    row: GpuRow, stack: Stack, clients: int, plan: Plan, scratch: Path, watch: UtilizationMonitor
) -> None:
    reading, span = measurement.measure(
        stack, clients, plan.seconds, scratch, warm=plan.warm, tries=plan.tries
    )
    row.served.readings.setdefault(clients, []).append(reading)
    if use := watch.during(span):
        row.served_use.setdefault(clients, []).append(use)
    _say(f"served, {clients} clients", reading)


def _say(what: str, reading: Reading) -> None:
    print(
        f"  {what:24} {reading.rate:10,.1f} items/s  p50 {reading.p50 * 1e3:8.2f}  p99 {reading.p99 * 1e3:8.2f} ms"
        + (f"  {reading.failed} failed" if reading.failed else ""),
        flush=True,
    )
