"""Chooses an endpoint's container image, and the host image (`InferenceAmiVersion`) whose driver it needs."""

from __future__ import annotations

from dataclasses import dataclass

from gpuproof.backends.sagemaker.endpoints.options import EndpointOptions
from gpuproof.catalogue import Catalogue
from gpuproof.catalogue.images import Image
from gpuproof.catalogue.model import ImageRow, Instance, JobKind
from gpuproof.errors import InvalidJob
from gpuproof.util.versions import version_key

_STAND_IN = "ml.m5.xlarge"
"""The type whose image a serverless endpoint gets: it has a CPU only."""

_DEFAULT_DRIVER = 470
"""The driver that GPU endpoints had before InferenceAmiVersion existed, as seen in failed endpoints' logs: an image
that runs with it needs no particular host image."""


@dataclass(frozen=True)
class EndpointImage:
    """A container image and the host image below it.

    Args:
        uri: as the API takes it.
        row: the catalogue's facts; None for the user's own image.
        ami: the `InferenceAmiVersion`; None for SageMaker's default.
        because: the reason for the choice.
        notes: what the user should know.
    """

    uri: str
    row: ImageRow | None
    ami: str | None
    because: str
    notes: tuple[str, ...] = ()


def choose_endpoint_image(
    options: EndpointOptions,
    framework: str | None,
    version: str | None,
    instance: Instance | None,
    catalogue: Catalogue,
    region: str,
) -> EndpointImage:
    """The image of an endpoint.

    Args:
        framework: `pytorch` or `tensorflow`; None if it is not known.
        version: the framework's version; None for the newest that AWS patches.
        instance: the instance type; None for serverless endpoints and unknown types.

    Raises:
        InvalidJob: the framework is not known, AWS has no such image, or no host image has the driver that it needs.
    """
    if options.image is not None:
        return EndpointImage(options.image, None, None, "the image that you named")
    if framework is None:
        raise InvalidJob(
            "It is not known with which framework the model was made.",
            remedy="--framework pytorch or --framework tensorflow, or name the image: --image URI",
        )
    kind = _kind(framework, options)
    name = instance.name if instance is not None else options.instance_type or _STAND_IN
    found = catalogue.image(framework, version, kind, name, region)
    notes: list[str] = []
    if found is None and version is not None and options.framework_version is None:
        found = catalogue.image(framework, None, kind, name, region)
        if found is not None:
            notes.append(
                f"AWS has no image of {framework} {version}, with which the model was made; {found.row.version} serves it"
            )
    if found is None:
        raise InvalidJob(
            f"The catalogue knows no AWS image of {framework} {version or ''} for endpoints on {name} in {region}.",
            remedy="Use another version (--framework-version), or name the image: --image URI",
        )
    if found.row.status == "ended":
        notes.append(f"AWS no longer patches its image of {framework} {found.row.version}")
    because = f"AWS's {found.row.job} image of {framework} {found.row.version}"
    ami = _ami(found, instance, catalogue)
    return EndpointImage(found.uri, found.row, ami, because, tuple(notes))


def _kind(framework: str, options: EndpointOptions) -> JobKind:
    """The kind of image: TensorFlow's inference images have TensorFlow Serving, but no TensorFlow for Python."""
    if framework == "tensorflow" and options.server == "gpuproof":
        return "training"
    return "endpoint"


def _ami(image: Image, instance: Instance | None, catalogue: Catalogue) -> str | None:
    """The oldest host image whose driver runs the image's CUDA; None if SageMaker's default does.

    Source: the documentation of InferenceAmiVersion in the API's model; `catalogue/data/endpoint_amis.csv`.

    Raises:
        InvalidJob: no host image has a driver that is new enough.
    """
    if not image.row.cuda or instance is None or not instance.gpu_count:
        return None
    floor = catalogue.driver_floor(image.row.cuda)
    if floor is None:
        return None
    needed = version_key(floor.minimum)[0]
    if needed <= _DEFAULT_DRIVER:
        return None
    amis = sorted(
        catalogue.tables.endpoint_amis, key=lambda ami: (int(ami.driver), not ami.cuda_compat_mounted)
    )
    for ami in amis:
        if int(ami.driver) >= needed:
            return ami.inference_ami_version
    newest = amis[-1]
    raise InvalidJob(
        f"The image has CUDA {image.row.cuda}, which needs the NVIDIA driver {floor.minimum}, but the newest driver of "
        f"SageMaker's endpoints is {newest.driver} ({newest.inference_ami_version}).",
        remedy="Use an older version of the framework: --framework-version",
    )
