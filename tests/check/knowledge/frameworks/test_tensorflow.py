"""Which TensorFlow a script meets, by its project's pins."""

from pathlib import Path

import pytest

from gpuproof.linter.knowledge.frameworks.tensorflow import (
    removed_from_keras,
    tensorflow_is_at_least,
)
from gpuproof.linter.project import Project
from gpuproof.linter.source.span import Unit


@pytest.mark.parametrize(
    ("pin", "verdict"),
    [
        ("tensorflow==2.17.0", "yes"),
        ("tensorflow==2.15.1", "no"),
        ("tensorflow>=2.16", "yes"),
        ("tensorflow>=2.3", "unknown"),
        ("tensorflow<2.16", "no"),
        ("tensorflow<3", "unknown"),
        ("tensorflow-gpu~=2.9", "no"),
        ("numpy==2.0", "unknown"),
    ],
)
def test_a_pin_decides_whether_tensorflow_is_new_enough(pin: str, verdict: str, tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text(pin + "\n")
    unit = Unit(str(tmp_path / "train.py"), "import tensorflow as tf\n", "python")
    project = Project([unit])
    module = project.workspace.module(unit)
    assert module is not None
    assert tensorflow_is_at_least(module, project, "2.16") == verdict


def test_what_keras_removed_has_a_source_for_each_row() -> None:
    assert {kera.kind for kera in removed_from_keras()} == {"method", "function", "name", "optimizer", "fit"}
