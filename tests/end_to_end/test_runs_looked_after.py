"""Runs are looked after: listed, shown, waited for, stopped, taken home, removed."""

from __future__ import annotations

import io
import json
import tarfile
from datetime import datetime
from pathlib import Path

import jsonschema
import pytest
import yaml

from support.cli_sandbox import CliSandbox, is_ready, until

pytestmark = pytest.mark.journey

FOREVER = "import time\nprint('ready', flush=True)\ntime.sleep(600)\n"
SAVES = (
    "open('/opt/ml/model/w', 'w').write('w')\nopen('/opt/ml/output/data/m', 'w').write('m')\nprint('saved')"
)


@pytest.fixture
def ended(sandbox: CliSandbox) -> Path:
    """The folder of a run that saved something and has ended."""
    sandbox.write("train.py", SAVES)
    assert sandbox.gpuproof("run", "train.py").returncode == 0
    return sandbox.newest()


@pytest.fixture
def running(sandbox: CliSandbox) -> Path:
    """The folder of a running run."""
    sandbox.write("train.py", FOREVER)
    folder = sandbox.detached("train.py")
    until(lambda: is_ready(folder), "the script's start")
    return folder


class TestPs:
    def test_without_runs_it_shows_how_to_start_one(self, sandbox: CliSandbox) -> None:
        done = sandbox.gpuproof("ps")
        assert (done.returncode, "gpuproof run train.py" in done.stdout) == (0, True)
        assert json.loads(sandbox.gpuproof("ps", "--format", "json").stdout) == {"version": 1, "runs": []}

    def test_runs_are_listed_newest_first_with_state_and_verdict(
        self, sandbox: CliSandbox, ended: Path
    ) -> None:
        sandbox.write("bad.py", "raise SystemExit(1)")
        sandbox.gpuproof("run", "bad.py")
        header, first, second = sandbox.gpuproof("ps").stdout.splitlines()
        assert header.split() == ["RUN", "STATUS", "GPU", "CREATED", "TOOK", "BACKEND"]
        assert first.split()[:2] == [sandbox.newest().name, "Failed"]
        assert second.split()[:3] == [ended.name, "Completed", "no-gpu-expected"]

    def test_json_is_versioned_and_has_all_that_is_known(self, sandbox: CliSandbox, ended: Path) -> None:
        document = json.loads(sandbox.gpuproof("ps", "--format", "json").stdout)
        assert document["version"] == 1
        (run,) = document["runs"]
        state = sandbox.state(ended)
        times = {"created", "started", "script_started", "ended"}
        assert {key: run[key] for key in run.keys() - times} == {
            key: state[key] for key in state.keys() - times
        }
        for key in times:
            assert datetime.fromisoformat(run[key]).timestamp() == pytest.approx(state[key], abs=0.001)
        assert run["artifacts"]["model.tar.gz"]["files"] == 1

    def test_old_runs_are_counted_and_shown_on_request(self, sandbox: CliSandbox, ended: Path) -> None:
        for number in range(25):
            copy = sandbox.runs / f"old-{number}"
            copy.mkdir()
            state = sandbox.state(ended)
            (copy / "run.json").write_text(json.dumps({**state, "created": 1e9 + number}))
        short = sandbox.gpuproof("ps").stdout.splitlines()
        assert len(short) == 1 + 20 + 1
        assert short[-1] == "6 older runs: gpuproof ps --all"
        assert len(sandbox.gpuproof("ps", "--all").stdout.splitlines()) == 1 + 26


class TestShow:
    def test_the_newest_run_is_shown_with_its_verdict_and_artifacts(
        self, sandbox: CliSandbox, ended: Path
    ) -> None:
        printed = sandbox.gpuproof("show").stdout
        assert printed.startswith(f"run        {ended.name} (training, local)\n")
        assert "no-gpu-expected" in printed
        assert f"{ended.name}: Completed after" in printed
        assert f"{ended}/artifacts/model.tar.gz (1 file" in printed
        assert f"folder     {ended}\n" in printed

    def test_a_run_that_goes_on_is_shown_as_it_stands(self, sandbox: CliSandbox, running: Path) -> None:
        assert "status     InProgress (Training)\n" in sandbox.gpuproof("show", running.name).stdout

    def test_json_is_versioned_and_holds_the_verdict(self, sandbox: CliSandbox, ended: Path) -> None:
        document = json.loads(sandbox.gpuproof("show", "train", "--format", "json").stdout)
        assert (document["version"], document["exit_code"]) == (1, 0)
        assert document["run"]["id"] == ended.name
        assert document["verdict"] == json.loads((ended / "verdict.json").read_text())
        assert document["folder"] == str(ended)

    def test_no_such_run_is_wrong_usage(self, sandbox: CliSandbox, ended: Path) -> None:
        done = sandbox.gpuproof("show", "nothing")
        assert (done.returncode, done.stdout) == (2, "")
        assert "No run matches nothing" in done.stderr


