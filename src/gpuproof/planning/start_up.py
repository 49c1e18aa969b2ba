"""What is billed besides the steps: the start of the instance until the script's first line, and its volume."""

from __future__ import annotations

from gpuproof.catalogue.model import Instance, ServiceName
from gpuproof.planning.estimates import Interval

START_UP_S: dict[ServiceName, Interval] = {
    "sagemaker": Interval(140.0, 160.0, 200.0),
    "ec2": Interval(60.0, 120.0, 300.0),
}
"""Billed seconds before the script's first line; the wait for capacity is not billed, and nobody knows it.

SageMaker: between "Downloading - Downloading input data" and "Training image download completed" in the logs of eight public training
jobs with GPU images and little data, 2021 to 2024 (aws/amazon-sagemaker-examples, huggingface/blog, huggingface/accelerate and a project on
GitHub): 141 to 200 s, median 161 s. EC2: assumed, since no measurement is known: start of the AMI, driver, packages and files."""

_EC2_VOLUME_GB = 140
"""A Deep Learning AMI's snapshot and the 40 GiB for work that `gpuproof run --on ec2` adds."""
_EC2_USD_PER_GB_MONTH = 0.08
"""gp3 in us-east-1: https://aws.amazon.com/ebs/pricing/; other regions cost up to twice as much."""
_SAGEMAKER_VOLUME_GB = 30
"""Where the job names none, as `gpuproof run --on sagemaker`."""
_SAGEMAKER_USD_PER_GB_MONTH = 0.14
"""General purpose SSD of training in us-east-1: https://aws.amazon.com/sagemaker/ai/pricing/. Instances with a local disk have
no volume: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_ResourceConfig.html"""
_HOURS_PER_MONTH = 730.0
"""As AWS counts for prices by month: 8,760 h a year."""


def start_up(service: ServiceName, given: float | None = None) -> Interval:
    """Billed seconds before the script's first line.

    Args:
        service: that starts the instance.
        given: the user's own figure, in seconds.
    """
    return START_UP_S[service] if given is None else Interval(given, given, given)


def storage_usd_per_hour(instance: Instance, service: ServiceName) -> float:
    """Price of the volume of an instance, in USD per hour, in us-east-1."""
    if service == "ec2":
        return _EC2_VOLUME_GB * _EC2_USD_PER_GB_MONTH / _HOURS_PER_MONTH
    if instance.local_disk:
        return 0.0
    return _SAGEMAKER_VOLUME_GB * _SAGEMAKER_USD_PER_GB_MONTH / _HOURS_PER_MONTH
