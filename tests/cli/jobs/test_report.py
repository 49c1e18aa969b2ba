"""`gpuproof report`."""

from __future__ import annotations

import fcntl
import json
import re
import shlex
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gpuproof.cli.main import main
from gpuproof.errors import ExitCode
from gpuproof.util.atomic import write_json
from support.report_examples import example_audit
from support.report_runs import MINUTE, verdict
from support.watch_reports import host_report

CommandResult = tuple[int, str, str]


@pytest.fixture
def gpuproof(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Callable[..., CommandResult]:
    monkeypatch.setenv("GPUPROOF_STATE_DIR", str(tmp_path / "state"))
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)

    def run(*words: str) -> CommandResult:
        code = main(list(words))
        output = capsys.readouterr()
        return code, output.out, output.err

    return run


def make(folder: Path, name: str = "train-1", **changes: Any) -> Path:
    """The folder of a run that has ended, as the agent leaves it."""
    run = folder / "state" / "runs" / name
    (run / "logs").mkdir(parents=True)
    created = time.time() - 3600
    (run / "logs" / "algo-1.log").write_text("start\nEpoch 1/2\nEpoch 2/2\n")
    (run / "logs" / "algo-1.times").write_text(
        f"{created + 1:.3f} 0\n{created + 12:.3f} 6\n{created + 40:.3f} 16\n"
    )
    document = {
        "id": "train-1",
        "job_name": "train",
        "kind": "training",
        "backend": "local",
        "status": "Completed",
        "created": created,
        "script_started": created + 2,
        "ended": created + 62,
        "verdict": "used",
        "gpu_requirement_met": True,
        "exit_code": 0,
        **changes,
    }
    write_json(run / "run.json", {key: value for key, value in document.items() if value is not None})
    return run


def document_of(html: str) -> dict[str, Any]:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', html, re.DOTALL)
    assert found is not None
    return json.loads(found[1])


def test_a_run_is_written_as_a_page_named_after_it(gpuproof, tmp_path: Path) -> None:
    write_json(make(tmp_path) / "verdict.json", verdict(1, MINUTE).to_json())
    code, out, err = gpuproof("report", "train-1")
    assert (code, err) == (0, "")
    assert out.startswith("report     train-1.html (")
    page = document_of((tmp_path / "work" / "train-1.html").read_text())
    assert page["title"] == "train-1"
    assert page["status"] == {"word": "used", "tone": "good"}
    assert page["subtitle"] == "train on this machine"
    headings = [section["heading"] for section in page["sections"]]
    assert headings == ["Outcome", "GPUs over time", "Where the time went", "Log"]
    words = [block["word"] for block in page["sections"][0]["blocks"] if block["type"] == "callout"]
    assert words[:3] == ["used", "bottleneck", "exit code 0"]


def test_secrets_in_arguments_are_hidden(gpuproof, tmp_path: Path) -> None:
    make(tmp_path, command=["python", "train.py", "--hf-token", "abcdef", "--lr", "0.1"])
    html = gpuproof("report", "-o", "-")[1]
    assert "python train.py --hf-token *** --lr 0.1" in html
    assert "abcdef" not in html


def test_the_page_can_go_to_the_standard_output_or_be_json(gpuproof, tmp_path: Path) -> None:
    write_json(make(tmp_path) / "verdict.json", verdict(1, MINUTE).to_json())
    html = gpuproof("report", "-o", "-")[1]
    assert html.startswith("<!doctype html>")
    as_json = json.loads(gpuproof("report", "--json")[1])
    assert as_json["version"] == 1
    assert as_json["sections"][1:] == document_of(html)["sections"][1:]
    assert not list((tmp_path / "work").iterdir())


def test_epochs_of_the_log_are_on_the_time_axis(gpuproof, tmp_path: Path) -> None:
    found = {**verdict(1, MINUTE).to_json()}
    del found["events"]
    write_json(make(tmp_path) / "verdict.json", found)
    chart = json.loads(gpuproof("report", "--json")[1])["sections"][1]["blocks"][0]
    epochs = [
        (event["label"], round(event["seconds"])) for event in chart["events"] if event["kind"] == "epoch"
    ]
    assert epochs == [("epoch 1", 10), ("epoch 2", 38)]


def test_a_run_that_failed_says_why_and_how_it_exits(gpuproof, tmp_path: Path) -> None:
    make(
        tmp_path,
        status="Failed",
        failure_reason="ExecuteUserScriptError: exit code 1",
        exit_code=1,
        verdict=None,
    )
    page = json.loads(gpuproof("report", "--json")[1])
    assert page["status"]["word"] == "failed"
    callouts = {
        block["word"]: block["text"] for block in page["sections"][0]["blocks"] if block["type"] == "callout"
    }
    assert callouts["failed"] == "ExecuteUserScriptError: exit code 1"
    assert "exit code 1" in callouts


