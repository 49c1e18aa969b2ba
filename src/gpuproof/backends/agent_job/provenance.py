"""What a run was made of: digests of its code and inputs and the commit, recorded at its submission for its receipt."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpuproof.errors import UsageError
from gpuproof.jobs.output_folders import output_folders
from gpuproof.jobs.source.digests import tree_digest
from gpuproof.jobs.source.git_state import git_state
from gpuproof.jobs.validators import is_s3
from gpuproof.version import __version__

if TYPE_CHECKING:
    from gpuproof.jobs.script_job import AnyJob
    from gpuproof.jobs.source.tree import SourceTree


def provenance(job: AnyJob, tree: SourceTree, inputs: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """The values that a run's `run.json` keeps as `provenance`.

    Args:
        job: with absolute paths.
        inputs: by channel or by the key of a processing job's input: `uri`, if it is on S3, and `FilesDigest.to_json`.

    Raises:
        UsageError: a source file cannot be read.
    """
    state = git_state(tree.root)
    try:
        code = tree_digest(tree)
    except OSError as error:
        raise UsageError(
            f"{error.filename} cannot be read: {(error.strerror or str(error)).lower()}."
        ) from error
    return {
        "gpuproof": __version__,
        "code": code.to_json(),
        "selection": {
            "entry_point": job.entry_point,
            "include": list(job.include),
            "respect_gitignore": job.respect_gitignore,
            "exclude": sorted(_excluded(job, tree.root)),
        },
        "git": None if state is None else {"commit": state.commit, "dirty": state.is_dirty},
        "inputs": {name: dict(inputs[name]) for name in sorted(inputs)},
    }


def input_address(job: AnyJob, name: str) -> str | None:
    """The `s3://` address that a job gives for an input; `None` for a local one."""
    given = job.inputs[name]
    source = given if isinstance(given, str) else given.source
    return source if is_s3(source) else None


def _excluded(job: AnyJob, root: Path) -> set[str]:
    """What of the source folder reaches the job by other means, relative to it."""
    given = [value if isinstance(value, str) else value.source for value in job.inputs.values()]
    paths = [Path(source) for source in given if not is_s3(source)] + list(output_folders(job))
    return {path.relative_to(root).as_posix() for path in paths if path.is_relative_to(root) and path != root}