class TestLogs:
    def test_what_the_script_printed_comes_alone(self, sandbox: CliSandbox, ended: Path) -> None:
        done = sandbox.gpuproof("logs")
        assert (done.stdout, done.stderr) == ("saved\n", "")

    def test_following_a_run_that_has_ended_shows_its_end_and_code(self, sandbox: CliSandbox) -> None:
        sandbox.write("train.py", "print('no')\nraise SystemExit(3)")
        sandbox.gpuproof("run", "train.py")
        done = sandbox.gpuproof("logs", "-f")
        assert (done.returncode, done.stdout) == (1, "no\n")
        assert "exited with code 3" in done.stderr

    def test_a_run_that_printed_nothing_gets_a_reason(self, sandbox: CliSandbox) -> None:
        sandbox.write("train.py", "")
        sandbox.write("requirements.txt", "no-such-package-anywhere @ file:///nowhere\n")
        sandbox.gpuproof("run", "train.py")
        folder = sandbox.newest()
        (folder / "logs" / "algo-1.log").unlink(missing_ok=True)
        assert f"{folder.name} has no output" in sandbox.gpuproof("logs").stderr


class TestStopAndWait:
    def test_several_runs_are_stopped_by_name(self, sandbox: CliSandbox, running: Path) -> None:
        second = sandbox.detached("train.py")
        until(lambda: is_ready(second), "the second start")
        done = sandbox.gpuproof("stop", running.name, second.name)
        assert done.stdout == f"{running.name}: Stopped\n{second.name}: Stopped\n"

    def test_a_run_just_begun_is_stopped_too(self, sandbox: CliSandbox) -> None:
        sandbox.write("train.py", FOREVER)
        folder = sandbox.detached("train.py")
        assert sandbox.gpuproof("stop", folder.name).stdout == f"{folder.name}: Stopped\n"

    def test_now_waits_for_no_grace(self, sandbox: CliSandbox) -> None:
        sandbox.write("train.py", "import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + FOREVER)
        folder = sandbox.detached("train.py")
        until(lambda: is_ready(folder), "the script's start")
        assert sandbox.gpuproof("stop", "--now", "train").stdout == f"{folder.name}: Stopped\n"
        assert not any("of SIGTERM and was killed" in note for note in sandbox.state(folder)["notes"])

    def test_without_waiting_it_returns_before_the_end(self, sandbox: CliSandbox) -> None:
        sandbox.write("train.py", "import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + FOREVER)
        folder = sandbox.detached("train.py")
        until(lambda: is_ready(folder), "the script's start")
        assert sandbox.gpuproof("stop", "--no-wait", "train").returncode == 0
        until(lambda: sandbox.state(folder)["status"] == "Stopping", "the stop")

    def test_stopping_what_has_ended_changes_nothing(self, sandbox: CliSandbox, ended: Path) -> None:
        done = sandbox.gpuproof("stop", ended.name)
        assert (done.returncode, done.stdout) == (0, f"{ended.name}: Completed\n")

    def test_waiting_ends_with_the_run_and_has_its_code(self, sandbox: CliSandbox) -> None:
        sandbox.write("train.py", "import time\ntime.sleep(0.5)\nraise SystemExit(9)")
        folder = sandbox.detached("train.py")
        done = sandbox.gpuproof("wait", "--format", "json")
        assert done.returncode == 1
        document = json.loads(done.stdout)
        assert (document["version"], document["run"]["id"], document["run"]["exit_code"]) == (
            1,
            folder.name,
            9,
        )


class TestPull:
    def test_archives_verdict_and_log_come_home(self, sandbox: CliSandbox, ended: Path) -> None:
        done = sandbox.gpuproof("pull")
        assert done.returncode == 0
        folder = sandbox.project / ended.name
        names = ["model.tar.gz", "output.tar.gz", "verdict.json", "algo-1.log"]
        assert done.stdout.splitlines() == [f"{ended.name}/{name}" for name in names]
        assert (folder / "model.tar.gz").read_bytes() == (ended / "artifacts" / "model.tar.gz").read_bytes()
        assert (folder / "algo-1.log").read_text() == "saved\n"

    def test_extracted_they_are_folders(self, sandbox: CliSandbox, ended: Path) -> None:
        assert sandbox.gpuproof("pull", "train", "--extract", "--to", "out").returncode == 0
        assert (sandbox.project / "out" / "model" / "w").read_text() == "w"
        assert (sandbox.project / "out" / "output" / "m").read_text() == "m"

    def test_an_archive_that_leads_out_writes_nothing_anywhere(
        self, sandbox: CliSandbox, ended: Path
    ) -> None:
        with tarfile.open(ended / "artifacts" / "model.tar.gz", "w:gz") as archive:
            for name in ("fine", "../../escaped"):
                member = tarfile.TarInfo(name)
                member.size = 1
                archive.addfile(member, io.BytesIO(b"x"))
        done = sandbox.gpuproof("pull", "--extract", "--to", "out")
        assert done.returncode == 1
        assert "../../escaped" in done.stderr
        assert "Traceback" not in done.stderr
        assert [path for path in (sandbox.project / "out").rglob("*") if path.is_file()] == []
        assert list(sandbox.project.parent.rglob("escaped")) == []

    def test_a_run_that_goes_on_has_nothing_to_take_yet(self, sandbox: CliSandbox, running: Path) -> None:
        done = sandbox.gpuproof("pull")
        assert done.returncode == 2
        assert f"gpuproof wait {running.name}" in done.stderr


class TestRm:
    def test_a_run_goes_by_name(self, sandbox: CliSandbox, ended: Path) -> None:
        assert sandbox.gpuproof("rm", "train").stdout == f"{ended.name}: removed\n"
        assert list(sandbox.runs.iterdir()) == []

    def test_one_that_goes_on_is_refused_and_keeps_the_others_too(
        self, sandbox: CliSandbox, ended: Path
    ) -> None:
        sandbox.write("train.py", FOREVER)
        running = sandbox.detached("train.py")
        done = sandbox.gpuproof("rm", ended.name, running.name)
        assert done.returncode == 2
        assert f"gpuproof stop {running.name}" in done.stderr
        assert sorted(path.name for path in sandbox.runs.iterdir()) == sorted([ended.name, running.name])

    def test_all_means_all_that_have_ended(self, sandbox: CliSandbox, ended: Path) -> None:
        sandbox.write("train.py", FOREVER)
        running = sandbox.detached("train.py")
        assert sandbox.gpuproof("rm", "--all").stdout == f"{ended.name}: removed\n"
        assert [path.name for path in sandbox.runs.iterdir()] == [running.name]

    @pytest.mark.parametrize("words", [(), ("--all", "train")])
    def test_a_run_must_be_named(self, sandbox: CliSandbox, ended: Path, words: tuple[str, ...]) -> None:
        assert sandbox.gpuproof("rm", *words).returncode == 2
        assert ended.exists()


class TestDescriptions:
    @pytest.fixture(autouse=True)
    def _several(self, sandbox: CliSandbox) -> None:
        sandbox.write("one.py", "print('one')")
        sandbox.write("two.py", "import sys\nprint('two', *sys.argv[1:])")
        sandbox.write(
            "gpuproof.yaml",
            "jobs:\n  first: {entry_point: one.py}\n"
            "  second: {entry_point: two.py, hyperparameters: {epochs: 3}}\n",
        )

    def test_a_name_chooses_the_job(self, sandbox: CliSandbox) -> None:
        assert sandbox.gpuproof("run", "second").stdout == "two --epochs 3\n"
        assert sandbox.gpuproof("run", "gpuproof.yaml", "first").stdout == "one\n"
        assert sandbox.gpuproof("run", ".", "first").stdout == "one\n"

    def test_a_job_may_be_called_like_a_folder(self, sandbox: CliSandbox) -> None:
        sandbox.write("second/data.csv", "1")
        assert sandbox.gpuproof("run", "second").stdout == "two --epochs 3\n"

    def test_a_folder_with_jobs_of_its_own_goes_before_a_name(self, sandbox: CliSandbox) -> None:
        sandbox.write("second/train.py", "print('within')")
        sandbox.write("second/gpuproof.yaml", "entry_point: train.py\n")
        assert sandbox.gpuproof("run", "second").stdout == "within\n"

    def test_without_a_name_the_names_are_listed(self, sandbox: CliSandbox) -> None:
        done = sandbox.gpuproof("run")
        assert done.returncode == 2
        assert "first, second" in done.stderr

    def test_a_misspelt_name_suggests_the_nearest(self, sandbox: CliSandbox) -> None:
        done = sandbox.gpuproof("run", "secnd")
        assert done.returncode == 2
        assert "did you mean 'second'?" in done.stderr

    def test_flags_go_before_the_file(self, sandbox: CliSandbox) -> None:
        assert sandbox.gpuproof("run", "second", "-p", "epochs=9").stdout == "two --epochs 9\n"


def test_wrong_keys_are_named_with_file_line_and_key(sandbox: CliSandbox) -> None:
    sandbox.write("train.py", "")
    sandbox.write("gpuproof.yaml", "entry_point: train.py\nhyperparamters: {a: 1}\nmax_duration: soon\n")
    done = sandbox.gpuproof("run")
    assert done.returncode == 2
    assert "gpuproof.yaml:2: unknown key 'hyperparamters'; did you mean 'hyperparameters'?" in done.stderr
    assert "gpuproof.yaml:3: 'max_duration'" in done.stderr
    assert "Traceback" not in done.stderr
    assert not sandbox.runs.exists()


class TestDryRun:
    @pytest.fixture(autouse=True)
    def _project(self, sandbox: CliSandbox) -> None:
        sandbox.write("train.py", "raise SystemExit('it ran')")
        sandbox.write("rows/a.csv", "1")

    def test_nothing_is_made(self, sandbox: CliSandbox) -> None:
        before = sorted(path for path in sandbox.project.parent.rglob("*"))
        done = sandbox.gpuproof("run", "train.py", "--input", "training=rows", "--dry-run", "--", "--fast")
        assert done.returncode == 0
        assert done.stdout == ""
        assert "dry run    of 'train': nothing was created" in done.stderr
        assert "train.py --fast" in done.stderr
        assert sorted(path for path in sandbox.project.parent.rglob("*")) == before

    def test_json_is_the_agents_order(self, sandbox: CliSandbox) -> None:
        document = json.loads(
            sandbox.gpuproof("run", "train.py", "-p", "epochs=3", "--dry-run", "--format", "json").stdout
        )
        assert document["version"] == 1
        assert document["job"]["hyperparameters"] == {"epochs": 3}
        assert document["job"]["entry_point"] == "train.py"
        assert document["notes"] == []

    def test_what_cannot_run_is_found(self, sandbox: CliSandbox) -> None:
        words = ("run", "train.py", "--instance-count", "2", "--distribution", "mirrored", "--dry-run")
        assert sandbox.gpuproof(*words).returncode == 2


def test_the_schema_is_valid_and_takes_a_job(sandbox: CliSandbox) -> None:
    done = sandbox.gpuproof("schema")
    schema = json.loads(done.stdout)
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(yaml.safe_load("entry_point: train.py\nhyperparameters: {epochs: 5}"), schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"entry_point": "train.py", "hyperparamters": {}}, schema)


def test_run_as_json_has_the_result_on_standard_output_and_the_rest_beside(sandbox: CliSandbox) -> None:
    sandbox.write("train.py", "print('from the script')")
    done = sandbox.gpuproof("run", "train.py", "--format", "json")
    document = json.loads(done.stdout)
    assert (document["version"], document["exit_code"], document["run"]["status"]) == (1, 0, "Completed")
    assert "from the script\n" in done.stderr


def test_detached_as_json_contains_where_the_run_is(sandbox: CliSandbox) -> None:
    sandbox.write("train.py", "")
    document = json.loads(sandbox.gpuproof("run", "train.py", "--detach", "--format", "json").stdout)
    assert (document["version"], Path(document["folder"]).name) == (1, document["id"])
    assert sandbox.gpuproof("wait", document["id"]).returncode == 0
