from __future__ import annotations

from pathlib import Path

import pytest

from gpuproof.backends.local.plan import framework_warning, require_framework
from gpuproof.errors import InvalidJob
from gpuproof.jobs.models.script_jobs import TrainingJob

HERE = {"tensorflow": "2.21.0", "torch": "2.13.0+cpu"}


@pytest.mark.parametrize(
    ("framework", "version"),
    [
        (None, None),
        ("tensorflow", None),
        ("tensorflow", "2.21"),
        ("tensorflow", "2.21.0"),
        ("pytorch", "2.13"),
        ("xgboost", "1.7"),
    ],
)
def test_nothing_is_reported_where_the_framework_matches_the_jobs(
    framework: str | None, version: str | None
) -> None:
    job = TrainingJob(entry_point="t.py", framework=framework, framework_version=version)
    assert framework_warning(job, HERE) is None


@pytest.mark.parametrize(
    ("framework", "version", "expected"),
    [
        ("tensorflow", "2.19", "tensorflow 2.21.0"),
        ("tensorflow", "2.2", "framework_version is 2.2,"),
        ("pytorch", "2.13.1", "torch 2.13.0+cpu"),
    ],
)
def test_another_version_is_reported(framework: str, version: str | None, expected: str) -> None:
    job = TrainingJob(entry_point="t.py", framework=framework, framework_version=version)
    assert expected in (framework_warning(job, HERE) or "")


def test_a_missing_framework_is_rejected_before_the_start(tmp_path: Path) -> None:
    job = TrainingJob(entry_point="t.py", framework="tensorflow", source_dir=str(tmp_path))
    require_framework(job, HERE, "/usr/bin/python3")
    with pytest.raises(InvalidJob) as refusal:
        require_framework(job, {"keras": "3.15.1"}, "/usr/bin/python3")
    assert refusal.value.message == (
        "'t' sets framework: tensorflow, but /usr/bin/python3 has no TensorFlow (tensorflow)."
    )
    assert "/usr/bin/python3 -m pip install tensorflow\n" in str(refusal.value.remedy)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("requirements.txt", "numpy\ntensorflow-cpu==2.21\n"),
        ("requirements.txt", "-r more.txt"),
        ("setup.py", ""),
    ],
)
def test_a_framework_that_the_run_installs_is_not_missing(name: str, content: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(content)
    require_framework(
        TrainingJob(entry_point="t.py", framework="tensorflow", source_dir=str(tmp_path)),
        {},
        "/usr/bin/python3",
    )


def test_requirements_without_the_framework_do_not_install_it(tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text("# tensorflow\ntensorflow-datasets\n".replace("-", "_"))
    job = TrainingJob(entry_point="t.py", framework="tensorflow", source_dir=str(tmp_path))
    with pytest.raises(InvalidJob):
        require_framework(job, {}, "/usr/bin/python3")
