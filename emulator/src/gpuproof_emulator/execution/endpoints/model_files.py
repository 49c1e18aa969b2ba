"""Downloads the model and the handler's source into `/opt/ml`, before a model's container starts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gpuproof.agent.artifacts.archive_create import ArtifactError
from gpuproof.agent.artifacts.archive_extract import unpack
from gpuproof_emulator.execution.endpoints.container_spec import ModelData, ServingFailed
from gpuproof_emulator.execution.s3_sync import DownloadFailed, S3Location, download, list_prefix

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


def download_model(s3: Any, data: ModelData, disk: Path, ml: Path) -> None:
    """Download a model into `model`, below an instance's `/opt/ml`.

    Args:
        disk: folder for a temporary archive.

    Raises:
        ServingFailed: it does not exist, or is not an archive although it is declared as one.
    """
    _download(s3, data, disk, ml / "model")


def download_additional(s3: Any, channels: Sequence[tuple[str, ModelData]], disk: Path, ml: Path) -> None:
    """Download the `AdditionalModelDataSources`, each into `additional-model-data-sources/CHANNEL`.

    Raises:
        ServingFailed: one does not exist, or is not an archive although it is declared as one.
    """
    for name, data in channels:
        _download(s3, data, disk, ml / "additional-model-data-sources" / name)


def _download(s3: Any, data: ModelData, disk: Path, model: Path) -> None:
    if data.packed:
        _download_archive(s3, data.uri, disk, model)
        return
    location = S3Location.parse(data.uri)
    try:
        keys = list_prefix(s3, location) if data.prefix else {location.key: location.key.rpartition("/")[2]}
        download(s3, location.bucket, keys, model)
    except DownloadFailed as error:
        raise ServingFailed(_NOT_DOWNLOADED.format(uri=data.uri, why=error)) from error


def download_source(s3: Any, environment: dict[str, str], disk: Path, ml: Path) -> dict[str, str]:
    """Download the source at `SAGEMAKER_SUBMIT_DIRECTORY`, if on S3, into `/opt/ml/code`; returns the container's variables.

    Raises:
        ServingFailed: it does not exist, or is not an archive.
    """
    uri = environment.get(SUBMIT_DIRECTORY, "")
    if not uri.startswith("s3://"):
        return environment
    _download_archive(s3, uri, disk, ml / _CODE)
    return {**environment, SUBMIT_DIRECTORY: f"/opt/ml/{_CODE}"}


def _download_archive(s3: Any, uri: str, disk: Path, folder: Path) -> None:
    location = S3Location.parse(uri)
    archive = disk / "archive.tar.gz"
    try:
        download(s3, location.bucket, {location.key: archive.name}, disk)
        unpack(archive, folder)
    except DownloadFailed as error:
        raise ServingFailed(_NOT_DOWNLOADED.format(uri=uri, why=error)) from error
    except ArtifactError as error:
        why = str(error).replace(str(archive), location.key)
        raise ServingFailed(_NOT_UNPACKED.format(uri=uri, why=why)) from error
    finally:
        archive.unlink(missing_ok=True)
