"""Collects the results of all hosts: merges their archives and outputs, and delivers them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gpuproof.agent.artifacts.archive_create import ArtifactError
from gpuproof.agent.artifacts.archive_merge import merge_archives
from gpuproof.agent.job import AgentJob
from gpuproof.agent.paths import RunPaths
from gpuproof.util.file_copy import copy_file, merge_folder


@dataclass
class MergedResults:
    """The results of all hosts.

    Args:
        artifacts: size, number of files and digest of each archive, by its name.
        problem: why the results could not be merged or delivered; they are still in the hosts' folders then.
    """

    artifacts: dict[str, Any] = field(default_factory=dict)
    problem: str | None = None


def merge_results(
    job: AgentJob, paths: RunPaths, artifacts: Mapping[str, Mapping[str, Any]]
) -> MergedResults:
    """Merge the results of all hosts and deliver them; of files with the same name, the first host's is kept."""
    merged = MergedResults()
    try:
        if job.kind == "training":
            _merge_archives(job, paths, artifacts, merged)
        else:
            _merge_outputs(job, paths)
    except ArtifactError as error:
        merged.problem = str(error)
    except OSError as error:
        where = f" ({error.filename})" if error.filename else ""
        merged.problem = f"the results could not be delivered: {error.strerror or error}{where}"
    return merged


def _merge_archives(
    job: AgentJob, paths: RunPaths, artifacts: Mapping[str, Mapping[str, Any]], merged: MergedResults
) -> None:
    for archive in (paths.model_archive, paths.output_archive):
        hosts = [host for host in job.hosts if archive.name in artifacts.get(host, {})]
        if not hosts:
            continue
        archive.parent.mkdir(exist_ok=True)
        packed = [paths.host(host).artifacts / archive.name for host in hosts]
        if len(hosts) == 1:
            packed[0].replace(archive)
            merged.artifacts[archive.name] = artifacts[hosts[0]][archive.name]
            continue
        result = merge_archives(packed, archive)
        merged.artifacts[archive.name] = {
            "bytes": result.bytes,
            "files": result.files,
            "sha256": result.sha256,
        }
        # All of their content is in the hosts' `ml` folders, too.
        for path in packed:
            path.unlink()
    if job.output is None:
        return
    # After merging everything: the destination may be unwritable. The layout is SageMaker's below S3OutputPath.
    for name in merged.artifacts:
        copy_file(paths.artifacts / name, Path(job.output) / job.run_id / "output" / name)


def _merge_outputs(job: AgentJob, paths: RunPaths) -> None:
    for output in job.outputs:
        if output.destination is not None:
            merge_outputs(host_outputs(job.hosts, paths, output.target), Path(output.destination))


def host_outputs(hosts: Sequence[str], paths: RunPaths, target: str) -> list[Path]:
    """The folders of one output on all hosts that have it."""
    folders = [paths.host(host).ml / target for host in hosts]
    return [folder for folder in folders if folder.is_dir()]


def merge_outputs(folders: Sequence[Path], destination: Path) -> None:
    """Copy the content of one output's folders into one; of files with the same name, the first folder's is kept."""
    for folder in reversed(folders):
        merge_folder(folder, destination)
