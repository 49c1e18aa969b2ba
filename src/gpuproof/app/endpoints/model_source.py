"""The model of an endpoint, a batch transform job or a server: finds it, and packs one of this machine."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from gpuproof.agent.paths import RunPaths
from gpuproof.errors import GPUproofError, RunNotFound, UsageError

if TYPE_CHECKING:
    from gpuproof.backends.aws import Aws
    from gpuproof.backends.sagemaker.endpoints.plan import ModelSource
    from gpuproof.jobs.models.served_model import ServedModelJob

MODEL_HELP = (
    "a folder with code/inference.py, a model.tar.gz, a run's id, a SavedModel, a .keras file, a TorchScript or "
    "torch.export program, or a state dict with --code"
)

_FRAMEWORK_IMAGE = re.compile(r"\b(?P<framework>pytorch|tensorflow)(?:-[\w-]+)?:(?P<version>\d+\.\d+)")
_IMPORT = re.compile(r"^\s*(?:import|from)\s+(torch|tensorflow|keras|tf_keras)\b", re.MULTILINE)
_NAMES = {"torch": "pytorch"}


@dataclass(frozen=True)
class FoundModel:
    """A model, and with which framework it was made.

    Args:
        framework: `pytorch` or `tensorflow`; None if unknown.
        version: the framework's version; None if unknown.
        name: what the endpoint is called unless the user names it.
    """

    source: ModelSource
    framework: str | None
    version: str | None
    name: str


def find_model(
    job: ServedModelJob, aws: Aws, cache: Path, scratch: Path, *, on: str | None = None, pack: bool = False
) -> FoundModel:
    """Find the model of a job, and pack one of this machine. An archive in S3 stays where it is.

    Args:
        aws: the client of the region of the endpoint.
        scratch: an empty folder that exists until the deployment has ended.
        on: the backend of a run; all backends if None.
        pack: whether a model that is in S3 is packed again with the server: serverless endpoints and batch transform jobs
            have no `ModelDataSource` (botocore's service model of `sagemaker`).

    Raises:
        GPUproofError: there is no such model.
    """
    if job.model.startswith("s3://"):
        return _in_s3(job, aws, scratch, cache, pack)
    if not pack and (remote := _run_in_s3(job, aws, on)) is not None:
        return remote
    code = None if job.code is None else Path(job.code)
    model = resolve_model(job.model, scratch / "run", code=code, on=on, region=job.region)
    return _packed(job, model, scratch, cache)


def resolve_model(text: str, scratch: Path, *, code: Path | None, on: str | None, region: str | None) -> Path:
    """Returns the file or folder of a model; downloads a run's model if it is not on this machine.

    Args:
        text: a path, or the name of a run.
        code: the handler, if it is not in the model.
        on: the backend of the run; all backends if None.

    Raises:
        UsageError: the file, folder or run does not exist, or the run produced no model.
    """
    from gpuproof.backends.registry import find_run  # commands that need no runs start faster without it

    path = Path(text).expanduser()
    if path.is_dir() and RunPaths(path).run.is_file():
        return _archive_in(RunPaths(path).model_archive, text)
    if path.exists() and not _may_be_a_run(path, text, code):
        return path
    try:
        run = find_run(text, on, region)
    except GPUproofError as error:
        if path.exists():
            return path
        if not isinstance(error, RunNotFound):
            raise
        raise UsageError(
            f"There is no file, folder or run {text}.",
            remedy=f"MODEL is {MODEL_HELP}. `gpuproof ps` lists runs.",
        ) from error
    if path.exists():
        print(f"The folder {text} contains no model; using the run {run.id}.", file=sys.stderr)
    here = next((Path(a.location) for a in run.artifacts() if a.name == "model.tar.gz"), None)
    if here is not None and here.is_file():
        return here
    pulled = run.pull(scratch / "pulled") if here is not None else []
    return _archive_in(next((p for p in pulled if p.name == "model.tar.gz"), scratch / "none"), text)


def reject_model_secrets(folder: Path, model: str, include: Sequence[str]) -> None:
    """Refuse to pack files that look like secrets: the archive is uploaded, and read by everyone who may read the model.

    Args:
        include: patterns of files that may be packed nevertheless.

    Raises:
        GPUproofError: there are such files.
    """
    from gpuproof.jobs.source.secret_files import find_secrets, reject_secrets
    from gpuproof.serve.model.package import LEFT_OUT

    names: list[str] = []
    seen: set[str] = set()
    for current, folders, files in os.walk(folder, followlinks=True):
        # A link may lead to a folder that contains it.
        known = os.path.realpath(current) in seen
        seen.add(os.path.realpath(current))
        folders[:] = [name for name in folders if name not in LEFT_OUT and not known]
        names += [
            Path(current, name).relative_to(folder).as_posix() for name in files if name not in LEFT_OUT
        ]
    secrets = list(find_secrets(folder, sorted(names), list(include)))
    reject_secrets(model, secrets, done="packed", instead="Move {it} elsewhere")


def _in_s3(job: ServedModelJob, aws: Aws, scratch: Path, cache: Path, pack: bool) -> FoundModel:
    from gpuproof.backends.sagemaker.endpoints.plan import ModelSource

    address = job.model
    bucket, _, key = address.removeprefix("s3://").partition("/")
    if not key.endswith((".tar.gz", ".tgz")):
        raise UsageError(
            f"{address} is not a .tar.gz: SageMaker unpacks a model from an archive.",
            remedy="Pack it: gpuproof package FOLDER -o model.tar.gz",
        )
    found = aws.object(bucket, key)
    if found is None:
        raise UsageError(f"There is no object {address}.", remedy=f"aws s3 ls s3://{bucket}/")
    name = Path(key).name.removesuffix(".tar.gz").removesuffix(".tgz")
    if job.code is None and not pack:
        return FoundModel(ModelSource(None, address, address), None, None, name)
    # Another handler, or the server, has to be packed with the model.
    archive = scratch / "downloaded" / "model.tar.gz"
    archive.parent.mkdir()
    with archive.open("wb") as file, aws.open_object(bucket, key) as stream:
        while content := stream.read(1 << 20):
            file.write(content)
    return _packed(job, archive, scratch, cache, name)


def _run_in_s3(job: ServedModelJob, aws: Aws, on: str | None) -> FoundModel | None:
    """The model of a run whose results are in S3, which needs no download; None for anything else."""
    from gpuproof.backends.registry import find_run
    from gpuproof.backends.sagemaker.endpoints.plan import ModelSource

    if Path(job.model).expanduser().exists() or job.code is not None:
        return None
    try:
        run = find_run(job.model, on, job.region)
    except GPUproofError:
        return None  # `resolve_model` has the message
    found = next((artifact for artifact in run.artifacts() if artifact.name == "model.tar.gz"), None)
    if found is None or not found.location.startswith("s3://"):
        return None
    bucket = found.location.removeprefix("s3://").partition("/")[0]
    if aws.bucket_region(bucket) != aws.region:
        return None
    framework, version = None, None
    if (match := _FRAMEWORK_IMAGE.search(run.record.document.get("image") or "")) is not None:
        framework, version = match["framework"], match["version"]
    source = ModelSource(None, found.location, f"the run {run.id}")
    return FoundModel(source, framework, version, run.record.job_name)


def _packed(
    job: ServedModelJob, model: Path, scratch: Path, cache: Path, name: str | None = None
) -> FoundModel:
    from gpuproof.backends.sagemaker.endpoints.plan import ModelSource
    from gpuproof.backends.sagemaker.endpoints.server_files import IN_MODEL, server_files
    from gpuproof.serve.errors import LoadError
    from gpuproof.serve.model import package
    from gpuproof.serve.model.archive import describe, prepare

    try:
        folder = prepare(model, scratch / "in", None if job.code is None else Path(job.code))
        reject_model_secrets(folder, job.model, ())
        files = server_files(cache) if job.server == "gpuproof" else {}
        archive = scratch / "model.tar.gz"
        package.build(folder, archive, {f"{IN_MODEL}/{file}": path for file, path in files.items()})
    except LoadError as error:
        raise GPUproofError(error.message, remedy=error.remedy) from error
    source = ModelSource(archive, None, f"{job.model}: {describe(folder)}")
    stem = name or Path(job.model).name.partition(".")[0]
    return FoundModel(source, detect_framework(folder), None, stem)


def _may_be_a_run(path: Path, text: str, code: Path | None) -> bool:
    """Whether an existing folder may not be meant: a run is often named after the folder of its script."""
    from gpuproof.serve.model.archive import holds_model  # not needed for --help

    return code is None and os.sep not in text and path.is_dir() and not holds_model(path)


def _archive_in(archive: Path, name: str) -> Path:
    if archive.is_file():
        return archive
    raise GPUproofError(
        f"The run {name} has no model.tar.gz: its script wrote nothing to SM_MODEL_DIR.",
        remedy="Save the model with gpuproof.runtime.save(model).",
    )


def detect_framework(folder: Path) -> str | None:
    """The framework of a model folder, by its files, else by the imports of its handler; None if neither shows it."""
    from gpuproof.serve.frameworks import tensorflow_files, torch_files

    if torch_files.model_files(folder):
        return "pytorch"
    if tensorflow_files.choose_model(folder) is not None:
        return "tensorflow"
    imported: set[str] = set()
    for place in (folder / "code", folder):
        for path in sorted(place.glob("*.py")):
            found = _IMPORT.findall(path.read_text(encoding="utf-8", errors="replace"))
            imported |= {_NAMES.get(name, "tensorflow") for name in found}
    return imported.pop() if len(imported) == 1 else None
