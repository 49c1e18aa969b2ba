"""`gpuproof run --on sagemaker`."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from gpuproof.backends.aws import Aws
from gpuproof.backends.sagemaker.backend import SageMakerPlace
from gpuproof.backends.sagemaker.plan import SageMakerPlan, plan_calls, wanted_here
from gpuproof.backends.sagemaker.submission.aws_call import lines
from gpuproof.backends.sagemaker.submission.capacity import NotToBeHad, failed_for_capacity
from gpuproof.backends.sagemaker.submission.fallbacks import attempts
from gpuproof.backends.sagemaker.submission.submit import Started
from gpuproof.catalogue import Catalogue
from gpuproof.cli.follow import final_document, follow_to_the_end, show_end, show_status
from gpuproof.cli.jobs.sagemaker_text import describe, dry_run_document
from gpuproof.errors import ExitCode
from gpuproof.jobs.spec import Job
from gpuproof.util.humanize import format_bytes, pluralize

if TYPE_CHECKING:
    from gpuproof.backends.base import Run
    from gpuproof.backends.record import RunRecord
    from gpuproof.backends.sagemaker.run import SageMakerRun
    from gpuproof.terminal.console import Console


def run_on_sagemaker(job: Job, arguments: argparse.Namespace, console: Console) -> int:
    """Run a job on SageMaker and follow it, or only show the plan; gives the exit code."""
    as_json = arguments.format == "json"
    aws = Aws(region=job.resources.region, notify=console.progress)
    place = SageMakerPlace(aws, Catalogue.load())
    plan = place.plan(job, fresh=arguments.fresh)
    if arguments.dry_run:
        return _dry_run(plan, console, as_json)
    console.label("run", plan.run_id)
    _show_plan(plan, console)
    if arguments.detach:
        try:
            started = place.submit(plan, _Shown(console))
        except NotToBeHad as error:
            if as_json:
                print(_nothing_to_be_had(error, None))
            raise
        finally:
            console.end_progress()
        return _detached(started, console, as_json)
    return _followed(place, plan, console, as_json)


def _followed(place: SageMakerPlace, plan: SageMakerPlan, console: Console, as_json: bool) -> int:
    started, code = None, ExitCode.FAILED
    try:
        for started in attempts(place, plan, _Shown(console)):
            console.end_progress()
            if started.plan.run_id != plan.run_id:
                console.label("run", started.run.id)
            code = follow_to_the_end(started.run, console, end=_show_end)
            if code == ExitCode.INTERRUPTED:
                break
    except NotToBeHad as error:
        console.end_progress()
        if as_json:
            print(_nothing_to_be_had(error, started))
        raise
    except KeyboardInterrupt:
        # It may have come while nobody followed the run.
        if started is not None:
            started.run.stop()
        raise
    finally:
        console.end_progress()
    assert started is not None
    _deliver(plan.job, started.run, console)
    if as_json:
        print(final_document(started.run))
    return code


def _show_end(run: Run, record: RunRecord, console: Console) -> None:
    """Of a run that got no machine there is nothing to show: the next type is tried, or all that were are told."""
    if failed_for_capacity(record) is None:
        show_end(run, record, console)
    else:
        show_status(record, console)


def _nothing_to_be_had(error: NotToBeHad, last: Started | None) -> str:
    """The document of a job that no instance type was to be had for: as any run's, with what was tried."""
    document: dict[str, Any] = {"version": 1, "run": None, "verdict": None, "explanations": []}
    if last is not None:
        document = json.loads(final_document(last.run))
    tried = [asdict(one) for one in error.tried]
    return json.dumps(document | {"exit_code": int(error.exit_code), "tried": tried}, indent=2)


def _deliver(job: Job, run: SageMakerRun, console: Console) -> None:
    """Bring the results into the local folders that the job names."""
    if not run.record.has_ended:
        return

    def progress(what: str, done: int, total: int) -> None:
        console.progress(f"Downloading {what} · {format_bytes(done)} of {format_bytes(total)}")

    output, outputs = wanted_here(job)
    if output is None and not outputs:
        return
    try:
        made = run.deliver(output, outputs, progress=progress)
    finally:
        console.end_progress()
    for path in made:
        console.label("here", str(path))


def _detached(started: Started, console: Console, as_json: bool) -> int:
    run = started.run
    if as_json:
        document = {"version": 1, "id": run.id, "console": run.where, "instance_type": started.target.name}
        print(json.dumps(document, indent=2))
        return ExitCode.OK
    console.label("console", run.where)
    console.label("", f"goes on by itself: gpuproof logs -f {run.typed}")
    if len(started.plan.targets) > 1:
        console.label("note", "nobody tries another instance type if AWS turns out to have none of this one")
    output, outputs = wanted_here(started.plan.job)
    if output is not None or outputs:
        console.label("note", f"its results stay on S3: gpuproof pull {run.typed}")
    return ExitCode.OK


def _dry_run(plan: SageMakerPlan, console: Console, as_json: bool) -> int:
    if as_json:
        print(json.dumps(dry_run_document(plan), indent=2, default=str))
        return ExitCode.OK
    console.label("dry run", f"of '{plan.job.name}': nothing was made")
    _show_plan(plan, console)
    calls = plan_calls(plan)
    console.say()
    console.say(f"{pluralize(len(calls), 'call')} of AWS:")
    for title, request in lines(calls):
        console.say()
        console.label("call", title)
        console.say(request)
    return ExitCode.OK


def _show_plan(plan: SageMakerPlan, console: Console) -> None:
    for label, text in describe(plan):
        console.label(label, text)


class _Shown:
    """A progress line while a run is being submitted, and lines for what a person should know."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def step(self, what: str) -> None:
        self._console.progress(f"{what[:1].upper()}{what[1:]} …")

    def progress(self, what: str, done: int, total: int) -> None:
        if total:
            self._console.progress(f"Sending {what} · {format_bytes(done)} of {format_bytes(total)}")

    def note(self, text: str) -> None:
        self._console.label("note", text)
