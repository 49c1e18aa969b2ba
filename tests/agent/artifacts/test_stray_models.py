"""Models that were saved in the working directory instead of /opt/ml/model are named."""

from pathlib import Path

import pytest

from gpuproof.agent.artifacts.stray_models import snapshot, stray_models


@pytest.mark.parametrize(
    "name", ["m.h5", "m.keras", "deep/m.pt", "m.PTH", "m.safetensors", "m.onnx", "m.pkl", "m.weights.h5"]
)
def test_a_new_file_that_looks_like_a_model_is_named(name: str, tmp_path: Path) -> None:
    before = snapshot(tmp_path)
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_bytes(b"x")
    assert stray_models(tmp_path, before) == [name]


def test_a_model_that_was_there_before_is_not_named(tmp_path: Path) -> None:
    (tmp_path / "pretrained.h5").write_bytes(b"x")
    assert stray_models(tmp_path, snapshot(tmp_path)) == []


def test_a_model_that_was_there_and_has_changed_is_named(tmp_path: Path) -> None:
    (tmp_path / "model.h5").write_bytes(b"x")
    before = snapshot(tmp_path)
    (tmp_path / "model.h5").write_bytes(b"longer")
    assert stray_models(tmp_path, before) == ["model.h5"]


def test_of_a_saved_model_only_the_folder_is_named(tmp_path: Path) -> None:
    before = snapshot(tmp_path)
    (tmp_path / "export" / "1" / "variables").mkdir(parents=True)
    for name in ("saved_model.pb", "fingerprint.pb", "variables/variables.data-00000-of-00001"):
        (tmp_path / "export" / "1" / name).write_bytes(b"x")
    assert stray_models(tmp_path, before) == ["export/1/"]


def test_a_small_bin_and_a_log_are_no_models(tmp_path: Path) -> None:
    before = snapshot(tmp_path)
    (tmp_path / "header.bin").write_bytes(b"x" * 100)
    (tmp_path / "train.log").write_bytes(b"x")
    (tmp_path / "pytorch_model.bin").write_bytes(bytes(1_000_000))
    assert stray_models(tmp_path, before) == ["pytorch_model.bin"]


def test_dead_links_and_a_missing_folder_do_no_harm(tmp_path: Path) -> None:
    (tmp_path / "m.pt").symlink_to("nowhere")
    assert stray_models(tmp_path, {}) == []
    assert snapshot(tmp_path / "none") == {}
