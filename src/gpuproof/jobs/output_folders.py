"""The local folders that the results of a job are written to."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from gpuproof.jobs import validators

if TYPE_CHECKING:
    from gpuproof.jobs.script_job import AnyJob


def output_folders(job: AnyJob) -> list[Path]:
    """Local folders that results are written to; files that an earlier run left there are not part of the source."""
    if job.kind == "processing":
        places = [outlet.destination for outlet in job.outputs.values()]
    else:
        places = [job.output, job.checkpoint.path if job.checkpoint else None]
    return [Path(place) for place in places if place is not None and not validators.is_s3(place)]
