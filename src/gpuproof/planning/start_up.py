"""What is billed besides the steps: the start of the instance until the script's first line, and its volume."""

from __future__ import annotations

from gpuproof.catalogue import Catalogue
from gpuproof.catalogue.model import Instance, ServiceName
from gpuproof.catalogue.storage_prices import SAGEMAKER_STORAGE, Volume
from gpuproof.planning.estimates import Interval

START_UP_S: dict[ServiceName, Interval] = {
    "sagemaker": Interval(140.0, 160.0, 200.0),
    "ec2": Interval(60.0, 120.0, 300.0),
}
"""Billed seconds before the script's first line; the wait for capacity is not billed, and is not known in advance.

SageMaker: between "Downloading - Downloading input data" and "Training image download completed" in the logs of eight public training
jobs with GPU images and little data, 2021 to 2024 (aws/amazon-sagemaker-examples, huggingface/blog, huggingface/accelerate and a project on
GitHub): 141 to 200 s, median 161 s. EC2: assumed, since no measurement is known: start of the AMI, driver, packages and files."""

_EC2_VOLUME = Volume("gp3", 140)
"""A Deep Learning AMI's snapshot and the 40 GiB for work that `gpuproof run --on ec2` adds."""
_SAGEMAKER_VOLUME = Volume(SAGEMAKER_STORAGE, 30, use="training")
"""Where the job names no size, as `gpuproof run --on sagemaker`. Instances with a local disk have no volume:
https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_ResourceConfig.html"""


def start_up(service: ServiceName, given: float | None = None) -> Interval:
    """Billed seconds before the script's first line.

    Args:
        service: that starts the instance.
        given: the user's own figure, in seconds.
    """
    return START_UP_S[service] if given is None else Interval(given, given, given)


def storage_usd_per_hour(
    catalogue: Catalogue, instance: Instance, service: ServiceName, region: str
) -> float:
    """Price of the volume of an instance, in USD per hour; 0 if it has none, and in regions that are not billed in USD."""
    if service == "sagemaker" and instance.local_disk:
        return 0.0
    price = catalogue.volume_price(_EC2_VOLUME if service == "ec2" else _SAGEMAKER_VOLUME, region)
    return 0.0 if price is None else price.usd_per_hour
