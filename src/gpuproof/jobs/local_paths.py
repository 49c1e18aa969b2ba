"""Local paths of a job: makes them absolute, and lists the folders that its results are written to."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from gpuproof.jobs import validators

if TYPE_CHECKING:
    from gpuproof.jobs.script_job import AnyJob
    from gpuproof.jobs.spec import Job

JobType = TypeVar("JobType", bound="Job")


def resolve_paths(job: JobType, folder: Path) -> JobType:
    """Returns the job with absolute local paths.

    Args:
        job: its absolute paths and S3 addresses are kept.
        folder: absolute; relative paths start here: the folder of the job's file, or the current directory.
    """
    from gpuproof.jobs.spec import TrainingJob  # imports pydantic, which a script alone does without

    changes: dict[str, Any] = {"source_dir": resolve_path(job.source_dir, folder)}
    if isinstance(job, TrainingJob):
        changes["inputs"] = {channel: resolve_path(source, folder) for channel, source in job.inputs.items()}
        if job.output:
            changes["output"] = resolve_path(job.output, folder)
        if job.checkpoint and job.checkpoint.path:
            changes["checkpoint"] = job.checkpoint.model_copy(
                update={"path": resolve_path(job.checkpoint.path, folder)}
            )
        return job.model_copy(update=changes)
    changes["inputs"] = {
        key: mount.model_copy(update={"source": resolve_path(mount.source, folder)})
        for key, mount in job.inputs.items()
    }
    changes["outputs"] = {
        key: outlet.model_copy(update={"destination": resolve_path(outlet.destination, folder)})
        if outlet.destination
        else outlet
        for key, outlet in job.outputs.items()
    }
    return job.model_copy(update=changes)


def resolve_path(place: str, folder: Path) -> str:
    """Returns a local path relative to `folder` as absolute, with `~` and `..` resolved; an S3 address unchanged."""
    if validators.is_s3(place):
        return place
    return os.path.normpath(folder / os.path.expanduser(place))  # noqa: PTH111 - leaves ~nobody as it is


def output_folders(job: AnyJob) -> list[Path]:
    """Local folders that results are written to; files that an earlier run left there are not part of the source."""
    if job.kind == "training":
        places = [job.output, job.checkpoint.path if job.checkpoint else None]
    else:
        places = [outlet.destination for outlet in job.outputs.values()]
    return [Path(place) for place in places if place is not None and not validators.is_s3(place)]
