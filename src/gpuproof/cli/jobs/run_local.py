"""`gpuproof run` on this machine."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from gpuproof.backends.local import plan
from gpuproof.backends.local.backend import LocalPlace
from gpuproof.cli.sigint import DeferredInterrupt
from gpuproof.errors import ExitCode

if TYPE_CHECKING:
    from gpuproof.backends.local.plan import LocalPlan
    from gpuproof.backends.local.run import LocalRun
    from gpuproof.jobs.spec import Job
    from gpuproof.terminal.console import Console


def plan_here(job: Job, arguments: argparse.Namespace) -> LocalPlan:
    """What a run on this machine would do; see `launcher.plan`."""
    return plan.plan(job, python=arguments.python, isolation=arguments.isolation, fresh=arguments.fresh)


def run_here(chosen: LocalPlan, arguments: argparse.Namespace, console: Console) -> int:
    """Start a planned run and follow it, or only show the plan; gives the exit code."""
    as_json = arguments.format == "json"
    if arguments.dry_run:
        return _dry_run(chosen, console, as_json)
    place = LocalPlace()
    chosen = _fetched(place, chosen, console)
    with DeferredInterrupt() as interrupt:
        started = place.start(chosen)
        if arguments.detach:
            return _detached(started, chosen, console, as_json)
        return _followed(started, chosen, console, as_json, interrupt)


def _fetched(place: LocalPlace, chosen: LocalPlan, console: Console) -> LocalPlan:
    """The plan with its inputs on this machine."""
    if not chosen.remote:
        return chosen
    from gpuproof.cli.jobs.downloads import ShownDownloads

    try:
        return place.fetch(chosen, ShownDownloads(console))
    finally:
        console.end_progress()


def _followed(
    started: LocalRun, chosen: LocalPlan, console: Console, as_json: bool, interrupt: DeferredInterrupt
) -> int:
    from gpuproof.cli.follow import final_document, follow_to_the_end

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
        console.label("", f"goes on by itself: gpuproof logs -f {started.id}")
    return ExitCode.OK


def _introduce(started: LocalRun, chosen: LocalPlan, console: Console) -> None:
    console.label("run", started.id)
    _show_plan(chosen, console)


def _show_plan(chosen: LocalPlan, console: Console) -> None:
    from gpuproof.backends.local.framework_check import framework_note
    from gpuproof.util.installed_frameworks import installed_frameworks

    installed = installed_frameworks(chosen.python)
    for label, text in describe(chosen):
        console.label(label, text)
    if installed:
        console.label("framework", ", ".join(f"{name} {version}" for name, version in installed.items()))
    note = framework_note(chosen.job, installed)
    for text in [*chosen.notes, *([note] if note else [])]:
        console.label("note", text)


def _dry_run(chosen: LocalPlan, console: Console, as_json: bool) -> int:
    from gpuproof.agent.paths import RunPaths
    from gpuproof.backends.local.agent_job import order_document
    from gpuproof.backends.local.plan import order_for

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
    from gpuproof.agent.contract import script_arguments
    from gpuproof.agent.paths import RunPaths
    from gpuproof.backends.local.plan import order_for
    from gpuproof.util.humanize import format_bytes, pluralize

    job = chosen.job
    order = order_for(chosen, RunPaths(Path("/")))
    command = " ".join([job.entry_point, *script_arguments(order)])
    files = f"{pluralize(len(chosen.tree.files), 'file')}, {format_bytes(chosen.tree.total_bytes)} from {job.source_dir}"
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
