"""Slips that only show across files, or by the version of the job."""

from pathlib import Path

import pytest

from gpuproof.linter.engine import CheckOptions, check_paths
from gpuproof.linter.registry import Selection
from support.check_helpers import write_files


def places(folder: Path, monkeypatch: pytest.MonkeyPatch, code: str, files: dict[str, str]) -> list[str]:
    monkeypatch.chdir(folder)
    write_files(folder, files)
    report = check_paths(["."], CheckOptions(Selection(select=(code,))))
    return [f"{hit.span.unit.path}:{hit.span.line}" for hit in report.hits]


LAUNCH = """
from sagemaker.pytorch import PyTorch

PyTorch(
    entry_point="train.py", role="r", framework_version="{version}", py_version="py310",
    instance_count=1, instance_type="ml.g5.xlarge",
).fit()
"""
LOADER = "import torch\nloader = torch.utils.data.DataLoader([1], 4, in_order=False, num_workers=2)\n"


@pytest.mark.parametrize(("version", "found"), [("2.0.1", ["train.py:2"]), ("2.7.1", [])])
def test_a_parameter_is_wrong_where_the_version_of_the_job_lacks_it(
    version: str, found: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {"launch.py": LAUNCH.format(version=version), "train.py": LOADER}
    assert places(tmp_path, monkeypatch, "PT126", files) == found


def test_an_endless_dataset_of_another_module_is_reported_where_it_repeats(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = "import tensorflow as tf\n\ndef load(x):\n    return tf.data.Dataset.range(x).repeat().batch(4).prefetch(2)\n"
    fit = "from data import load\n\ndef train(model):\n    model.fit(load(100), epochs=3)\n"
    assert places(tmp_path, monkeypatch, "IO114", {"data.py": data, "fit.py": fit}) == ["data.py:4"]


def test_a_teacher_that_another_module_puts_into_evaluation_mode_is_quiet(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    step = (
        "import torch\n\ndef train(student, teacher, loader):\n    for x in loader:\n        with torch.no_grad():\n"
        "            goal = teacher(x)\n        (student(x) - goal).mean().backward()\n"
    )
    build = "from step import train\n\ndef main(student, teacher, loader):\n    {line}\n    train(student, teacher, loader)\n"
    quiet = {"step.py": step, "main.py": build.format(line="teacher.eval()")}
    loud = {"step.py": step, "main.py": build.format(line="student.eval()")}
    assert places(tmp_path, monkeypatch, "PF146", quiet) == []
    assert places(tmp_path, monkeypatch, "PF146", loud) == ["step.py:6"]
