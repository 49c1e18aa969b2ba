"""`gpuproof emulator`: flags that cannot be meant are refused before anything is started."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from unittest import mock

import pytest

from gpuproof.cli.main import main
from gpuproof_emulator.testing import running

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--port", "99999"], "'99999' is not a port"),
        (["--port", "-1"], "'-1' is not a port"),
        (["--quota", "ml.g5.xlarge=0"], "unknown quota 'ml.g5.xlarge'"),
        (
            ["--quota", "ml.g5.xlarge for training jobs usage=0"],
            "did you mean 'ml.g5.xlarge for training job usage'?",
        ),
        (["--quota", "ml.g5.xlarge for training job usage=none"], "takes NAME=NUMBER"),
        (["--fault", "drop,when=later"], "when=later is invalid; choose before or after"),
        (["--fault", "capacity,at=noon"], "at=noon is invalid; choose job or creation"),
    ],
)
def test_an_impossible_flag_is_refused_with_the_reason(
    words: list[str], expected: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert code_of(["emulator", "--state", str(tmp_path / "state"), *words]) == 2
    assert expected in capsys.readouterr().err
    assert not (tmp_path / "state").exists()


def test_a_file_is_not_used_as_the_state_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("moto")
    file = tmp_path / "file"
    file.touch()
    with mock.patch.dict(os.environ):  # the emulator forgets the user's own AWS
        assert code_of(["emulator", "--port", "0", "--state", str(file)]) == 1
    output = capsys.readouterr().err
    assert f"Cannot keep the emulator's state in {file}: File exists." in output
    assert "--state FOLDER" in output


def test_a_port_in_use_is_reported_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("moto")
    with socket.create_server(("127.0.0.1", 0)) as taken, mock.patch.dict(os.environ):
        port = taken.getsockname()[1]
        assert code_of(["emulator", "--port", str(port), "--state", str(tmp_path)]) == 1
    first, *_ = capsys.readouterr().err.splitlines()
    assert first == f"gpuproof: Port {port} on 127.0.0.1 is already in use."


def test_only_the_named_regions_are_enabled(tmp_path: Path) -> None:
    words = ("--enabled-region", "us-east-1", "--enabled-region", "eu-west-1")
    with running(tmp_path / "state", *words) as emulator:
        regions = emulator.client("ec2").describe_regions()["Regions"]
    assert {region["RegionName"] for region in regions} == {"us-east-1", "eu-west-1"}


def code_of(words: list[str]) -> int:
    """The exit code, however it comes."""
    try:
        return main(words)
    except SystemExit as left:
        return int(left.code or 0)
