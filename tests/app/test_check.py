"""`gpuproof.check` in Python finds, prints and fixes what the command does."""

from __future__ import annotations

from pathlib import Path

import pytest

import gpuproof
from gpuproof.cli.main import main
from gpuproof.errors import UsageError

LAUNCH = """from sagemaker.pytorch import PyTorch

PyTorch(entry_point="train.py", role="r", framework_version="2.1", py_version="py310", train_instance_count=1,
        train_instance_type="ml.g5.xlarge").fit()
"""
TRAIN = "import torch\nmodel = torch.nn.Linear(2, 2)\ntorch.save(model.state_dict(), 'model.pt')\n"


@pytest.fixture(autouse=True)
def _project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "launch.py").write_text(LAUNCH)
    (tmp_path / "train.py").write_text(TRAIN)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")


def test_findings_are_data_and_print_as_the_command_prints_them(capsys: pytest.CaptureFixture[str]) -> None:
    result = gpuproof.check()
    assert result.failed
    assert {(found.code, str(found.location).partition(":")[0]) for found in result.findings} >= {
        ("SM101", "train.py"),
        ("SDK102", "launch.py"),
    }
    assert repr(result).startswith("<CheckResult: 2 files checked: ")
    assert result._repr_html_().startswith("<pre>launch.py:")
    assert main(["check"]) == 1
    assert capsys.readouterr().out == f"{result}\n"


def test_rules_are_selected_and_fixes_applied(tmp_path: Path) -> None:
    assert {found.code for found in gpuproof.check(select=["SDK102"]).findings} == {"SDK102"}
    assert gpuproof.check(tmp_path / "train.py", ignore=["ALL"]).findings == ()
    result = gpuproof.check("launch.py", select=["SDK102"], fix=True)
    assert (result.fixed, result.findings) == (2, ())
    assert "instance_type=" in (tmp_path / "launch.py").read_text()
    assert "train_instance_type" not in (tmp_path / "launch.py").read_text()


def test_what_is_not_checked_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "notes.rst").write_text("python train.py\n")
    assert gpuproof.check("notes.rst").report.files == 0
    assert "notes.rst is not checked: check reads Python" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("paths", "options", "message"),
    [
        (["nothing.py"], {}, "nothing.py"),
        ([], {"region": "us-esat-1"}, "Unknown region 'us-esat-1'"),
        ([], {"instance_type": "g5.xlage"}, "Unknown instance type g5.xlage"),
        ([], {"select": ["XX999"]}, "XX999"),
        ([], {"unsafe_fixes": True}, "needs fix=True"),
        ([], {"inputs": {"train": "data"}}, "need plan=True"),
    ],
)
def test_wrong_arguments_are_refused(paths: list[str], options: dict[str, object], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        gpuproof.check(*paths, **options)  # type: ignore[arg-type]
