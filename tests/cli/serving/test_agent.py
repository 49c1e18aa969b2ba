"""`gpuproof agent`: the agent file, and the lines that put it into an image."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from pathlib import Path

import pytest

from gpuproof.cli.main import main
from gpuproof.cli.serving.agent import dockerfile_lines


def test_the_dockerfile_lines_are_the_only_output(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["agent"]) == 0
    output, messages = capsys.readouterr()
    assert output.splitlines() == [
        "COPY gpuproof-agent.pyz /opt/gpuproof-agent.pyz",
        'ENTRYPOINT ["python", "/opt/gpuproof-agent.pyz", "serve"]',
    ]
    assert messages.startswith("gpuproof-agent.pyz: agent of GPUproof ")
    done = subprocess.run(
        [sys.executable, "gpuproof-agent.pyz", "serve", "--help"], capture_output=True, text=True, check=True
    )
    assert "--model-dir" in done.stdout


def test_with_watch_the_image_watches_its_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["agent", "--watch", "-o", str(tmp_path / "agent.pyz")]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "COPY agent.pyz /opt/gpuproof-agent.pyz",
        'ENTRYPOINT ["python3", "/opt/gpuproof-agent.pyz", "watch", "--"]',
    ]


def test_the_file_can_go_elsewhere(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "new" / "agent.pyz"
    assert main(["agent", "-o", str(target), "--format", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    content = target.read_bytes()
    assert (found["file"], found["bytes"]) == (str(target), len(content))
    assert found["sha256"] == hashlib.sha256(content).hexdigest()
    assert found["dockerfile"][0] == "COPY agent.pyz /opt/gpuproof-agent.pyz"


def test_a_folder_gets_the_usual_name(tmp_path: Path) -> None:
    assert main(["agent", "-o", str(tmp_path)]) == 0
    assert (tmp_path / "gpuproof-agent.pyz").is_file()


def test_a_path_that_cannot_be_written_is_wrong_usage(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    assert main(["agent", "-o", str(tmp_path / "file" / "agent.pyz")]) == 2
    assert "agent.pyz cannot be written" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("docker/agent.pyz", "COPY docker/agent.pyz /opt/gpuproof-agent.pyz"),
        ("my agent.pyz", 'COPY ["my agent.pyz", "/opt/gpuproof-agent.pyz"]'),
    ],
)
def test_the_source_is_relative_to_the_build_context(path: str, expected: str) -> None:
    assert dockerfile_lines(Path(path))[0] == expected
