"""Which findings stop a job, and which become warnings."""

import textwrap
from pathlib import Path

import pytest

from gpuproof.findings import Severity
from gpuproof.jobs.load import load
from gpuproof.linter.preflight import check_job
from gpuproof.linter.reach.blocking import EFFECTS
from gpuproof.linter.registry import all_rules
from support.check_helpers import write_files

MOVED = """
import torch
def main():
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = torch.nn.Linear(4, 2).to(device)
    {line}
main()
"""
NUMPY = MOVED.format(line="scores = model(torch.ones(1, 4).to(device)).numpy()")
SAVE = "import torch\nmodel = torch.nn.Linear(1, 1)\ntorch.save(model.state_dict(), {path})\n"


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def severities(
    here: Path, script: str, job: str = "instance_type: ml.g5.xlarge\n", **options: bool
) -> dict[str, Severity]:
    write_files(here, {"train.py": script, "gpuproof.yaml": f"entry_point: train.py\n{textwrap.dedent(job)}"})
    return {hit.code: hit.finding.severity for hit in check_job(load(here), **options)}


def test_every_code_in_the_table_is_a_rule_that_reports_errors() -> None:
    rules = {rule.code: rule for rule in all_rules()}
    assert set(EFFECTS) <= set(rules)
    assert all(rules[code].severity is Severity.ERROR for code in EFFECTS)


def test_a_certain_failure_on_the_gpu_stops_the_job(here: Path) -> None:
    assert severities(here, NUMPY)["PT112"] is Severity.ERROR


@pytest.mark.parametrize("job", ["", "instance_count: 1\n"])
def test_a_failure_on_the_gpu_does_not_stop_a_job_that_requests_none(here: Path, job: str) -> None:
    assert severities(here, NUMPY, job)["PT112"] is Severity.WARNING


def test_a_failure_on_the_gpu_stops_a_job_that_requests_one_without_a_type(here: Path) -> None:
    assert severities(here, NUMPY, "resources:\n  gpu: A10G:1\n")["PT112"] is Severity.ERROR


def test_a_lost_model_stops_a_remote_job_only(here: Path) -> None:
    script = SAVE.format(path='"model.pt"')
    assert severities(here, script)["SM101"] is Severity.ERROR
    assert severities(here, script, is_remote=False)["SM101"] is Severity.WARNING


def test_the_path_of_a_model_is_evaluated_with_the_arguments_of_the_job(here: Path) -> None:
    script = """
        import argparse
        import torch
        parser = argparse.ArgumentParser()
        parser.add_argument("--out", default="model.pt")
        args = parser.parse_args()
        torch.save(torch.nn.Linear(1, 1).state_dict(), args.out)
    """
    assert severities(here, script)["SM101"] is Severity.ERROR
    inside = "instance_type: ml.g5.xlarge\nhyperparameters:\n  out: /opt/ml/model/model.pt\n"
    assert "SM101" not in severities(here, script, inside)


def test_a_problem_of_quality_does_not_stop_the_job(here: Path) -> None:
    script = """
        import torch
        from torch.utils.data import DataLoader
        model = torch.nn.Linear(8, 1).cuda()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for x, y in DataLoader([], num_workers=2):
            loss = model(x.cuda()).sum()
            loss.backward()
            optimizer.step()
    """
    assert severities(here, script)["PF106"] is Severity.WARNING


def test_a_syntax_error_stops_the_job_only_where_the_file_is_certainly_imported(here: Path) -> None:
    broken = {"helpers.py": "def f(:\n"}
    write_files(here, broken)
    assert severities(here, "import helpers\n")["E901"] is Severity.ERROR
    assert severities(here, "def tool():\n    import helpers\n")["E901"] is Severity.WARNING
    assert (
        severities(here, "try:\n    import helpers\nexcept Exception:\n    helpers = None\n")["E901"]
        is Severity.WARNING
    )
    assert severities(here, "x = (\n")["E901"] is Severity.ERROR


def test_an_instance_type_that_does_not_exist_stops_the_job(here: Path) -> None:
    assert severities(here, "x = 1\n", "instance_type: ml.g5.3xlarge\n")["IN101"] is Severity.ERROR
