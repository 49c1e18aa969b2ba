"""Run a job and give a verdict on its GPU use.

TARGET is a script, a tarmac.yaml or a folder that holds one; without it, the tarmac.yaml of the working directory is
meant. What follows `--` goes to the script.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tarmac.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from tarmac.cli.arguments import Verbs
    from tarmac.cli.console import Console
    from tarmac.cli.interrupts import HeldInterrupt
    from tarmac.jobs.spec import Job
    from tarmac.places.local.control import LocalRun
    from tarmac.places.local.launcher import LocalPlan
    from tarmac.places.local.place import LocalPlace


def add_parser(verbs: Verbs) -> None:
    """Describe `tarmac run`."""
    parser = verbs.add_parser(
        "run",
        help="run a job and give a verdict on its GPU use",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        usage="tarmac run [TARGET [NAME]] [flags] [-- SCRIPT ARGUMENTS]",
        epilog="examples:\n  tarmac run train.py -- --epochs 5\n  tarmac run\n  tarmac run jobs/tarmac.yaml train -p epochs=5",
        allow_abbrev=False,
    )
    parser.add_argument("target", nargs="?", metavar="TARGET", help="a script, a tarmac.yaml or its folder")
    parser.add_argument(
        "job", nargs="?", metavar="NAME", help="which job of the file, where it holds several"
    )
    what = parser.add_argument_group("the job (each takes the place of what the file says)")
    what.add_argument("--name", help="the job's name")
    what.add_argument(
        "--input",
        action="append",
        default=[],
        metavar="CHANNEL=SOURCE",
        help="a channel and its folder, file or s3:// address",
    )
    what.add_argument(
        "-p",
        "--hyperparameter",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a hyperparameter; the script gets --NAME VALUE",
    )
    what.add_argument(
        "--env", action="append", default=[], metavar="NAME=VALUE", help="a variable for the script"
    )
    what.add_argument(
        "--instance-type", metavar="TYPE", help="such as ml.g5.xlarge: its GPUs are expected to work"
    )
    what.add_argument("--instance-count", type=int, metavar="N", help="how many hosts; this machine runs one")
    what.add_argument("--gpu", metavar="REQUEST", help="GPUs that are expected to work, such as A10G:1 or 2")
    what.add_argument("--max-duration", metavar="TIME", help="stop the script after that time, such as 90m")
    what.add_argument(
        "--require-gpu",
        action=argparse.BooleanOptionalAction,
        help="without a GPU do not start; leave with code 4 if a GPU that was asked for does no work",
    )
    how = parser.add_argument_group("how it runs")
    how.add_argument("--on", default="local", choices=["local"], help="the place: local is this machine")
    how.add_argument("--python", metavar="PYTHON", help="the script's interpreter or virtual environment")
    how.add_argument("--fresh", action="store_true", help="begin without an earlier attempt's checkpoints")
    how.add_argument(
        "--isolation",
        default="auto",
        choices=["auto", "namespace", "proot", "environment"],
        help="how /opt/ml is made private (default: the best that this host allows)",
    )
    how.add_argument("--no-check", action="store_true", help="start it whatever `tarmac check` says")
    how.add_argument("--detach", action="store_true", help="return as soon as it is on its way")
    how.add_argument("--dry-run", action="store_true", help="show what would be done, and do nothing")
    how.add_argument(
        "--format", default="text", choices=["text", "json"], help="json: results on standard output"
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Carry `tarmac run` out."""
    # pydantic and PyYAML come with these: nothing before this line needs them.
    from tarmac.cli.console import Console
    from tarmac.cli.interrupts import HeldInterrupt
    from tarmac.cli.preflight import check_before_running
    from tarmac.places.local import launcher
    from tarmac.places.local.place import LocalPlace

    job = _read_job(arguments)
    chosen = launcher.plan(job, python=arguments.python, isolation=arguments.isolation, fresh=arguments.fresh)
    as_json = arguments.format == "json"
    console = Console(output=sys.stderr.buffer if as_json else None)
    if not arguments.no_check:
        check_before_running(chosen.job, console)
    if arguments.dry_run:
        return _dry_run(chosen, console, as_json)
    place = LocalPlace()
    chosen = _fetched(place, chosen, console)
    with HeldInterrupt() as interrupt:
        started = place.start(chosen)
        if arguments.detach:
            return _detached(started, chosen, console, as_json)
        return _followed(started, chosen, console, as_json, interrupt)


def _fetched(place: LocalPlace, chosen: LocalPlan, console: Console) -> LocalPlan:
    """The plan with its inputs on this machine."""
    if not chosen.remote:
        return chosen
    from tarmac.cli.downloads import ShownDownloads

    try:
        return place.fetch(chosen, ShownDownloads(console))
    finally:
        console.end_progress()


def _followed(
    started: LocalRun, chosen: LocalPlan, console: Console, as_json: bool, interrupt: HeldInterrupt
) -> int:
    from tarmac.cli.following import final_document, follow_to_the_end

    def first() -> None:
        interrupt.release()
        _introduce(started, chosen, console)

    code = follow_to_the_end(started, console, first=first)
    if as_json:
        print(final_document(started))
    return code


