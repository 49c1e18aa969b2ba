"""Chooses the container image of a model, and the host image of its instances whose driver the container image needs."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Protocol

from gpuproof.catalogue import Catalogue
from gpuproof.catalogue.host_drivers import best_host, default_host, named_hosts
from gpuproof.catalogue.model import HostService, ImageRow, Instance, JobKind
from gpuproof.errors import InvalidJob
from gpuproof.util.versions import version_key

_STAND_IN = "ml.m5.xlarge"
"""The type whose image a serverless endpoint gets: it has a CPU only."""

_CUDA_TAG = re.compile(r"[:-]cu(\d{2})(\d)(?:-|$)")
"""The CUDA version in the tag of a GPU image of AWS: `cu124` is 12.4."""


@dataclass(frozen=True)
class EndpointImage:
    """A container image and the host image below it.

    Args:
        uri: as the API takes it.
        row: the catalogue's facts; None for the user's own image.
        ami: the `InferenceAmiVersion` or `TransformAmiVersion`; None for SageMaker's default.
    """

    uri: str
    row: ImageRow | None
    ami: str | None
    because: str
    notes: tuple[str, ...] = ()


class ContainerOptions(Protocol):
    """The options of an endpoint or a batch transform job on which its image depends."""

    @property
    def image(self) -> str | None: ...
    @property
    def server(self) -> str: ...
    @property
    def framework_version(self) -> str | None: ...
    @property
    def instance_type(self) -> str | None: ...


def choose_endpoint_image(
    options: ContainerOptions,
    framework: str | None,
    version: str | None,
    instance: Instance | None,
    catalogue: Catalogue,
    region: str,
    service: HostService = "endpoint",
) -> EndpointImage:
    """The image of an endpoint or a batch transform job.

    Args:
        framework: `pytorch` or `tensorflow`; None if it is not known.
        version: the framework's version; None for the newest that AWS patches.
        instance: the instance type; None for serverless endpoints and unknown types.
        service: whose host images there are.

    Raises:
        InvalidJob: the framework is not known, AWS has no such image, or no host image has the driver that it needs.
    """
    if options.image is not None:
        return _named_image(options.image, instance, catalogue, service)
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
    ami, ami_notes = _ami(found.row.cuda, instance, catalogue, service)
    return EndpointImage(found.uri, found.row, ami, because, (*notes, *ami_notes))


def _kind(framework: str, options: ContainerOptions) -> JobKind:
    """The kind of image: TensorFlow's inference images have TensorFlow Serving, but no TensorFlow for Python."""
    if framework == "tensorflow" and options.server == "gpuproof":
        return "training"
    return "endpoint"


def _named_image(
    uri: str, instance: Instance | None, catalogue: Catalogue, service: HostService
) -> EndpointImage:
    """The user's own image; its CUDA version is known if its tag has the form of AWS's."""
    because, found = "the image that you named", _CUDA_TAG.search(uri)
    if found is None:
        return EndpointImage(uri, None, None, because)
    ami, notes = _ami(f"{found[1]}.{found[2]}", instance, catalogue, service)
    return EndpointImage(uri, None, ami, because, notes)


def _ami(
    cuda: str, instance: Instance | None, catalogue: Catalogue, service: HostService
) -> tuple[str | None, tuple[str, ...]]:
    """The first host image whose driver runs a CUDA version, or None if SageMaker's default does; and notes on it.

    Raises:
        InvalidJob: no host image has a driver that is new enough.
    """
    if not cuda or instance is None or not instance.gpu_count:
        return None, ()
    floor = catalogue.driver_floor(cuda)
    if floor is None:
        return None, ()
    rows, gpu = catalogue.tables.host_amis, catalogue.gpu(instance.gpu_model or "")
    default = default_host(rows, service, instance.family)
    oldest = min((row.driver for row in rows if row.service == service and row.default_for), default=0)
    if version_key(floor.minimum)[0] <= (default.driver if default is not None else oldest):
        return None, ()
    host = best_host(rows, service, floor, gpu)
    newest = named_hosts(rows, service)[-1]
    needs = (
        f"CUDA {cuda} of the image needs the NVIDIA driver {floor.minimum}, but the newest driver that SageMaker "
        f"has for this is {newest.driver} ({newest.version})"
    )
    if host is None:
        raise InvalidJob(f"{needs}.", remedy="Use another instance type, or an image with an older CUDA.")
    if host.driver >= version_key(floor.minimum)[0]:
        return host.version, ()
    return host.version, (
        f"{needs}: it runs only with CUDA's compatibility libraries in the image, as AWS's have",
    )
