"""Parameters of a host, and programs that replace the AWS CLI in tests of what it prints."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gpuproof.agent.ec2_host.parameters import HostParameters


@pytest.fixture
def parameters() -> Callable[..., HostParameters]:
    """Makes parameters of a host; arguments replace the usual ones."""

    def make(**changes: Any) -> HostParameters:
        usual = {
            "run_id": "run-1",
            "region": "us-east-1",
            "bucket": "bucket",
            "prefix": "gpuproof/runs/run-1/",
            "kind": "training",
            "agent_sha256": "00" * 32,
            "max_duration": 1000.0,
            "instance_type": "g5.xlarge",
        }
        return HostParameters(**{**usual, **changes})

    return make


@pytest.fixture
def aws(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """Puts a shell script into `PATH` as `aws`; it counts its calls in the file whose path is returned."""

    def make(script: str) -> Path:
        calls = tmp_path / "aws-calls"
        program = tmp_path / "bin" / "aws"
        program.parent.mkdir(exist_ok=True)
        program.write_text(f'#!/bin/sh\necho "$*" >> {calls}\nnumber=$(wc -l < {calls})\n{script}\n')
        program.chmod(0o755)
        monkeypatch.setenv("PATH", str(program.parent), prepend=":")
        return calls

    return make
