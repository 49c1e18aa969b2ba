"""Every machine in `scenarios/`: the doctor finds exactly the expected findings on it."""

import tomllib
from pathlib import Path
from typing import Any

import pytest

from gpuproof.doctor.formats.text import render_text
from gpuproof.doctor.registry import CHECKS
from gpuproof.doctor.report import Report, State
from gpuproof.doctor.runner import examine
from gpuproof.findings import Finding, Severity
from support.doctor_machines import SCENARIOS, build_machine, read_scenario

DOCUMENTATION = Path(__file__).parents[2] / "docs" / "doctor.md"
NAMES = sorted(folder.name for folder in SCENARIOS.iterdir() if folder.is_dir())


@pytest.fixture(scope="session")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("libraries")


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_the_doctor_finds_on_this_machine(name: str, tmp_path: Path, libraries: Path) -> None:
    readings = read_scenario(SCENARIOS / name)
    expected = tomllib.loads((SCENARIOS / name / "expected.toml").read_text())
    machine = build_machine(readings, tmp_path, libraries)
    report = examine(machine, CHECKS)
    wanted = expected.get("finding", [])
    found = "\n".join(describe(finding) for finding in report.findings)
    assert sorted((f.code, str(f.severity)) for f in report.findings) == sorted(
        (name["code"], name["severity"]) for name in wanted
    ), found
    for item in wanted:
        assert any(matches(finding, item) for finding in report.findings), f"{item}\nfound:\n{found}"
    assert failed_layer(report) == expected.get("failed_layer"), found
    assert report.exit_code() == expected["exit_code"], found


def matches(finding: Finding, wanted: dict[str, Any]) -> bool:
    text = describe(finding)
    return (
        finding.code == wanted["code"]
        and str(finding.location or "").startswith(wanted.get("location", ""))
        and all(word in text for word in wanted.get("contains", []))
    )


def describe(finding: Finding) -> str:
    parts = [f"{finding.code} {finding.severity} {finding.location or ''}: {finding.message}"]
    return "\n  ".join([*parts, *finding.evidence, f"-> {finding.remedy}"])


def failed_layer(report: Report) -> str | None:
    return next(
        (layer.layer.label for layer in report.layers if layer.layer.stacked and layer.state is State.FAILED),
        None,
    )


def test_every_scenario_has_a_description() -> None:
    for name in NAMES:
        assert read_scenario(SCENARIOS / name).description.strip(), name


@pytest.mark.slow
def test_the_documentation_shows_what_the_doctor_prints(tmp_path: Path, libraries: Path) -> None:
    readings = read_scenario(SCENARIOS / "default_torch_on_an_older_driver")
    report = examine(build_machine(readings, tmp_path, libraries), CHECKS)
    printed = render_text(report, Severity.NOTE, colour=False, width=120).rstrip()
    printed = printed.replace(str(tmp_path), "")
    assert f"```text\n$ gpuproof doctor\n{printed}\n```" in DOCUMENTATION.read_text()