def _detached(started: LocalRun, chosen: LocalPlan, console: Console, as_json: bool) -> int:
    import json

    if as_json:
        print(json.dumps({"version": 1, "id": started.id, "folder": str(started.paths.root)}, indent=2))
    else:
        _introduce(started, chosen, console)
        console.label("", f"goes on by itself: tarmac logs -f {started.id}")
    return ExitCode.OK


def _read_job(arguments: argparse.Namespace) -> Job:
    from tarmac.jobs import Changes, load_job, override_job

    path, name = find_target(arguments.target, arguments.job, Path.cwd())
    changes = Changes(
        name=arguments.name,
        inputs=arguments.input,
        hyperparameters=arguments.hyperparameter,
        environment=arguments.env,
        instance_type=arguments.instance_type,
        instance_count=arguments.instance_count,
        gpu=arguments.gpu,
        max_duration=arguments.max_duration,
        require_gpu=arguments.require_gpu,
        arguments=arguments.script_arguments,
    )
    return override_job(load_job(path, name), changes, Path.cwd())


def find_target(target: str | None, name: str | None, folder: Path) -> tuple[Path, str | None]:
    """The file that is meant, and the name of the job in it.

    Raises:
        UsageError: there is no such file.
    """
    standard = _description_in(folder)
    if target is None:
        if standard is None:
            raise UsageError(
                f"There is no tarmac.yaml in {folder} and no script was named.",
                remedy="tarmac run train.py -- --epochs 5",
            )
        return standard, name
    path = folder / Path(target).expanduser()
    # A job may well be called like the folder of its code.
    named = standard if name is None and "/" not in target and not path.suffix else None
    if path.is_dir() and (named is None or _description_in(path) is not None):
        return find_target(None, name, path)
    if named is not None and not path.is_file():
        return named, target
    return path, name


def _description_in(folder: Path) -> Path | None:
    return next((folder / file for file in ("tarmac.yaml", "tarmac.yml") if (folder / file).is_file()), None)


def _introduce(started: LocalRun, chosen: LocalPlan, console: Console) -> None:
    console.label("run", started.id)
    _show_plan(chosen, console)


def _show_plan(chosen: LocalPlan, console: Console) -> None:
    from tarmac.agent.frameworks import installed_frameworks
    from tarmac.places.local.installed import framework_note

    installed = installed_frameworks(chosen.python)
    for label, text in describe(chosen):
        console.label(label, text)
    if installed:
        console.label("framework", ", ".join(f"{name} {version}" for name, version in installed.items()))
    note = framework_note(chosen.job, installed)
    for text in [*chosen.notes, *([note] if note else [])]:
        console.label("note", text)


def _dry_run(chosen: LocalPlan, console: Console, as_json: bool) -> int:
    from tarmac.agent.paths import RunPaths
    from tarmac.places.local.launcher import order_for
    from tarmac.places.local.order import order_document

    if as_json:
        import json

        order = order_document(order_for(chosen, RunPaths(Path("RUN"))))
        print(json.dumps({"version": 1, "order": order, "notes": chosen.notes}, indent=2, default=str))
        return ExitCode.OK
    console.label("dry run", f"of '{chosen.job.name}': nothing was made")
    _show_plan(chosen, console)
    return ExitCode.OK


def describe(chosen: LocalPlan) -> list[tuple[str, str]]:
    """What a run will do, as labelled lines."""
    from tarmac.agent.contract import script_arguments
    from tarmac.agent.paths import RunPaths
    from tarmac.cli.words import counted, size
    from tarmac.places.local.launcher import order_for

    job = chosen.job
    order = order_for(chosen, RunPaths(Path("/")))
    command = " ".join([job.entry_point, *script_arguments(order)])
    files = (
        f"{counted(len(chosen.tree.files), 'file')}, {size(chosen.tree.total_bytes)} from {job.source_dir}"
    )
    lines = [("script", command), ("code", files), ("python", chosen.python)]
    lines += [("input", f"/opt/ml/{one.target} is {one.source}") for one in order.mounts]
    lines += [
        ("output", f"/opt/ml/{one.target} goes to {one.destination or 'the run'}") for one in order.outputs
    ]
    lines.append(("GPU", _gpu_line(chosen)))
    if order.max_duration is not None:
        lines.append(("limit", f"stopped after {job.max_duration}"))
    return lines


def _gpu_line(chosen: LocalPlan) -> str:
    expected, here = chosen.expected, chosen.gpus_here
    there = f"this machine has {here}" if here else "this machine has none: the script runs on the CPU"
    if expected.count is None:
        return f"none asked for; {there}"
    if expected.count == 0:
        return f"none asked for ({expected.because}); {there}"
    return f"{expected.count} x {expected.name or 'any model'} asked for ({expected.because}); {there}"
