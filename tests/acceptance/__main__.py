"""`make acceptance`: run GPUproof's commands on an account of AWS, for less than $5, and record what only an account knows.

docs/acceptance.md describes it. The steps are a table: `--list` prints them with their prices.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

from acceptance import facts
from acceptance.runner import Runner, StepFailed
from acceptance.steps import OTHER_USD, STEPS, total_usd
from acceptance.target import current_target


def main() -> int:
    """Run it; exit codes: 0 passed, 1 a step failed, 2 wrong usage, 130 interrupted."""
    arguments = _parser().parse_args()
    region = arguments.region
    if not region:
        print("Which region? Set AWS_REGION, or use --region.", file=sys.stderr)
        return 2
    try:
        _print_steps(region)
        if arguments.list:
            return 0
        target = current_target(arguments.simulated_gpu)
        runner = Runner(
            target,
            arguments.folder.resolve(),
            region,
            only_printed_policies=arguments.only_printed_policies,
            report=_report,
        )
        if arguments.start:
            runner.forget_from(arguments.start)
    except (ValueError, StepFailed) as error:
        print(error, file=sys.stderr)
        return 2
    if not arguments.yes and not _confirmed():
        return 2
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    try:
        runner.run()
    except StepFailed as failed:
        print(f"FAILED: {failed}", file=sys.stderr)
        print(
            f"Answers: {arguments.folder}/answers. The same command continues; --from STEP goes back.",
            file=sys.stderr,
        )
        return 1
    except KeyboardInterrupt:
        print("Interrupted; the same command continues.", file=sys.stderr)
        return 130
    if arguments.remove_setup:
        words = [sys.executable, "-m", "gpuproof", "setup", "--remove", "--include-data", "--yes"]
        if subprocess.run(words, env={**os.environ, "AWS_REGION": region}).returncode != 0:
            return 1
    print(f"passed     {arguments.folder}/acceptance.json: add it to tests/acceptance/recorded/")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="make acceptance", description=(__doc__ or "").partition("\n")[0])
    add = parser.add_argument
    add("--region", default=os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION"))
    add("--folder", type=Path, default=Path("build/acceptance"), help="state, answers and acceptance.json")
    add("--list", action="store_true", help="print the steps with their prices, and stop")
    add("--from", dest="start", metavar="STEP", help="repeat this step and all that follow")
    add("--yes", action="store_true", help="do not ask")
    add(
        "--only-printed-policies",
        action="store_true",
        help="the credentials are those of a user who has nothing but the policies of `gpuproof iam policy`",
    )
    add(
        "--remove-setup",
        action="store_true",
        help="at the end, delete what `gpuproof setup` has created, with its bucket",
    )
    add(
        "--simulated-gpu",
        type=Path,
        metavar="FOLDER",
        help="on the emulator: the folder of the stub NVML library",
    )
    return parser


def _print_steps(region: str) -> None:
    for step in STEPS:
        confirms = f" [{', '.join(step.facts)}]" if step.facts else ""
        print(f"{step.name:20} ${step.usd(region):5.2f} {step.minutes:4g} min  {step.proves}{confirms}")
    minutes = sum(step.minutes for step in STEPS)
    count = len({fact for step in STEPS for fact in step.facts})
    print(f"{'storage and the like':20} ${OTHER_USD:5.2f}")
    print(
        f"{'at most':20} ${total_usd(region):5.2f} {minutes:4g} min  {count} of {len(facts.facts())} unconfirmed facts"
    )


def _report(line: str) -> None:
    # Deletion goes on when the terminal is gone.
    with contextlib.suppress(OSError):
        print(line, flush=True)


def _confirmed() -> bool:
    try:
        return input("Run it in this account? [y/N] ").strip().lower() in ("y", "yes")
    except EOFError:
        return False


if __name__ == "__main__":
    sys.exit(main())
