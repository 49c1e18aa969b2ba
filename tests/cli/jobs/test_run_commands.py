"""`ps`, `logs`, `stop`, `rm` and `pull` of runs that are folders on this machine."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from gpuproof.cli.jobs.logs import LastLines, parse_since
from gpuproof.cli.main import main
from gpuproof.errors import ExitCode, UsageError
from gpuproof.util.atomic import write_json

CommandResult = tuple[int, str, str]


@pytest.fixture
def gpuproof(
    capsysbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Callable[..., CommandResult]:
    monkeypatch.setenv("GPUPROOF_STATE_DIR", str(tmp_path))
    monkeypatch.delenv("COLUMNS", raising=False)
    for name in ("AWS_PROFILE", "AWS_ACCESS_KEY_ID", "AWS_ENDPOINT_URL", "FORCE_COLOR", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)

    def run(*words: str) -> CommandResult:
        code = main(list(words))
        output = capsysbinary.readouterr()
        return code, output.out.decode(), output.err.decode()

    return run


def make(folder: Path, name: str, *, days_ago: float = 0.0, status: str = "Completed", log: str = "") -> Path:
    created = time.time() - 86400 * days_ago
    run = folder / "runs" / name
    (run / "logs").mkdir(parents=True)
    (run / "logs" / "algo-1.log").write_text(log)
    document = {"id": name, "job_name": "train", "kind": "training", "backend": "local"}
    ended = {} if status == "InProgress" else {"ended": created + 60}
    write_json(
        run / "run.json", {**document, "status": status, "created": created, "started": created, **ended}
    )
    return run


# logs


LINES = "".join(f"line {number}\n" for number in range(10))


@pytest.mark.parametrize(("tail", "expected"), [("2", "line 8\nline 9\n"), ("0", ""), ("99", LINES)])
def test_the_last_lines_are_printed(gpuproof, tmp_path: Path, tail: str, expected: str) -> None:
    make(tmp_path, "train-1", log=LINES)
    assert gpuproof("logs", "--tail", tail)[:2] == (0, expected)
    assert gpuproof("logs", "-n", tail)[:2] == (0, expected)


def test_a_negative_number_of_lines_is_wrong_usage(gpuproof, tmp_path: Path) -> None:
    make(tmp_path, "train-1", log=LINES)
    assert gpuproof("logs", "--tail=-3")[0] == ExitCode.USAGE


@pytest.mark.parametrize("pieces", [[b"a\nb", b"c\nd\n"], [b"a\nbc\nd\n"], [b"a", b"\n", b"bc\nd", b"\n"]])
def test_the_last_lines_do_not_depend_on_how_the_output_arrives(pieces: list[bytes]) -> None:
    for count, expected in ((1, b"d\n"), (2, b"bc\nd\n"), (0, b""), (9, b"a\nbc\nd\n")):
        last = LastLines(count)
        assert sum(map(last.write, pieces)) == 7
        assert last.content() == expected


def test_an_unfinished_last_line_is_a_line() -> None:
    last = LastLines(1)
    last.write(b"a\nunfinished")
    assert last.content() == b"unfinished"


def test_output_since_a_time_is_printed(gpuproof, tmp_path: Path) -> None:
    run = make(tmp_path, "train-1", log=LINES)
    now = time.time()
    (run / "logs" / "algo-1.times").write_text(f"{now - 600:.1f} 0\n{now - 60:.1f} 35\n")
    assert gpuproof("logs", "--since", "5m")[1] == "".join(LINES.splitlines(keepends=True)[5:])
    assert gpuproof("logs", "--since", "1h")[1] == LINES
    assert gpuproof("logs", "--since", "5m", "--tail", "1")[1] == "line 9\n"
    assert gpuproof("logs", "--since", "10s")[1] == ""


def test_a_log_without_times_is_printed_whole(gpuproof, tmp_path: Path) -> None:
    make(tmp_path, "train-1", log=LINES)
    assert gpuproof("logs", "--since", "1s")[1] == LINES


def test_since_takes_durations_and_times() -> None:
    assert parse_since("10m", 1000.0) == 400.0
    assert parse_since("2026-11-22T10:30:00+00:00", 0.0) == 1795343400.0
    with pytest.raises(UsageError, match="neither a duration nor a time"):
        parse_since("yesterday", 0.0)


def test_logs_as_json_are_lines(gpuproof, tmp_path: Path) -> None:
    make(tmp_path, "train-1", log=LINES)
    _, out, _ = gpuproof("logs", "--json", "--tail", "2")
    assert json.loads(out) == {"version": 1, "id": "train-1", "lines": ["line 8", "line 9"]}
    assert gpuproof("logs", "--json", "-f")[0] == ExitCode.USAGE


# rm


def test_old_runs_are_removed(gpuproof, tmp_path: Path) -> None:
    old, new = make(tmp_path, "old-1", days_ago=8), make(tmp_path, "new-1", days_ago=6)
    assert gpuproof("rm", "--older-than", "7d")[:2] == (0, "old-1: removed\n")
    assert (old.exists(), new.exists()) == (False, True)
    assert gpuproof("rm", "--older-than", "7d")[:2] == (0, "No runs have ended more than 7d ago.\n")


def test_removed_runs_as_json(gpuproof, tmp_path: Path) -> None:
    make(tmp_path, "old-1", days_ago=8)
    document = json.loads(gpuproof("rm", "--all", "--json")[1])
    assert document == {"version": 1, "runs": [{"id": "old-1", "result": "removed"}]}


@pytest.mark.parametrize(
    "words", [(), ("old-1", "--all"), ("old-1", "--older-than", "7d"), ("--older-than", "soon")]
)
def test_what_to_remove_must_be_clear(gpuproof, tmp_path: Path, words: tuple[str, ...]) -> None:
    run = make(tmp_path, "old-1", days_ago=8)
    assert gpuproof("rm", *words)[0] == ExitCode.USAGE
    assert run.exists()


# stop


def test_all_runs_in_progress_are_stopped(gpuproof, tmp_path: Path) -> None:
    make(tmp_path, "ended-1")
    assert gpuproof("stop", "--all")[:2] == (0, "No runs are in progress.\n")
    assert json.loads(gpuproof("stop", "--all", "--json")[1]) == {"version": 1, "runs": []}


@pytest.mark.parametrize("words", [(), ("ended-1", "--all")])
def test_what_to_stop_must_be_clear(gpuproof, tmp_path: Path, words: tuple[str, ...]) -> None:
    make(tmp_path, "ended-1")
    assert gpuproof("stop", *words)[0] == ExitCode.USAGE


# ps and show


def test_states_and_verdicts_are_coloured(gpuproof, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make(tmp_path, "train-1", status="Failed")
    assert "\x1b[" not in gpuproof("ps")[1]
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert "\x1b[31mFailed\x1b[0m" in gpuproof("ps")[1]
    assert "\x1b[31mFailed\x1b[0m" in gpuproof("show")[1]


def test_pulled_files_as_json(gpuproof, tmp_path: Path) -> None:
    make(tmp_path, "train-1", log="x\n")
    document = json.loads(gpuproof("pull", "-o", str(tmp_path / "here"), "--json")[1])
    assert document["files"] == [str(tmp_path / "here" / "algo-1.log")]
    assert (document["version"], document["id"], document["status"]) == (1, "train-1", "Completed")
    assert len(document["notes"]) == 1
    assert "left no model" in document["notes"][0]


class TestPullAfterAFailure:
    """`pull` when the newest run of a job did not complete."""

    @pytest.fixture(autouse=True)
    def _runs(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        for name, days, status in [("a", 3, "Completed"), ("b", 2, "Completed"), ("c", 1, "Failed")]:
            make(tmp_path, f"train-{name}", days_ago=days, status=status, log="x\n")
        monkeypatch.chdir(tmp_path)

    @pytest.mark.parametrize("name", [(), ("train",)])
    def test_the_newest_that_completed_is_taken_and_named(self, gpuproof, name: tuple[str, ...]) -> None:
        code, out, err = gpuproof("pull", *name)
        assert (code, out) == (0, "train-b/algo-1.log\n")
        assert "train-c, the newest run of its job, is Failed: train-b is the newest that completed" in err
        assert "`gpuproof pull train-c`" in err

    def test_an_id_names_the_failed_run_itself(self, gpuproof) -> None:
        code, out, err = gpuproof("pull", "train-c")
        assert (code, out) == (0, "train-c/algo-1.log\n")
        assert "train-c is Failed" in err
        assert "left no model" in err

    def test_where_none_completed_the_exit_code_says_so(self, gpuproof, tmp_path: Path) -> None:
        for name in ("a", "b"):
            assert gpuproof("rm", f"train-{name}")[0] == 0
        code, out, err = gpuproof("pull", "train")
        assert (code, out) == (1, "train-c/algo-1.log\n")
        assert "train-c is Failed" in err

    def test_a_newest_run_that_completed_is_taken_without_a_word(self, gpuproof, tmp_path: Path) -> None:
        make(tmp_path, "train-d", log="x\n")
        archive = tmp_path / "runs" / "train-d" / "artifacts"
        archive.mkdir()
        (archive / "model.tar.gz").write_bytes(b"x")
        document = json.loads((archive.parent / "run.json").read_text())
        packed = {"model.tar.gz": {"files": 1, "bytes": 1}}
        write_json(archive.parent / "run.json", {**document, "artifacts": packed})
        code, out, err = gpuproof("pull", "train")
        assert (code, err) == (0, "")
        assert "train-d/model.tar.gz" in out
