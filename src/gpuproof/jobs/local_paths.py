"""Makes the local paths of a job absolute."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from gpuproof.jobs import validators

if TYPE_CHECKING:
    from gpuproof.jobs.job_model import JobModel

JobType = TypeVar("JobType", bound="JobModel")


def resolve_paths(job: JobType, folder: Path) -> JobType:
    """Returns the job with absolute local paths.

    Args:
        job: its absolute paths and S3 addresses are kept.
        folder: absolute; relative paths start here: the folder of the job's file, or the current directory.
    """
    return job.with_absolute_paths(folder)


def resolve_path(place: str, folder: Path) -> str:
    """Returns a local path relative to `folder` as absolute, with `~` and `..` resolved; an S3 address unchanged."""
    if validators.is_s3(place):
        return place
    return os.path.normpath(folder / os.path.expanduser(place))  # noqa: PTH111 - leaves ~nobody as it is
