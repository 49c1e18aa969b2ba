"""The two load generators: wrk, which takes little of the cores it shares with the server, and GPUproof's own."""

from __future__ import annotations

import json
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from gpuproof.loadtest import Load, Target, closed_loop

_SCRIPT = """
local file = io.open("{body}", "rb")
wrk.method = "POST"
wrk.body = file:read("*a")
wrk.headers["Content-Type"] = "{content_type}"
wrk.headers["Accept"] = "{content_type}"
done = function(summary, latency, requests)
  local errors = summary.errors
  io.write(string.format(
    '\\nRESULT {{"count": %d, "us": %d, "p50": %f, "p99": %f, "failed": %d}}\\n',
    summary.requests, summary.duration, latency:percentile(50), latency:percentile(99),
    errors.status + errors.connect + errors.read + errors.write + errors.timeout))
end
"""


@dataclass(frozen=True)
class Reading:
    """One measurement.

    Args:
        rate: successful answers a second.
        p50, p99: seconds from sending to answer.
        failed: requests that failed.
        cpu: CPU seconds of the server's processes per successful answer.
        others: cores that other programs kept busy meanwhile, on average.
    """

    rate: float
    p50: float
    p99: float
    failed: int
    cpu: float = 0.0
    others: float = 0.0


def name() -> str:
    """The name of the generator in use."""
    return "wrk" if shutil.which("wrk") else "gpuproof.loadtest"


def load(target: Target, clients: int, seconds: float, scratch: Path) -> Reading:
    """Run closed-loop clients, which wait for each answer, for the given seconds."""
    return (_wrk if shutil.which("wrk") else _own)(target, clients, seconds, scratch)


def _wrk(target: Target, clients: int, seconds: float, scratch: Path) -> Reading:
    body, script = scratch / "body", scratch / "load.lua"
    body.write_bytes(target.body or b"")
    script.write_text(_SCRIPT.format(body=body, content_type=target.content_type))
    command = ["wrk", "-t1", f"-c{clients}", f"-d{max(1, round(seconds))}s", "--timeout", "60s"]
    done = subprocess.run(
        [*command, "-s", str(script), target.url], capture_output=True, text=True, timeout=seconds + 90
    )
    line = next((line for line in done.stdout.splitlines() if line.startswith("RESULT ")), None)
    if line is None:
        raise RuntimeError(f"wrk said: {done.stdout} {done.stderr}")
    output = json.loads(line.removeprefix("RESULT "))
    good = output["count"] - output["failed"]
    return Reading(good / (output["us"] / 1e6), output["p50"] / 1e6, output["p99"] / 1e6, output["failed"])


def _own(target: Target, clients: int, seconds: float, _scratch: Path) -> Reading:
    load = Load(connections=clients, warm_up=0.0, timeout=60.0)
    result = closed_loop(target, clients, 1_000_000, load, max_seconds=seconds)
    return Reading(
        result.throughput,
        result.latency.percentile(50),
        result.latency.percentile(99),
        result.sent - result.good,
    )