def test_a_run_with_costs_is_compared_with_other_instances(gpuproof, tmp_path: Path) -> None:
    from gpuproof.app.report_alternatives import alternatives
    from gpuproof.catalogue import Catalogue

    found = alternatives(
        Catalogue.load(),
        "ml.g5.xlarge",
        1,
        region="us-east-1",
        use="training",
        peak_memory=20 * 2**30,
        seconds=7200,
        is_spot=False,
    )
    (current,) = [choice for choice in found if choice.is_current]
    assert (current.instance_type, current.market) == ("ml.g5.xlarge", "on demand")
    assert current.usd == pytest.approx(2 * current.usd_per_hour)
    assert [choice.usd_per_hour for choice in found] == sorted(choice.usd_per_hour for choice in found)
    assert all(choice.memory >= 20 * 2**30 for choice in found)
    assert {"g5.xlarge", "ml.g5.xlarge"} <= {choice.instance_type for choice in found}
    assert not any("g4dn" in choice.instance_type for choice in found)
    assert any(choice.usd is None for choice in found if "A10G" not in choice.gpus)


def test_a_run_that_has_not_begun_is_refused_and_one_that_has_is_reported_so_far(
    gpuproof, tmp_path: Path
) -> None:
    run = make(
        tmp_path,
        status="InProgress",
        secondary_status="Starting",
        script_started=None,
        ended=None,
        verdict=None,
    )
    log = run / "logs" / "algo-1.log"
    log.write_text("")
    with (run / "agent.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # as the agent does while it works
        code, _, err = gpuproof("report", "train-1")
        assert code == ExitCode.USAGE
        assert "train-1 has not started, so there is nothing to report yet: it is Starting." in err
        assert not (tmp_path / "work" / "train-1.html").exists()
        log.write_text("installing requirements\n")
        page = json.loads(gpuproof("report", "train-1", "--json")[1])
    assert page["status"] == {"word": "running", "tone": "neutral"}
    assert page["sections"][-1]["blocks"][0]["text"] == "installing requirements"


def test_reports_of_watch_are_reported_like_runs(gpuproof, tmp_path: Path) -> None:
    file = tmp_path / "watched.json"
    write_json(file, host_report("trainer", worked=False).to_json())
    code, out, _ = gpuproof("report", str(file))
    assert (code, out.split()[1]) == (0, "watched.html")
    page = document_of((tmp_path / "work" / "watched.html").read_text())
    assert page["status"] == {"word": "cpu-only", "tone": "bad"}
    callouts = {
        block["word"]: block["text"] for block in page["sections"][0]["blocks"] if block["type"] == "callout"
    }
    assert callouts["exit code 4"].endswith("a required GPU did no work.")


def test_the_folder_of_a_run_and_its_verdict_are_taken_as_well(gpuproof, tmp_path: Path) -> None:
    run = make(tmp_path)
    write_json(run / "verdict.json", verdict(1, MINUTE).to_json())
    for location in (run, run / "verdict.json"):
        page = json.loads(gpuproof("report", str(location), "--json")[1])
        assert page["status"]["word"] == "used"


def test_an_output_that_cannot_be_written_is_wrong_usage(gpuproof, tmp_path: Path) -> None:
    write_json(make(tmp_path) / "verdict.json", verdict(1, MINUTE).to_json())
    code, _, err = gpuproof("report", "-o", "missing/report.html")
    assert code == ExitCode.USAGE
    assert "missing/report.html cannot be written: No such file or directory." in err
    assert gpuproof("report", "-o", "-", "--open")[0] == ExitCode.USAGE
    assert gpuproof("report", "nothing-like-it")[0] != 0


def test_the_commands_of_its_page_run(gpuproof, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BROWSER", "true")
    write_json(make(tmp_path, "train-20260102") / "verdict.json", verdict(1, MINUTE).to_json())
    write_json(tmp_path / "work" / "watched.json", host_report("trainer").to_json())
    page = (Path(__file__).parents[3] / "docs" / "report.md").read_text()
    commands = page.partition("```sh\n")[2].partition("```")[0].splitlines()
    for command in commands:
        words = shlex.split(command, comments=True)
        assert (words[0], gpuproof(*words[1:])[0]) == ("gpuproof", 0), command
    written = {path.name for path in (tmp_path / "work").iterdir()}
    assert written == {"train-20260102.html", "watched.html", "watched.json"}
    assert len(commands) == 4


def test_an_audit_in_a_file_has_the_page_of_the_account(gpuproof: Callable[..., CommandResult]) -> None:
    Path("nightly.json").write_text(json.dumps(example_audit().to_json()))
    code, _, error = gpuproof("report", "nightly.json")
    assert code == ExitCode.OK, error
    assert "<title>GPU audit (" in Path("nightly.html").read_text(encoding="utf-8")
    write_json(Path("nightly.json"), {"version": 99, "kind": "audit"})
    code, _, error = gpuproof("report", "nightly.json")
    assert code == ExitCode.USAGE
    assert "an audit of version 99" in error
