"""The model of `gpuproof deploy` and `transform`: packs one of this machine, and leaves an archive in S3 where it is."""

from __future__ import annotations

import argparse
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from gpuproof.cli.serving.model_argument import resolve_model
from gpuproof.errors import GPUproofError, UsageError

if TYPE_CHECKING:
    from gpuproof.backends.aws import Aws
    from gpuproof.backends.sagemaker.endpoints.plan import ModelSource

_FRAMEWORK_IMAGE = re.compile(r"(?P<framework>pytorch|tensorflow)-[\w-]+:(?P<version>\d+\.\d+)")
_IMPORT = re.compile(r"^\s*(?:import|from)\s+(torch|tensorflow|keras|tf_keras)\b", re.MULTILINE)
_NAMES = {"torch": "pytorch"}


@dataclass(frozen=True)
class FoundModel:
    """A model, and with which framework it was made.

    Args:
        source: where it is.
        framework: `pytorch` or `tensorflow`; None if unknown.
        version: the framework's version; None if unknown.
        name: what the endpoint is called unless the user names it.
    """

    source: ModelSource
    framework: str | None
    version: str | None
    name: str


def find_model(
    arguments: argparse.Namespace, aws: Aws, cache: Path, scratch: Path, *, pack: bool = False
) -> FoundModel:
    """Find MODEL.

    Args:
        aws: the client of the region of the endpoint.
        cache: the user's cache folder.
        scratch: an empty folder that exists until the deployment has ended.
        pack: whether a model that is in S3 is packed again with the server: serverless endpoints and batch transform jobs
            have no `ModelDataSource` (botocore's service model of `sagemaker`).

    Raises:
        GPUproofError: there is no such model.
    """
    text: str = arguments.model
    if text.startswith("s3://"):
        return _in_s3(arguments, text, aws, scratch, cache, pack)
    if not pack and (remote := _run_in_s3(arguments, text, aws)) is not None:
        return remote
    return _packed(arguments, resolve_model(arguments, scratch / "run"), scratch, cache)


def _in_s3(
    arguments: argparse.Namespace, address: str, aws: Aws, scratch: Path, cache: Path, pack: bool
) -> FoundModel:
    from gpuproof.backends.sagemaker.endpoints.plan import ModelSource

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
    if arguments.code is None and not pack:
        return FoundModel(ModelSource(None, address, address), None, None, name)
    # Another handler, or the server, has to be packed with the model.
    archive = scratch / "downloaded" / "model.tar.gz"
    archive.parent.mkdir()
    with archive.open("wb") as file, aws.open_object(bucket, key) as stream:
        while content := stream.read(1 << 20):
            file.write(content)
    return _packed(arguments, archive, scratch, cache, name)


def _run_in_s3(arguments: argparse.Namespace, text: str, aws: Aws) -> FoundModel | None:
    """The model of a run on SageMaker or EC2, which needs no download; None for anything else."""
    from gpuproof.backends.sagemaker.endpoints.plan import ModelSource
    from gpuproof.cli.arguments import resolve_run

    if Path(text).expanduser().exists() or arguments.code is not None:
        return None
    try:
        run = resolve_run(arguments, text)
    except GPUproofError:
        return None  # `resolve_model` has the message
    found = next((one for one in run.artifacts() if one.name == "model.tar.gz"), None)
    if found is None or not found.location.startswith("s3://"):
        return None
    bucket = found.location.removeprefix("s3://").partition("/")[0]
    if aws.bucket_region(bucket) != aws.region:
        return None
    framework, version = None, None
    if run.backend == "sagemaker":
        description = aws.describe_job("training", run.id) or {}
        image = description.get("AlgorithmSpecification", {}).get("TrainingImage", "")
        if (match := _FRAMEWORK_IMAGE.search(image)) is not None:
            framework, version = match["framework"], match["version"]
    source = ModelSource(None, found.location, f"the run {run.id}")
    return FoundModel(source, framework, version, run.record.job_name)


def _packed(
    arguments: argparse.Namespace, model: Path, scratch: Path, cache: Path, name: str | None = None
) -> FoundModel:
    from gpuproof.backends.sagemaker.endpoints.plan import ModelSource
    from gpuproof.backends.sagemaker.endpoints.server_files import IN_MODEL, server_files
    from gpuproof.cli.serving.model_secrets import reject_model_secrets
    from gpuproof.serve.errors import LoadError
    from gpuproof.serve.model import package
    from gpuproof.serve.model.archive import describe, prepare

    try:
        folder = prepare(model, scratch / "in", arguments.code)
        reject_model_secrets(folder, arguments.model, ())
        files = server_files(cache) if arguments.server == "gpuproof" else {}
        archive = scratch / "model.tar.gz"
        package.build(folder, archive, {f"{IN_MODEL}/{file}": path for file, path in files.items()})
    except LoadError as error:
        raise GPUproofError(error.message, remedy=error.remedy) from error
    source = ModelSource(archive, None, f"{arguments.model}: {describe(folder)}")
    stem = name or Path(arguments.model).name.partition(".")[0]
    return FoundModel(source, detect_framework(folder), None, stem)


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


def endpoint_name(given: str | None, found: str) -> str:
    """The name of the endpoint, in the form that SageMaker requires: letters, digits and hyphens, at most 63.

    Raises:
        UsageError: the given name has another form.
    """
    if given is not None:
        if not re.fullmatch(r"[a-zA-Z0-9](-*[a-zA-Z0-9]){0,62}", given):
            raise UsageError(
                f"'{given}' is not a name for an endpoint: letters, digits and hyphens, at most 63 characters.",
                remedy="--name my-model",
            )
        return given
    name = re.sub(r"[^a-zA-Z0-9]+", "-", found).strip("-")[:63].rstrip("-")
    return name or "model"
