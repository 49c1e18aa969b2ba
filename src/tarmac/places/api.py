"""Running a job from Python: `tarmac.run(job, on="local")`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import BinaryIO

from tarmac.errors import UsageError
from tarmac.jobs.anchor import anchor
from tarmac.jobs.spec import Job
from tarmac.places.local.control import LocalRun
from tarmac.places.local.follow import Output
from tarmac.places.local.place import LocalPlace


def run(
    job: Job,
    on: str = "local",
    *,
    wait: bool = True,
    logs: BinaryIO | None = None,
    python: str | None = None,
) -> LocalRun:
    """Run a job.

    Args:
        job: a `TrainingJob` or a `ProcessingJob`; relative paths are taken from the working directory.
        on: the place; `local` is this machine.
        wait: return when the run has ended, else as soon as it is on its way.
        logs: where the script's output goes while waiting; standard output if not given.
        python: the script's interpreter; the one that runs this if not given.

    Returns:
        The run: `record.status`, `record.outcome`, `verdict`, `paths.model_archive`, `pull(folder)`.

    Raises:
        TarmacError: the job cannot run there.
    """
    if on != LocalPlace.name:
        raise UsageError(f"There is no place called '{on}'.", remedy=f'on="{LocalPlace.name}"')
    started = LocalPlace().submit(anchor(job, Path.cwd()), python=python)
    if not wait:
        return started
    sink = logs or sys.stdout.buffer
    try:
        for event in started.follow():
            if isinstance(event, Output):
                sink.write(event.content)
                sink.flush()
    except KeyboardInterrupt:
        started.stop()
        started.wait()
        raise
    return started
