"""`gpuproof.check` in Python finds, prints and fixes what the command does."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest
from IPython.core.formatters import DisplayFormatter

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
    assert main(["check"]) == 1
    assert capsys.readouterr().out == f"{result}\n"


def test_a_notebook_gets_a_row_for_each_finding_with_what_the_command_prints(tmp_path: Path) -> None:
    (tmp_path / "<script>.py").write_text(TRAIN)
    (tmp_path / "launch.py").write_text(LAUNCH.replace("train.py", "<script>.py"))
    result = gpuproof.check()
    shown, _ = DisplayFormatter().format(result)
    assert shown["text/plain"] == repr(result)
    page = ElementTree.fromstring(f"<body>{shown['text/html']}</body>")
    rows = [[cell.text or "" for cell in row] for row in page.findall("table/tbody/tr")]
    assert len(rows) == len(result.findings)
    assert not list(page.iter("script"))
    assert "<script>.py:3:32" in {row[0] for row in rows}
    for finding, (_, rule, source, text) in zip(result.findings, rows, strict=True):
        assert rule.startswith(f"{finding.severity} {finding.code} ")
        assert source.splitlines()[1].strip("^ ") == ""
        assert text.splitlines()[0] == finding.message
        assert not {finding.remedy, *finding.evidence} - {line.lstrip("-= ") for line in text.splitlines()}
    assert str(result).splitlines()[-1] in {element.text for element in page.findall("div")}


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
