"""A client whose waits are only written down, and an AWS that can be made to fail."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from gpuproof.backends.aws import Aws
from support.faulty_aws import FaultyAws
from support.s3_server import MotoServer


@pytest.fixture
def faulty(moto_server: MotoServer, aws_environment: pytest.MonkeyPatch) -> Iterator[FaultyAws]:
    """Moto with faults, where the environment's endpoint leads."""
    aws_environment.setenv("AWS_MAX_ATTEMPTS", "1")
    with FaultyAws(moto_server.url) as server:
        aws_environment.setenv("AWS_ENDPOINT_URL", server.url)
        yield server


@pytest.fixture
def waited() -> list[float]:
    """Seconds that the client waited."""
    return []


@pytest.fixture
def aws(faulty: FaultyAws, waited: list[float]) -> Aws:
    """A client of the faulty server that waits for nothing."""
    return Aws(sleep=waited.append, region="us-east-1")
