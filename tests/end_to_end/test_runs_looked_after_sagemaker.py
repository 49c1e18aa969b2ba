"""Runs on SageMaker are looked after from any machine, beside those that are here."""

from __future__ import annotations

import json
import signal
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpuproof.backends.aws import Aws
from gpuproof.backends.sagemaker.run import SageMakerRun
from support.aws_emulator import RunningEmulator, running_emulator
from support.cli_sandbox import CliSandbox, until
from support.container_jobs import Jobs

pytestmark = [pytest.mark.journey, pytest.mark.slow]

FOREVER = "import time\nprint('ready', flush=True)\ntime.sleep(600)\n"
SAVES = (
    "open('/opt/ml/model/w', 'w').write('w')\nopen('/opt/ml/output/data/m', 'w').write('m')\nprint('saved')"
)


@pytest.fixture(scope="module")
def emulator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningEmulator]:
    with running_emulator(tmp_path_factory.mktemp("aws"), stop_grace=30.0) as running:
        yield running


@pytest.fixture(scope="module")
def jobs(emulator: RunningEmulator, tmp_path_factory: pytest.TempPathFactory) -> Jobs:
    return Jobs(emulator, tmp_path_factory.mktemp("agent"))


@pytest.fixture
def aws(
    sandbox: CliSandbox, emulator: RunningEmulator, monkeypatch: pytest.MonkeyPatch
) -> Iterator[CliSandbox]:
    """A sandbox whose AWS is the emulator."""
    for name, value in emulator.credentials.items():
        monkeypatch.setenv(name, value)
    sandbox.environment |= emulator.credentials
    emulator.faults()
    yield sandbox
    emulator.faults()


@pytest.fixture
def ended(aws: CliSandbox, jobs: Jobs) -> str:
    """The id of a run on SageMaker that saved something and has ended."""
    run_id = jobs.start(SAVES)
    SageMakerRun(Aws(), run_id, "training").wait()
    return run_id


@pytest.fixture
def running(aws: CliSandbox, jobs: Jobs) -> Iterator[str]:
    """The id of a running run on SageMaker."""
    run_id = jobs.start(FOREVER)
    run = SageMakerRun(Aws(), run_id, "training")
    until(lambda: run.describe().record.started, "its start")
    yield run_id
    jobs.emulator.faults()
    run.stop()


class TestPs:
    def test_runs_of_both_places_are_listed_newest_first(self, aws: CliSandbox, ended: str) -> None:
        aws.write("train.py", "")
        aws.gpuproof("run", "train.py")
        lines = aws.gpuproof("ps").stdout.splitlines()
        assert lines[0].split() == ["RUN", "STATUS", "GPU", "CREATED", "TOOK", "BACKEND", "INSTANCE", "USD"]
        assert lines[1].split()[0] == aws.newest().name
        (there,) = [line for line in lines if line.startswith(ended)]
        assert [there.split()[1], *there.split()[-3:-1]] == ["Completed", "sagemaker", "ml.g5.xlarge"]

    def test_one_backend_alone_can_be_listed(self, aws: CliSandbox, ended: str) -> None:
        aws.write("train.py", "")
        aws.gpuproof("run", "train.py")
        there = json.loads(aws.gpuproof("ps", "--on", "sagemaker", "--format", "json").stdout)["runs"]
        assert {run["backend"] for run in there} == {"sagemaker"}
        here = json.loads(aws.gpuproof("ps", "--on", "local", "--format", "json").stdout)["runs"]
        assert {run["backend"] for run in here} == {"local"}

    def test_a_run_that_goes_on_shows_what_it_costs(self, aws: CliSandbox, running: str) -> None:
        (line,) = [line for line in aws.gpuproof("ps").stdout.splitlines() if line.startswith(running)]
        assert "InProgress" in line
        assert line.split()[-1].startswith("$")

    def test_aws_in_trouble_is_one_line_and_the_runs_here_are_listed_all_the_same(
        self, aws: CliSandbox, emulator: RunningEmulator
    ) -> None:
        aws.write("train.py", "")
        aws.gpuproof("run", "train.py")
        emulator.faults("expired-token")
        done = aws.gpuproof("ps")
        assert (done.returncode, aws.newest().name in done.stdout) == (0, True)
        assert len(done.stderr.splitlines()) == 1
        assert "ExpiredToken" in done.stderr
        assert aws.gpuproof("ps", "--on", "sagemaker").returncode == 5

    def test_another_region_has_none_of_these(self, aws: CliSandbox, ended: str) -> None:
        done = aws.gpuproof("ps", "--on", "sagemaker", "--region", "eu-west-1")
        assert (done.returncode, ended in done.stdout) == (0, False)


