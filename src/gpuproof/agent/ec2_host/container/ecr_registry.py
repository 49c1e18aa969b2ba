"""Image names in Amazon's container registry (ECR)."""

from __future__ import annotations

import re
from dataclasses import dataclass

_NAME = re.compile(
    r"(?P<host>(?P<account>\d{12})\.dkr[.-]ecr(?:-fips)?\.(?P<region>[a-z]{2}[a-z0-9-]+)\."
    r"(?:amazonaws\.com(?:\.cn)?|on\.aws|on\.amazonwebservices\.com\.cn))/(?P<rest>.+)"
)


@dataclass(frozen=True)
class EcrImage:
    """An image in a private registry of ECR.

    Args:
        host: name of the registry, such as `763104351884.dkr.ecr.us-east-1.amazonaws.com`.
        name: repository with tag or digest.

    Source: https://docs.aws.amazon.com/AmazonECR/latest/userguide/Registries.html
    """

    host: str
    account: str
    region: str
    name: str


def ecr_image(image: str) -> EcrImage | None:
    """The parts of an image's name; None if it is not in a private registry of ECR."""
    found = _NAME.fullmatch(image)
    return (
        None if found is None else EcrImage(found["host"], found["account"], found["region"], found["rest"])
    )
