"""Every code that `gpuproof doctor` can report is described."""

import re
from pathlib import Path

import pytest

import gpuproof.doctor
from gpuproof.cli.main import main
from gpuproof.doctor.codes import LAYERS, doctor_codes


def test_every_code_of_every_check_has_a_row_and_no_row_is_left_over() -> None:
    folder = Path(gpuproof.doctor.__file__).parent
    shared = folder.parent / "gpu" / "checks"
    files = [
        *folder.rglob("checks/**/*.py"),
        *shared.glob("*.py"),
        *folder.glob("data/environment/*.csv"),
        folder / "check.py",
    ]
    used = {code for path in files for code in re.findall(r"\bD[1-8]\d\d\b", path.read_text())}
    assert used == set(doctor_codes())


def test_every_row_has_a_problem_a_sentence_and_a_layer() -> None:
    for doctor_code in doctor_codes().values():
        assert doctor_code.problem
        assert not doctor_code.problem.endswith(".")
        assert doctor_code.meaning.endswith(".")
        assert doctor_code.layer in LAYERS.values()


@pytest.mark.parametrize("code", ["D101", "d101"])
def test_rule_describes_a_code_of_the_doctor(capsys: pytest.CaptureFixture[str], code: str) -> None:
    assert main(["rule", code]) == 0
    out = capsys.readouterr().out
    assert out.startswith("D101: no GPU\n")
    assert "layer hardware" in out
    assert main(["rule", code, "--json"]) == 0
    assert '"code": "D101"' in capsys.readouterr().out


def test_a_misspelt_code_suggests_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rule", "D1O1"]) == 2
    assert "did you mean 'D101'" in capsys.readouterr().err
