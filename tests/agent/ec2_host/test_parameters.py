from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from gpuproof.agent.ec2_host.parameters import HostParameters


def test_parameters_are_read_as_they_were_written(
    parameters: Callable[..., HostParameters], tmp_path: Path
) -> None:
    given = parameters(
        hosts=("algo-1", "algo-2"), pythons=("/opt/pytorch/bin",), inputs={"input/data/a": "s3://b/a/"}
    )
    file = tmp_path / "parameters.json"
    file.write_text(json.dumps(given.to_json()))
    assert HostParameters.read(file) == given


@pytest.mark.parametrize("damage", [{"version": 2}, {"region": None, "surplus": 1}])
def test_parameters_of_another_version_are_rejected(
    damage: dict[str, object], parameters: Callable[..., HostParameters], tmp_path: Path
) -> None:
    file = tmp_path / "parameters.json"
    file.write_text(json.dumps({**parameters().to_json(), **damage}))
    with pytest.raises(ValueError, match=r"version|not complete"):
        HostParameters.read(file)