class TestShow:
    def test_one_run_is_shown_with_verdict_bill_artifacts_and_console(
        self, aws: CliSandbox, ended: str
    ) -> None:
        output = aws.gpuproof("show", ended).stdout
        assert output.startswith(f"run        {ended} (training, sagemaker)\n")
        assert "instance   ml.g5.xlarge in us-east-1\n" in output
        assert (
            f"console    https://us-east-1.console.aws.amazon.com/sagemaker/home?region=us-east-1#/jobs/{ended}"
            in output
        )
        assert "no-gpu-expected" in output
        assert "billed     $" in output
        assert "output/model.tar.gz (" in output

    def test_one_that_goes_on_is_shown_as_it_stands(self, aws: CliSandbox, running: str) -> None:
        output = aws.gpuproof("show", running).stdout
        assert "status     InProgress (Training: Training image download completed." in output
        assert "so far     $" in output

    def test_as_json_it_is_the_same_document_as_here(self, aws: CliSandbox, ended: str) -> None:
        document = json.loads(aws.gpuproof("show", ended, "--format", "json").stdout)
        assert (document["version"], document["exit_code"]) == (1, 0)
        assert document["run"]["billed_seconds"] >= 1
        assert document["verdict"]["outcome"] == "no-gpu-expected"
        assert document["console"].endswith(ended)

    def test_an_unknown_name_lists_where_it_was_searched(self, aws: CliSandbox, ended: str) -> None:
        done = aws.gpuproof("show", "nowhere")
        assert (done.returncode, done.stdout) == (2, "")
        assert "on this machine" in done.stderr
        assert "SageMaker in us-east-1" in done.stderr

    def test_a_run_here_goes_before_one_there(self, aws: CliSandbox, ended: str) -> None:
        aws.write("train.py", "")
        aws.gpuproof("run", "train.py")
        assert "(training, local)" in aws.gpuproof("show", "train").stdout
        assert "(training, sagemaker)" in aws.gpuproof("show", "train", "--on", "sagemaker").stdout


class TestLogs:
    def test_what_the_script_printed_comes_alone(self, aws: CliSandbox, ended: str) -> None:
        done = aws.gpuproof("logs", ended)
        assert (done.stdout, done.stderr) == ("saved\n", "")

    def test_following_shows_the_end_and_has_its_code(self, aws: CliSandbox, jobs: Jobs) -> None:
        run_id = jobs.start("print('no')\nraise SystemExit(3)")
        done = aws.gpuproof("logs", "-f", run_id)
        assert done.returncode == 1
        assert done.stdout.startswith("no\n")
        assert "exited with code 3" in done.stderr
        assert "gpuproof-verdict" not in done.stdout + done.stderr

    def test_ctrl_c_ends_the_looking_and_not_the_run(self, aws: CliSandbox, running: str) -> None:
        looking = aws.start("logs", "-f", running)
        assert looking.stdout is not None
        assert looking.stdout.readline() == "ready\n"
        looking.send_signal(signal.SIGINT)
        looking.communicate(timeout=300)
        assert looking.returncode == 130
        assert (
            json.loads(aws.gpuproof("show", running, "--format", "json").stdout)["run"]["status"]
            == "InProgress"
        )


class TestStopAndWait:
    def test_it_is_stopped_and_waited_for(self, aws: CliSandbox, running: str) -> None:
        assert aws.gpuproof("stop", running).stdout == f"{running}: Stopped\n"
        done = aws.gpuproof("wait", running)
        assert (done.returncode, done.stdout) == (1, f"{running}: Stopped\n")

    def test_waiting_has_the_runs_code(self, aws: CliSandbox, ended: str) -> None:
        done = aws.gpuproof("wait", ended, "--format", "json")
        assert (done.returncode, json.loads(done.stdout)["run"]["id"]) == (0, ended)


class TestPullAndRm:
    def test_its_results_come_home(self, aws: CliSandbox, ended: str) -> None:
        done = aws.gpuproof("pull", ended, "-x", "--to", "out")
        assert done.stdout.splitlines() == ["out/model", "out/output", "out/verdict.json", "out/algo-1.log"]
        assert (aws.project / "out" / "model" / "w").read_text() == "w"

    def test_its_model_can_be_packaged_by_the_runs_name_alone(self, aws: CliSandbox, ended: str) -> None:
        done = aws.gpuproof("package", ended, "--no-serve-check", "-o", "packed.tar.gz")
        assert done.returncode == 0, done.stderr
        with tarfile.open(aws.project / "packed.tar.gz") as archive:
            member = archive.extractfile("w")
            assert member is not None
            assert member.read() == b"w"

    def test_one_that_goes_on_has_nothing_to_take_yet(self, aws: CliSandbox, running: str) -> None:
        done = aws.gpuproof("pull", running)
        assert (done.returncode, f"gpuproof wait {running}" in done.stderr) == (2, True)

    def test_what_it_keeps_in_the_bucket_is_removed(self, aws: CliSandbox, jobs: Jobs, ended: str) -> None:
        done = aws.gpuproof("rm", ended)
        assert done.stdout.startswith(f"{ended}: removed ")
        assert "SageMaker keeps its record" in done.stdout
        assert list(Aws().list_objects(jobs.bucket, f"gpuproof/runs/{ended}/")) == []
        assert ended not in aws.gpuproof("ps", "--all").stdout

    def test_all_means_those_on_this_machine(self, aws: CliSandbox, jobs: Jobs, ended: str) -> None:
        aws.write("train.py", "")
        aws.gpuproof("run", "train.py")
        here = aws.newest().name
        assert aws.gpuproof("rm", "--all").stdout == f"{here}: removed\n"
        assert list(Aws().list_objects(jobs.bucket, f"gpuproof/runs/{ended}/")) != []


def test_without_aws_nothing_of_it_is_imported(sandbox: CliSandbox) -> None:
    sandbox.environment["PYTHONPROFILEIMPORTTIME"] = "1"
    done = sandbox.gpuproof("ps")
    assert done.returncode == 0
    assert "gpuproof.backends.local.run_folders" in done.stderr
    assert "botocore" not in done.stderr
    assert "gpuproof.backends.aws" not in done.stderr


def test_a_machine_with_nothing_but_credentials_can_look_after_a_run(
    aws: CliSandbox, ended: str, tmp_path: Path
) -> None:
    (tmp_path / "other").mkdir()
    other = CliSandbox(tmp_path / "other", tmp_path / "other", dict(aws.environment))
    assert other.gpuproof("logs", ended).stdout == "saved\n"
    assert not other.runs.exists() or list(other.runs.iterdir()) == []
