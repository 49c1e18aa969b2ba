"""One test's part of the emulated account."""

from __future__ import annotations

import itertools

import pytest

from support.endpoint_sandbox import EndpointSandbox
from support.sagemaker_sandbox import SageMakerSandbox

_NUMBERS = itertools.count(1)


@pytest.fixture
def endpoints(sandbox: SageMakerSandbox) -> EndpointSandbox:
    return EndpointSandbox(sandbox, f"e{next(_NUMBERS)}-small")
