"""Copies the results of a run that has ended from S3 to this machine."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from gpuproof.backends.aws import Aws
from gpuproof.backends.base import TransferProgress
from gpuproof.backends.remote.log_source import LogSource
from gpuproof.backends.remote.logs import LogReader
from gpuproof.backends.remote.results.objects import (
    Downloads,
    Results,
    translated_file_errors,
    write_atomically,
)
from gpuproof.backends.remote.results.output_names import output_name
from gpuproof.jobs.models.script_jobs import Job, ProcessingJob
from gpuproof.jobs.validators import is_s3


def pull_results(
    aws: Aws,
    logs: LogSource,
    log_group: str,
    run_id: str,
    results: Results,
    verdict: dict[str, Any] | None,
    destination: Path,
    *,
    extract: bool = False,
    progress: TransferProgress | None = None,
) -> list[Path]:
    """Download the archives or outputs of a run, its verdict and the log of each host.

    Args:
        logs: where the output of its hosts is read from.
        destination: the folder, created if needed.
        extract: unpack each archive into a folder of its name.
        progress: called during downloads.

    Returns:
        The files and folders that were created.

    Raises:
        GPUproofError: an archive has members outside its folder, or the disk is full. No partial file is left.
    """
    location = str(results.archives or next(iter(results.outputs.values()), "S3"))
    with translated_file_errors(destination, location):
        destination.mkdir(parents=True, exist_ok=True)
        return [
            *_download_results(Downloads(aws, progress), results, destination, extract=extract),
            *_write_verdict(verdict, destination),
            *_write_logs(logs, log_group, run_id, destination),
        ]


def deliver_results(
    aws: Aws, run_id: str, results: Results, job: Job, *, progress: TransferProgress | None = None
) -> list[Path]:
    """Download results to the local folders that the job names, with the names that a local run gives them.

    A training job's archives go to `RUN/output/` below its `output`; a processing job's outputs to their destinations.

    Returns:
        The files and folders that were created.

    Raises:
        GPUproofError: the disk is full; no partial file is left.
    """
    output, outputs = local_destinations(job)
    downloads, created = Downloads(aws, progress), list[Path]()
    if output is not None and results.archives is not None:
        with translated_file_errors(output, str(results.archives)):
            created += downloads.archives(results.archives, output / run_id / "output")
    for name, folder in outputs.items():
        if (prefix := results.outputs.get(name)) is not None:
            with translated_file_errors(folder, str(prefix)):
                created += [item for item in [downloads.tree(prefix, folder, name)] if item]
    return created


def local_destinations(job: Job) -> tuple[Path | None, dict[str, Path]]:
    """The local folder for a training job's archives, and those for a processing job's outputs by output name."""
    if not isinstance(job, ProcessingJob):
        return (None if job.output is None or is_s3(job.output) else Path(job.output)), {}
    return None, {
        output_name(key, number): Path(output.destination)
        for number, (key, output) in enumerate(job.outputs.items(), 1)
        if output.destination is not None and not is_s3(output.destination)
    }


def _download_results(
    downloads: Downloads, results: Results, destination: Path, *, extract: bool
) -> Iterator[Path]:
    if results.archives is not None:
        yield from downloads.archives(results.archives, destination, extract=extract)
    for name, prefix in results.outputs.items():
        if (created := downloads.tree(prefix, destination / name, name)) is not None:
            yield created


def _write_verdict(verdict: dict[str, Any] | None, destination: Path) -> Iterator[Path]:
    if verdict is not None:
        yield write_atomically(destination / "verdict.json", [json.dumps(verdict, indent=1).encode(), b"\n"])


def _write_logs(logs: LogSource, log_group: str, run_id: str, destination: Path) -> Iterator[Path]:
    for host in LogReader(logs, log_group, run_id).find_hosts():
        reader = LogReader(logs, log_group, run_id, host=host)
        yield write_atomically(destination / f"{host}.log", reader.read())
