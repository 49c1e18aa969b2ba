"""The files of a job that runs on AWS: its source tree, its local inputs, and its inputs on S3."""

from __future__ import annotations

from pathlib import Path

from gpuproof.backends.aws import Aws, AwsRefused
from gpuproof.backends.remote.upload.upload_plan import UploadPlan
from gpuproof.errors import InvalidJob
from gpuproof.jobs.models.script_jobs import Job
from gpuproof.jobs.output_folders import output_folders
from gpuproof.jobs.source.secret_files import find_secret_names, find_secrets, reject_secrets
from gpuproof.jobs.source.tree import SourceTree, collect
from gpuproof.jobs.validators import is_s3
from gpuproof.settings import own_folders


def collect_source(job: Job) -> SourceTree:
    """The source files to send.

    Raises:
        GPUproofError: they cannot be read, or contain secrets.
    """
    local, _ = split_inputs(job)
    tree = collect(
        Path(job.source_dir),
        job.entry_point,
        exclude=[*local.values(), *output_folders(job), *own_folders()],
        include=job.include,
        respect_gitignore=job.respect_gitignore,
    )
    secrets = find_secrets(tree.root, [file.relative for file in tree.files], job.include)
    reject_secrets(tree.root, list(secrets))
    return tree


def split_inputs(job: Job) -> tuple[dict[str, Path], dict[str, str]]:
    """The paths of local inputs, and the addresses of inputs on S3.

    Raises:
        InvalidJob: a local input does not exist.
    """
    local: dict[str, Path] = {}
    remote: dict[str, str] = {}
    for name, given in job.inputs.items():
        source = given if isinstance(given, str) else given.source
        if is_s3(source):
            remote[name] = source
            continue
        path = Path(source)
        if not path.exists():
            raise InvalidJob(
                f"Input '{name}' of '{job.name}' does not exist: {path}.", remedy=f"--input {name}=FOLDER"
            )
        local[name] = path.resolve()
    return local, remote


def reject_secret_inputs(job: Job, uploads: UploadPlan) -> None:
    """Reject local inputs with files that look like secrets, by their names."""
    for folder in uploads.folders.values():
        reject_secrets(folder.root, list(find_secret_names(folder.root, list(folder.files), job.include)))


def check_inputs_exist(aws: Aws, remote: dict[str, str]) -> None:
    """Reject a missing input on S3: the job would fail only after its instances were billed.

    Raises:
        InvalidJob: no object matches an address.
    """
    for name, address in remote.items():
        bucket, _, key = address.removeprefix("s3://").partition("/")
        try:
            found = next(aws.list_objects(bucket, key), None)
        except AwsRefused as refused:
            if refused.is_permission:
                continue  # the role may have permissions that the user lacks
            raise
        if found is None:
            raise InvalidJob(
                f"The input {name} does not exist: no object matches {address}.",
                remedy=f"aws s3 ls s3://{bucket}/",
            )
