"""What SageMaker lays into `/opt/ml` before a model's container starts: the model, and the handler's source."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gpuproof.agent.artifacts.archive_create import ArtifactError
from gpuproof.agent.artifacts.archive_extract import unpack
from gpuproof.emulator.endpoints import ModelData, ServingFailed
from gpuproof.emulator.execution.s3_sync import DownloadFailed, Location, bring, with_prefix

SUBMIT_DIRECTORY = "SAGEMAKER_SUBMIT_DIRECTORY"
_CODE = "code"
_NOT_DOWNLOADED = (
    'Failed to download model data for container "container_1" from URL: "{uri}". Please ensure that there is an object '
    "located at the URL and that the role passed to CreateModel has permissions to download the object. ({why})"
)
_NOT_UNPACKED = (
    'Failed to extract model data archive for container "container_1" from URL "{uri}". Please ensure that the object '
    "located at the URL is a valid tar.gz archive. ({why})"
)


def bring_model(s3: Any, data: ModelData, disk: Path, ml: Path) -> None:
    """Lay a model into `model`, below an instance's `/opt/ml`.

    Args:
        disk: where an archive may lie for a moment.

    Raises:
        ServingFailed: it is not there, or no archive where one was promised.
    """
    model = ml / "model"
    if data.packed:
        _unpacked(s3, data.uri, disk, model)
        return
    place = Location.parse(data.uri)
    try:
        keys = with_prefix(s3, place) if data.prefix else {place.key: place.key.rpartition("/")[2]}
        bring(s3, place.bucket, keys, model)
    except DownloadFailed as error:
        raise ServingFailed(_NOT_DOWNLOADED.format(uri=data.uri, why=error)) from error


def bring_source(s3: Any, environment: dict[str, str], disk: Path, ml: Path) -> dict[str, str]:
    """The container's variables once the source that `SAGEMAKER_SUBMIT_DIRECTORY` names on S3 lies in `/opt/ml/code`.

    Raises:
        ServingFailed: it is not there, or no archive.
    """
    uri = environment.get(SUBMIT_DIRECTORY, "")
    if not uri.startswith("s3://"):
        return environment
    _unpacked(s3, uri, disk, ml / _CODE)
    return {**environment, SUBMIT_DIRECTORY: f"/opt/ml/{_CODE}"}


def _unpacked(s3: Any, uri: str, disk: Path, folder: Path) -> None:
    place = Location.parse(uri)
    archive = disk / "archive.tar.gz"
    try:
        bring(s3, place.bucket, {place.key: archive.name}, disk)
        unpack(archive, folder)
    except DownloadFailed as error:
        raise ServingFailed(_NOT_DOWNLOADED.format(uri=uri, why=error)) from error
    except ArtifactError as error:
        why = str(error).replace(str(archive), place.key)
        raise ServingFailed(_NOT_UNPACKED.format(uri=uri, why=why)) from error
    finally:
        archive.unlink(missing_ok=True)
