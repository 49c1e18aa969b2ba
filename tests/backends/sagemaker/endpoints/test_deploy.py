from __future__ import annotations

import pytest

from support.endpoint_sandbox import EndpointSandbox

pytestmark = pytest.mark.slow


def test_a_packed_model_serves_with_our_server_and_delete_removes_everything(endpoints: EndpointSandbox) -> None:
    deployed = endpoints.deploy()
    assert deployed.verdict is not None
    assert deployed.verdict.verdict == "no-gpu"
    assert endpoints.invoke([1, 2]) == [1, 2]
    assert endpoints.kinds_left() == ["config", "endpoint", "file", "model"]
