"""`gpuproof verdict`: the verdict on a job from the reports of its hosts."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from gpuproof.app.verdict import ReportsUnreadable, read_verdict
from gpuproof.cli.main import main
from gpuproof.errors import UsageError
from gpuproof.util.launcher import Member
from gpuproof.watch.group.publication import Publisher
from gpuproof.watch.report import Instance, WatchReport
from support.s3_server import CREDENTIALS, MotoServer
from support.watch_reports import host_report

HOSTS = ("n1", "n2", "n3")
INSTANCE = Instance("g5.xlarge", "us-east-1", "on-demand")


@pytest.fixture(scope="module")
def moto() -> Iterator[MotoServer]:
    server = MotoServer()
    yield server
    server.stop()


def leave(
    to: str | Path, environ: Mapping[str, str], *reports: WatchReport, group: str = "slurm-17.0"
) -> None:
    """Leave the reports of hosts of a job with three hosts there."""
    for report in reports:
        member = Member(group, report.host, "Slurm", 2, 6, 3, HOSTS)
        assert Publisher(member, str(to), environ, 0.0).publish(report).notes == ()


def test_the_verdict_of_a_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    hours = {"n1": 1, "n2": 2, "n3": 3}
    reports = [
        replace(host_report(host), instance=INSTANCE, seconds=3600.0 * count) for host, count in hours.items()
    ]
    leave(tmp_path, {}, *reports)
    assert main(["verdict", str(tmp_path)]) == 0
    output = capsys.readouterr().out
    assert "job        slurm-17.0, all 3 hosts" in output
    assert "used: 6 of 6 GPUs on 3 hosts worked" in output
    # 6 hours at $1.006.
    assert "cost       $6.04 on 3 x g5.xlarge in us-east-1 (on-demand)" in output


def test_hosts_without_a_report_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    leave(tmp_path, {}, host_report("n1"))
    Publisher(Member("slurm-17.0", "n2", "Slurm", 2, 6, 3, HOSTS), str(tmp_path), {}, 0.0).announce()
    assert main(["verdict", str(tmp_path / "slurm-17.0")]) == 3
    lines = capsys.readouterr().out.splitlines()
    assert "no report  n2: has begun, and works still or was killed" in lines
    assert "no report  n3: has left nothing" in lines


def test_the_document_names_them_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    leave(tmp_path, {}, host_report("n1"), host_report("n2", worked=False))
    assert main(["verdict", str(tmp_path), "--format", "json"]) == 4
    document = json.loads(capsys.readouterr().out)
    assert (document["kind"], document["missing_hosts"], document["running_hosts"]) == ("watch", ["n3"], [])
    assert document["verdict"]["gpus_working"] == 2


@pytest.mark.slow
def test_the_verdict_of_reports_in_s3(
    moto: MotoServer, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    to = f"s3://{moto.bucket().name}/jobs"
    environ = {**CREDENTIALS, "AWS_ENDPOINT_URL": moto.url}
    leave(to, environ, *(host_report(host) for host in HOSTS))
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    assert main(["verdict", to]) == 0
    assert "used: 6 of 6 GPUs on 3 hosts worked" in capsys.readouterr().out


def test_one_report_is_shown_as_it_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    path = tmp_path / "report.json"
    path.write_text(json.dumps(host_report("n1", worked=False).to_json()))
    assert main(["verdict", str(path)]) == 4
    assert "cpu-only" in capsys.readouterr().out


def test_the_verdict_of_a_run_is_shown_as_well(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    path = tmp_path / "verdict.json"
    path.write_text(json.dumps(host_report("n1").verdict))
    assert main(["verdict", str(path)]) == 0
    assert "used" in capsys.readouterr().out


def test_of_several_jobs_one_must_be_named(tmp_path: Path):
    for group in ("slurm-17.0", "slurm-18.0"):
        leave(tmp_path, {}, host_report("n1"), group=group)
    with pytest.raises(UsageError, match=r"the reports of 2 jobs: slurm-17\.0 and slurm-18\.0"):
        read_verdict(str(tmp_path))


def test_a_folder_without_reports(tmp_path: Path):
    with pytest.raises(ReportsUnreadable, match="has no report of gpuproof watch"):
        read_verdict(str(tmp_path))


def test_a_folder_that_does_not_exist(tmp_path: Path):
    with pytest.raises(UsageError, match="does not exist"):
        read_verdict(str(tmp_path / "nothing"))


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"kind": "watch", "version": 9, "verdict": {}}'])
def test_a_file_that_is_no_report(tmp_path: Path, content: str):
    path = tmp_path / "report.json"
    path.write_text(content)
    with pytest.raises(ReportsUnreadable, match=r"report\.json"):
        read_verdict(str(path))
