"""Finds the AWS Deep Learning Container for a job."""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from gpuproof.catalogue.builds import FRAMEWORKS
from gpuproof.catalogue.model import ImageRow, Instance, JobKind, Registry
from gpuproof.util.versions import version_key

JOBS: dict[JobKind, str] = {
    "training": "training",
    "processing": "training",
    "endpoint": "inference",
    "transform": "inference",
}
"""The kind of image for each job kind; there are none for processing."""

HUGGINGFACE = "huggingface"
"""The framework whose images are Hugging Face's; its version is that of Transformers."""


class Image(NamedTuple):
    """A container image in one region.

    Attributes:
        uri: with registry and tag, as APIs expect it.
        row: its facts; compare `row.cuda` with the host's driver by `Catalogue.driver_floor`.
    """

    uri: str
    row: ImageRow


def find_image(
    rows: Sequence[ImageRow],
    registries: Mapping[str, Registry],
    framework: str,
    version: str | None,
    use: JobKind,
    instance: Instance,
    region: str,
    runs: Callable[[ImageRow], bool] | None = None,
) -> Image | None:
    """Returns the best image of a version, or the default; prefers listed to derived tags.

    The default is the newest that was found in its source, runs on the hosts, and is still patched by AWS: the last wish is
    given up first.

    Args:
        runs: whether every host that the job may get runs a default image; None if its hosts have no driver or are unknown.
    """
    registry = registries.get(region)
    job = JOBS.get(use)
    # Inferentia, Trainium and the like have their own images, which are not in the table.
    if registry is None or job is None or instance.accelerator not in ("gpu", "none"):
        return None
    device = "gpu" if instance.gpu_count else "cpu"
    fitting = [
        row
        for row in rows
        if _is_of(row, framework.lower(), version)
        and (row.job, row.device, row.arch) == (job, device, instance.arch)
    ]
    if version is None:
        fitting = [row for row in fitting if row.confirmed]
        fitting = [row for row in fitting if runs is None or runs(row)] or fitting
        fitting = [row for row in fitting if row.status == "patched"] or fitting
    best = max(
        fitting,
        key=lambda row: _preference(row, "sagemaker" if instance.on_sagemaker else "ec2"),
        default=None,
    )
    if best is None or (instance.on_sagemaker and best.platform != "sagemaker"):
        return None
    host = f"{registry.account}.dkr.ecr.{registry.region}.{registry.dns_suffix}"
    return Image(uri=f"{host}/{best.repository}:{best.tag}", row=best)


def _is_of(row: ImageRow, framework: str, version: str | None) -> bool:
    if framework == HUGGINGFACE:
        return (row.library, row.framework) == ("transformers", "torch") and _is_version(
            row.library_version, version
        )
    return row.framework == FRAMEWORKS.get(framework) and _is_version(row.version, version)


def _is_version(of_image: str, wanted: str | None) -> bool:
    if wanted is None:
        return True
    parts = wanted.partition("+")[0].split(".")
    # Patch releases of frameworks are compatible, and AWS has one image per minor version.
    return of_image.split(".")[:2] == parts[:2]


def _preference(row: ImageRow, platform: str) -> tuple[bool, tuple[int, ...], tuple[int, ...], bool]:
    # Of Hugging Face's images, the newest Transformers comes first, then the newest framework.
    library = version_key(row.library_version) if row.library else ()
    return row.platform == platform, library, version_key(row.version), row.evidence == "listed"
