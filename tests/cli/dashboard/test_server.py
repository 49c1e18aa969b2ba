"""`gpuproof dashboard` as a command, and what its routes answer."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from gpuproof.cli.main import main
from gpuproof.errors import ExitCode
from support.dashboard_server import dashboard, write_run
from support.report_runs import MINUTE, verdict

CommandResult = tuple[int, str]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]):
    def run(*words: str) -> CommandResult:
        try:
            code = main(["dashboard", *words])
        except SystemExit as end:
            code = int(end.code or 0)
        return code, capsys.readouterr().err

    return run


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.0.1", "example.com", "", "[::]"])
def test_other_addresses_than_loopback_are_refused_with_the_tunnel(run, host: str) -> None:
    code, err = run("--host", host, "--port", "9000")
    assert code == ExitCode.USAGE
    assert "is no loopback address" in err
    assert "ssh -L 9000:127.0.0.1:9000 HOST" in err


def test_a_port_in_use_is_an_error(run) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        code, err = run("--port", str(taken.getsockname()[1]))
    assert code == ExitCode.USAGE
    assert "cannot be used: address already in use" in err


@pytest.mark.parametrize("port", ["-1", "65536", "http"])
def test_a_port_that_is_none_is_wrong_usage(run, port: str) -> None:
    assert run("--port", port)[0] == ExitCode.USAGE


def test_without_the_extra_the_error_has_the_command(run, monkeypatch: pytest.MonkeyPatch) -> None:
    find = __import__("importlib.util").util.find_spec
    monkeypatch.setattr(
        "importlib.util.find_spec", lambda name, *rest: None if name == "uvicorn" else find(name, *rest)
    )
    code, err = run()
    assert code == ExitCode.USAGE
    assert 'pip install "gpuproof[dashboard]"' in err


def test_other_commands_do_not_import_the_extra() -> None:
    code = (
        "import sys; from gpuproof.cli.main import main, root_parser; root_parser(); main(['ps']);"
        "print(not {'starlette', 'uvicorn'} & sys.modules.keys())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.endswith("True\n"), done.stderr


@pytest.mark.slow
def test_runs_reports_comparisons_and_plans_are_answered(tmp_path: Path) -> None:
    found = verdict(1, MINUTE).to_json()
    for name in ("train-1", "train-2"):
        write_run(tmp_path, name, found)
    write_run(tmp_path, "train-3", status="Failed", verdict=None, failure_reason="<script>", exit_code=1)
    with dashboard(home=tmp_path, environment={"AWS_EC2_METADATA_DISABLED": "true"}) as server:
        runs = server.request("/api/runs").json()["runs"]
        assert {run["id"]: run["status_tone"] for run in runs} == {
            "train-1": "good",
            "train-2": "good",
            "train-3": "bad",
        }
        events = [*server.events("/api/runs/local/train-1/events")]
        assert [name for name, _ in events] == ["page", "end"]
        assert events[0][1]["status"] == {"word": "used", "tone": "good"}
        compared = server.request("/api/compare?run=local/train-1&run=local/train-2").json()
        assert compared["title"] == "2 runs compared"
        report = server.request("/runs/local/train-1/report.html")
        assert report.headers["Content-Disposition"] == 'attachment; filename="train-1.html"'
        assert report.body.startswith(b"<!doctype html>")
        assert b"gpuproof plan train.py" in server.request("/api/plans").body
        refused = server.request("/api/costs")
        assert refused.status == 404
        assert "No AWS region is set." in json.dumps(refused.json())
        assert server.request("/api/compare?run=local/train-1").status == 404
        assert server.request("/api/costs?by=everything").status == 404
    assert (tmp_path / "dashboard-errors.txt").read_text() == ""


@pytest.mark.slow
def test_what_aws_refuses_is_on_the_page_and_local_runs_are_listed(tmp_path: Path) -> None:
    write_run(tmp_path, "train-1")
    with socket.socket() as bound:  # nothing listens there
        bound.bind(("127.0.0.1", 0))
        environment = {
            "AWS_REGION": "us-east-1",
            "AWS_ACCESS_KEY_ID": "x",
            "AWS_SECRET_ACCESS_KEY": "x",
            "AWS_MAX_ATTEMPTS": "1",
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{bound.getsockname()[1]}",
        }
        with dashboard(home=tmp_path, environment=environment) as server:
            found = server.request("/api/runs").json()
            assert [run["id"] for run in found["runs"]] == ["train-1"]
            (problem,) = found["problems"]
            assert problem.startswith("Runs on SageMaker and on EC2 are not listed: ")
            costs = server.request("/api/costs")
            assert (costs.status, costs.json()["status"]["word"]) == (502, "not shown")
            page, end = server.events("/api/runs/sagemaker/train-2/events")
            assert (page[1]["title"], end[0]) == ("train-2", "end")
            assert "Could not connect" in json.dumps(page[1])
    assert (tmp_path / "dashboard-errors.txt").read_text() == ""


@pytest.mark.slow
def test_ctrl_c_ends_it_although_a_run_is_watched(tmp_path: Path) -> None:
    write_run(tmp_path, "train-1", status="InProgress", ended=None, verdict=None, exit_code=None)
    with dashboard(home=tmp_path) as server:
        events = server.events("/api/runs/local/train-1/events")
        assert next(events)[0] == "page"
        assert server.interrupt() == ExitCode.OK
        events.close()
    assert (tmp_path / "dashboard-errors.txt").read_text() == ""
