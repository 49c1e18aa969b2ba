"""Measure an endpoint: latency, highest rate, cost per million requests.

Requests are sent on schedule, whether or not earlier ones were answered (open loop); latencies are measured from the
scheduled time. Without --rate, it searches for the highest rate whose p99 stays below --p99. A URL without a path means
/invocations.
"""

from __future__ import annotations

import argparse
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpuproof.cli.arguments import add_command, add_format_flag
from gpuproof.errors import ExitCode, GPUproofError, UsageError

if TYPE_CHECKING:
    from gpuproof.catalogue import Price
    from gpuproof.cli.arguments import Subparsers
    from gpuproof.cli.console import Console
    from gpuproof.loadtest import Load, Result, SearchResult, Target, Trial

SCHEMA_VERSION = 1
MAX_SECONDS = 600.0
_SPAN = re.compile(r"(\d{1,9}(?:\.\d{1,6})?)\s*(us|ms|s|m)?")
_SECONDS = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0}
_DEFAULT_BODY = b"[[0.0]]"


def add_parser(commands: Subparsers) -> None:
    """Add `gpuproof bench-endpoint` to the command line."""
    parser = add_command(
        commands,
        "bench-endpoint",
        "measure an endpoint: latency, highest rate, cost per million requests",
        __doc__,
    )
    parser.add_argument("url", metavar="URL", help="the endpoint, such as http://127.0.0.1:8080")
    parser.add_argument(
        "--request",
        metavar="FILE",
        help=f"file with the body of each request (default body: {_DEFAULT_BODY.decode()})",
    )
    parser.add_argument(
        "--content-type", metavar="T", help="content type of the body (default: by the file name)"
    )
    load = parser.add_mutually_exclusive_group()
    load.add_argument("--rate", type=float, metavar="R", help="number of requests per second to send")
    load.add_argument(
        "--find-rate",
        action="store_true",
        help="search for the highest rate with a p99 below --p99 (default)",
    )
    parser.add_argument("--p99", metavar="50ms", help="latency target (default with --find-rate: 50ms)")
    parser.add_argument(
        "--duration",
        default="10s",
        metavar="10s",
        help="duration of each measurement, at most 10m (default: 10s)",
    )
    parser.add_argument(
        "--warm-up",
        default="1s",
        metavar="1s",
        help="load before a measurement that is not counted (default: 1s)",
    )
    parser.add_argument("--timeout", default="10s", metavar="10s", help="timeout of a request (default: 10s)")
    parser.add_argument(
        "--connections",
        type=int,
        default=128,
        metavar="N",
        help="maximum number of connections, 1 to 512 (default: 128)",
    )
    parser.add_argument(
        "--arrivals",
        choices=["poisson", "constant"],
        default="poisson",
        help="distribution of arrivals (default: poisson)",
    )
    parser.add_argument(
        "--instance-type", metavar="ml.g5.xlarge", help="instance type of the endpoint, for the cost"
    )
    parser.add_argument("--region", metavar="us-west-2", help="region of the price (default: us-east-1)")
    parser.add_argument(
        "--yes-load",
        action="store_true",
        help="confirm that you may put load on a server that is not this machine",
    )
    add_format_flag(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Entry point of `gpuproof bench-endpoint`."""
    from gpuproof.cli.console import Console
    from gpuproof.loadtest import Load, open_loop
    from gpuproof.loadtest.find_rate import MAX_RATE

    target = _target(arguments)
    goal = _seconds("--p99", arguments.p99) if arguments.p99 else None
    seconds = _seconds("--duration", arguments.duration, MAX_SECONDS)
    load = Load(
        connections=_connections(arguments.connections),
        warm_up=_seconds("--warm-up", arguments.warm_up, MAX_SECONDS, least=0.0),
        timeout=_seconds("--timeout", arguments.timeout, MAX_SECONDS),
        arrivals=arguments.arrivals,
    )
    price = _price(arguments.instance_type, arguments.region)
    if arguments.rate is not None and not 0 < arguments.rate <= MAX_RATE:
        raise UsageError(f"--rate must be a number of requests per second, up to {MAX_RATE:,.0f}.")
    _check_request(target)
    console = Console()
    report: dict[str, Any] = {"version": SCHEMA_VERSION, "url": target.url}
    if arguments.rate is None:
        found = _find(target, goal or 0.05, seconds, load, console)
        result = found.best.result if found.best else None
        report.update(_found_json(found, goal or 0.05))
        code = _code(result is not None, found.interrupted)
    else:
        found = None
        result = open_loop(target, arguments.rate, seconds, load)
        met = None if goal is None else result.share_missed(goal) <= 0.01
        report.update(p99_target=goal, met=met)
        code = _code(result.good > 0 and met is not False, result.interrupted)
    cost = _cost(price, result)
    report.update(result=result.as_json() if result else None, cost=cost)
    if arguments.format == "json":
        print(json.dumps(report, indent=2))
    else:
        _show(target, result, found, goal, load, cost)
    return code


def _target(arguments: argparse.Namespace) -> Target:
    from gpuproof.backends.sagemaker.endpoints.invocation.payload import check_content_type
    from gpuproof.loadtest import Target
    from gpuproof.serve.model.warmup import content_type_of

    body, content_type = _DEFAULT_BODY, "application/json"
    if arguments.request:
        path = Path(arguments.request)
        try:
            body = path.read_bytes()
        except OSError as error:
            raise UsageError(
                f"{path} cannot be read: {error.strerror}.",
                remedy="--request must be a file with the body of one request.",
            ) from error
        content_type = content_type_of(path)
    given = check_content_type("--content-type", arguments.content_type)
    target = Target.parse(arguments.url, body, given or content_type)
    if not target.loopback and not arguments.yes_load:
        raise UsageError(
            f"{target.host} may not be this machine. Load can cost money, trigger autoscaling and make a service unavailable "
            "to its users.",
            remedy="If you may put load on it, add --yes-load.",
        )
    return target


def _seconds(flag: str, text: str, most: float = 3600.0, least: float = 1e-6) -> float:
    written = _SPAN.fullmatch(text.strip().lower())
    seconds = float(written[1]) * _SECONDS[written[2] or "s"] if written else -1.0
    if not least <= seconds <= most:
        raise UsageError(
            f"{flag} {text} is not a duration up to {most:g} s.",
            remedy=f"Write, for example, {flag} 50ms or {flag} 10s.",
        )
    return seconds


def _connections(number: int) -> int:
    from gpuproof.loadtest.load import MAX_CONNECTIONS

    if not 1 <= number <= MAX_CONNECTIONS:
        raise UsageError(f"--connections must be a number from 1 to {MAX_CONNECTIONS}.")
    return number


def _price(instance_type: str | None, region: str | None) -> Price | None:
    if instance_type is None:
        if region is not None:
            raise UsageError(
                "--region has no effect without --instance-type.", remedy="Add --instance-type ml.g5.xlarge"
            )
        return None
    from gpuproof.catalogue import Catalogue
    from gpuproof.catalogue.names import reject_unknown_region, reject_unknown_type

    use = "endpoint" if instance_type.startswith("ml.") else None
    catalogue = Catalogue.load()
    reject_unknown_type(instance_type, catalogue)
    reject_unknown_region(region, catalogue)
    price = catalogue.price(instance_type, region or "us-east-1", use)
    if price is None:
        raise UsageError(
            f"The catalogue has no price for {instance_type} in {region or 'us-east-1'}.",
            remedy="gpuproof gpus lists types and prices; gpuproof catalogue refresh reads them from AWS.",
        )
    return price


def _check_request(target: Target) -> None:
    """Sends one request first: load with a body that the model rejects would measure error responses."""
    from gpuproof.loadtest import probe

    answer = probe(target)
    if answer.status < 400:
        return
    said = answer.body.decode("utf-8", "replace").strip()
    raise GPUproofError(
        f"{target.url} answers {answer.status} to this request, so nothing was measured"
        + (f". Response: {said}" if said else "."),
        remedy="Set a body that the model accepts with --request FILE, and its type with --content-type.",
    )


def _find(target: Target, goal: float, seconds: float, load: Load, console: Console) -> SearchResult:
    from dataclasses import replace

    from gpuproof.loadtest import Goal, closed_loop, find_rate, open_loop

    # Four times the target is a miss; waiting longer would only make the search longer.
    load = replace(load, timeout=min(load.timeout, max(1.0, 4 * goal)))

    def show_trial(trial: Trial) -> None:
        p99 = _milliseconds(trial.result.latency.percentile(99))
        console.print(f"{trial.rate:10,.1f}/s  p99 {p99:>10}  {'met' if trial.met else 'missed'}")

    # Serves as the warm-up too: a closed loop cannot overload the server.
    first = closed_loop(target, load.connections, 100_000, load, max_seconds=max(1.0, load.warm_up))
    if first.interrupted or not first.good:
        return _no_rate_found(first)
    return find_rate(
        lambda rate, length: open_loop(target, rate, length, load),
        Goal(goal),
        max(1.0, first.throughput / 2),
        seconds,
        show_trial,
    )


def _no_rate_found(first: Result) -> SearchResult:
    from gpuproof.loadtest import SearchResult

    return SearchResult(None, (), interrupted=first.interrupted)


def _cost(price: Price | None, result: Result | None) -> dict[str, Any] | None:
    if price is None:
        return None
    from gpuproof.catalogue.prices import is_old
    from gpuproof.settings import today

    throughput = result.throughput if result else 0.0
    return {
        "instance_type": price.instance_type,
        "region": price.region,
        "usd_per_hour": price.usd_per_hour,
        "price_kind": price.kind,
        "price_as_of": price.as_of,
        "price_is_old": is_old(price, today()),
        "usd_per_million_requests": (
            round(price.usd_per_hour / (throughput * 3600) * 1e6, 4) if throughput else None
        ),
    }


def _code(well: bool, interrupted: bool) -> int:
    if interrupted:
        return ExitCode.INTERRUPTED
    return ExitCode.OK if well else ExitCode.FAILED


def _found_json(found: SearchResult, goal: float) -> dict[str, Any]:
    return {
        "p99_target": goal,
        "highest_rate": round(found.best.rate, 2) if found.best else None,
        "generator_was_the_limit": found.generator_limited,
        "interrupted": found.interrupted,
        "trials": [{"met": trial.met, **trial.result.as_json()} for trial in found.trials],
    }


def _show(
    target: Target,
    result: Result | None,
    found: SearchResult | None,
    goal: float | None,
    load: Load,
    cost: dict[str, Any] | None,
) -> None:
    import sys

    from gpuproof.cli.console import Console
    from gpuproof.util.humanize import format_bytes

    console = Console(own=sys.stdout)
    console.label("target", f"{target.url}, {format_bytes(len(target.body or b''))} of {target.content_type}")
    if found:
        console.label("highest", _highest(found, goal or 0.05))
        result = result or (found.trials[-1].result if found.trials else None)
    if result is None:
        return
    console.label(
        "load",
        f"{result.rate or 0:,.1f} requests per second, {load.arrivals} arrivals, at most {load.connections} connections"
        + (", interrupted" if result.interrupted else ""),
    )
    if not result.outcomes and not result.interrupted:
        console.label(
            "answers",
            "none: no request was scheduled in that time; use a longer --duration or a higher --rate",
        )
        return
    answers = ", ".join(f"{count:,} x {outcome}" for outcome, count in result.outcomes.most_common())
    console.label(
        "answers",
        f"{answers or 'none'}; {result.throughput:,.1f} successful per second in {result.seconds:.1f} s",
    )
    spread = [
        f"p{percent:g} {_milliseconds(result.latency.percentile(percent))}" for percent in (50, 90, 99, 99.9)
    ]
    console.label(
        "latency",
        f"{', '.join(spread)}, max {_milliseconds(result.latency.highest)}, from the scheduled time",
    )
    if goal and not found:
        met = result.share_missed(goal) <= 0.01
        console.label(
            "p99", f"{'under' if met else 'NOT under'} {_milliseconds(goal)} (failures count as missed)"
        )
    lag = _milliseconds(result.lag.percentile(99))
    console.label("generator", f"late by {lag} at p99, {100 * result.cpu_share:.0f} % of a core")
    if result.generator_limited:
        console.label(
            "",
            "The load generator or this machine was the bottleneck: these figures do not describe the server.",
        )
    if cost:
        each = cost["usd_per_million_requests"]
        derived = "~" if cost["price_kind"] == "derived" else ""
        console.label(
            "cost",
            f"{cost['instance_type']} in {cost['region']}: {derived}${cost['usd_per_hour']:.4g} an hour (as of "
            f"{cost['price_as_of']}{', more than a year ago' if cost['price_is_old'] else ''}), "
            + (f"{derived}${each:.4g} per million requests" if each else "no successful requests"),
        )


def _highest(found: SearchResult, goal: float) -> str:
    target = f"p99 under {_milliseconds(goal)}"
    why = "; the load generator or this machine was the limit" if found.generator_limited else ""
    if found.best is None:
        return (
            f"interrupted before any rate met {target}" if found.interrupted else f"no rate met {target}{why}"
        )
    least = "at least " if found.generator_limited or found.interrupted else ""
    return f"{least}{found.best.rate:,.1f} requests per second with {target}{why}"


def _milliseconds(seconds: float) -> str:
    value = seconds * 1e3
    if 0 < value < 0.1:
        return f"{value * 1e3:.0f} us"
    return f"{value:.2f} ms" if value < 10 else f"{value:.1f} ms" if value < 100 else f"{value:,.0f} ms"
