from __future__ import annotations

import pytest

from gpuproof.backends.local.framework_check import framework_warning
from gpuproof.jobs.spec import TrainingJob

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
        ("jax", None, "has no jax"),
    ],
)
def test_another_version_or_none_is_reported(framework: str, version: str | None, expected: str) -> None:
    job = TrainingJob(entry_point="t.py", framework=framework, framework_version=version)
    assert expected in (framework_warning(job, HERE) or "")
