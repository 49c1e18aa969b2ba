"""Versions of Trainers: which parameters exist where, and what a project says about its version."""

from pathlib import Path

import pytest

from gpuproof.linter.knowledge.trainers.language_models import model_size
from gpuproof.linter.knowledge.trainers.metric_names import better
from gpuproof.linter.knowledge.trainers.releases import constraint_range
from gpuproof.linter.knowledge.trainers.tables import members
from gpuproof.linter.knowledge.version_pins import listed_packages, pinned_versions
from gpuproof.linter.source.span import Unit


@pytest.mark.parametrize(
    ("constraint", "presence"),
    [
        ("==4.57.1", "no"),
        ("==4.40.0", "yes"),
        ("~=4.38.0", "yes"),
        (">=4.51.3,<5", "no"),
        (">=4.38", "unknown"),
        ("<4.45", "yes"),
        ("==4.*", "unknown"),
    ],
)
def test_a_parameter_exists_in_the_versions_that_a_project_allows(constraint: str, presence: str) -> None:
    versions = constraint_range(constraint, "transformers")
    assert versions is not None
    assert members("transformers", "TrainingArguments")["evaluation_strategy"].presence(versions) == presence


def test_a_constraint_that_cannot_be_read_says_nothing() -> None:
    assert constraint_range("@ git+https://example.org/transformers", "transformers") is None


def test_packages_without_a_version_are_listed(tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text("lightning\ntrl==0.19.1\n")
    unit = Unit(str(tmp_path / "train.py"), "", "python")
    assert pinned_versions(unit) == {"trl": "==0.19.1"}
    assert listed_packages(unit) == {"lightning", "trl"}


@pytest.mark.parametrize(
    ("name", "billions"),
    [
        ("meta-llama/Llama-3.1-70B-Instruct", 70.6),
        ("team/our-7b-chat", 6.51),
        ("team/our-8x7b", None),
        ("team/our-70B-AWQ", None),
        ("team/bert", None),
        ("./llama-70b", 65.1),
    ],
)
def test_the_size_of_a_model_is_in_the_table_or_in_its_name(name: str, billions: float | None) -> None:
    size = model_size(name)
    assert (size.parameters / 1e9 if size is not None else None) == (
        pytest.approx(billions) if billions is not None else None
    )


@pytest.mark.parametrize(
    ("name", "mode"),
    [("val_acc", "max"), ("eval/f1", "max"), ("val_loss", "min"), ("f1_loss", None), ("reward", None)],
)
def test_the_name_of_a_metric_says_what_is_better(name: str, mode: str | None) -> None:
    assert better(name) == mode
