"""Show what GPUproof's runs have cost, with what spot capacity saved.

The amounts come from the runs' own records: billed seconds times list prices. Runs on this machine cost nothing and are left out.
Batch transform jobs that GPUproof created count with their billed time, its endpoints with the instances that they have now since their
creation, and its notebook instances since their last start: AWS keeps no record of earlier ones.

--cost-explorer adds AWS's bill by the tag `gpuproof:job`, by day and by job. AWS bills $0.01 for each such request.
"""

from __future__ import annotations

import argparse
import json
import sys
from typing import TYPE_CHECKING

from gpuproof.cli.arguments import add_command, add_format_flag

if TYPE_CHECKING:
    from gpuproof.cli.arguments import Subparsers
    from gpuproof.units import Duration

_GROUPINGS = ("day", "job", "type", "backend")


def add_parser(commands: Subparsers) -> None:
    """Add `gpuproof cost` to the command line."""
    parser = add_command(commands, "cost", "show what GPUproof's runs have cost", __doc__)
    parser.add_argument(
        "--since",
        default="30d",
        metavar="AGE",
        type=_duration,
        help="only runs that were created within this time (default: 30d)",
    )
    parser.add_argument(
        "--by", choices=_GROUPINGS, default="job", help="one line for each of these (default: job)"
    )
    parser.add_argument("--region", help="AWS region (default: AWS_REGION)")
    parser.add_argument(
        "--cost-explorer", action="store_true", help="also show AWS's bill; AWS bills $0.01 for the request"
    )
    add_format_flag(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Entry point of `gpuproof cost`."""
    from gpuproof.app.account.cost import collect_cost
    from gpuproof.settings import colour

    result = collect_cost(
        arguments.since, arguments.by, arguments.region, cost_explorer=arguments.cost_explorer
    )
    as_json = arguments.format == "json"
    print(json.dumps(result.to_json(), indent=2) if as_json else result.table(colour=colour()))
    for problem in result.problems:
        print(f"gpuproof: {problem}", file=sys.stderr)
    return result.exit_code


def _duration(text: str) -> Duration:
    """`30d`; raises UnitError."""
    from gpuproof.units import Duration

    return Duration.parse(text)
