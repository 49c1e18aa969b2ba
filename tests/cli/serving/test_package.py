"""`gpuproof package` before it packs: what it refuses."""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest

from gpuproof.cli.main import main
from gpuproof.errors import ExitCode


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GPUPROOF_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("GPUPROOF_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "model" / "code").mkdir(parents=True)
    (tmp_path / "model" / "w.bin").write_bytes(b"\\0" * 10)
    (tmp_path / "model" / "code" / "inference.py").write_text("def model_fn(folder):\n    return len\n")
    (tmp_path / "model" / "code" / ".env").write_text("X=1\n")
    (tmp_path / "model" / "code" / "loop").symlink_to("..")
    return tmp_path / "model"


def test_files_that_look_like_secrets_are_not_packed(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["package", str(model), "--no-serve-check"]) == ExitCode.USAGE
    printed = capsys.readouterr().err
    assert (
        f"Nothing was packed, because 1 file of {model} looks like a secret: code/.env (by its name)."
        in printed
    )
    assert "Move it elsewhere, or have it packed on purpose: --include 'code/.env'" in printed
    assert not Path("model.tar.gz").exists()


def test_include_packs_them(model: Path) -> None:
    assert main(["package", str(model), "--no-serve-check", "--include", "code/.env"]) == ExitCode.OK
    with tarfile.open("model.tar.gz") as archive:
        assert "code/.env" in archive.getnames()
