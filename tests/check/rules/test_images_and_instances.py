"""What jobs name as image, version and instance type, in the forms that examples leave out."""

from pathlib import Path

import pytest

from gpuproof.findings import Severity
from gpuproof.linter.engine import CheckOptions, check_paths
from gpuproof.linter.registry import Selection
from gpuproof.linter.rule import Hit

HEAD = "import os\nfrom sagemaker.estimator import Estimator\nfrom sagemaker.pytorch import PyTorch\n"


def hits_of(code: str, line: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> list[Hit]:
    monkeypatch.chdir(folder)
    (folder / "launch.py").write_text(HEAD + line + "\n")
    return list(check_paths(["."], CheckOptions(Selection(select=(code,)))).hits)


@pytest.mark.parametrize("version", ["latest", "", "2"])
def test_an_invalid_version_has_no_finding(
    version: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    line = f'PyTorch(entry_point="t.py", instance_type="ml.g5.xlarge", framework_version="{version}", py_version="py310")'
    assert hits_of("FW101", line, tmp_path, monkeypatch) == []


def test_an_address_whose_region_is_unknown_still_lacks_its_tag(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = 'f"763104351884.dkr.ecr.{boto_region}.amazonaws.com/tensorflow-training"'
    line = f'Estimator({address}, "role", 1, "ml.g5.xlarge")'
    assert [hit.code for hit in hits_of("FW102", line, tmp_path, monkeypatch)] == ["FW102"]


def test_a_type_that_is_only_a_default_is_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    line = 'PyTorch(entry_point="t.py", instance_type=os.environ.get("TYPE", "ml.p2.xlarge"))'
    assert [hit.finding.severity for hit in hits_of("IN105", line, tmp_path, monkeypatch)] == [
        Severity.WARNING
    ]


def test_an_unknown_family_may_be_newer_than_the_data(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    line = 'PyTorch(entry_point="t.py", instance_type="ml.g99.xlarge")'
    assert [hit.finding.severity for hit in hits_of("IN101", line, tmp_path, monkeypatch)] == [
        Severity.WARNING
    ]


def test_either_of_two_types_is_judged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    line = 'PyTorch(entry_point="t.py", instance_type="p3.2xlarge" if os.name else "ml.g5.xlarge")'
    assert len(hits_of("IN102", line, tmp_path, monkeypatch)) == 1


@pytest.mark.parametrize(
    ("given", "instead"), [("p3.2xlarge", "g4dn.xlarge"), ("ml.p3.2xlarge", "ml.g4dn.xlarge")]
)
def test_a_type_of_ec2_is_replaced_by_one_of_ec2(
    given: str, instead: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text("import torch\n")
    (tmp_path / "gpuproof.yaml").write_text(f"entry_point: train.py\ninstance_type: {given}\n")
    (hit,) = check_paths(["."], CheckOptions(Selection(select=("IN105",)))).hits
    assert (hit.finding.remedy or "").startswith(f"Use {instead}: one T4")
