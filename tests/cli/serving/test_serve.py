"""`gpuproof serve`: what becomes of its flags, and a model served from the command line."""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import tarfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from gpuproof.agent.paths import RunPaths
from gpuproof.cli.main import main
from gpuproof.cli.serving import serve
from gpuproof.cli.serving.hot_reload import _stamp, folders, reload_on_change
from gpuproof.cli.serving.model_argument import resolve_model
from gpuproof.errors import ExitCode
from support.cli_sandbox import gone, until
from support.model_server import ECHO, Server, below, model_folder

RUN = {
    "version": 1,
    "id": "digits-20260101-000000-abcd",
    "job_name": "digits",
    "kind": "training",
    "backend": "local",
    "status": "Completed",
    "created": 1767225600.0,
    "artifacts": {"model.tar.gz": {"bytes": 1, "files": 1, "sha256": "00"}},
}


def flags(*words: str) -> list[str]:
    parser = argparse.ArgumentParser()
    serve.add_parser(parser.add_subparsers())
    return serve.server_flags(parser.parse_args(["serve", "model", *words]))


@contextmanager
def typed(tmp_path: Path, *words: str | Path, awaited: str = "ready after") -> Iterator[Server]:
    """`gpuproof serve`, as a person types it."""
    log = tmp_path / "log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "gpuproof", "serve", *map(str, words), "--port", "0"],
            env={
                **os.environ,
                "GPUPROOF_CACHE_DIR": str(tmp_path / "cache"),
                "OMP_NUM_THREADS": "1",
                # A killed process leaves its folder.
                "TMPDIR": str(tmp_path),
            },
            stdout=output,
            stderr=output,
        )
    try:
        server = Server(process, 0, log, log)
        printed = until(lambda: awaited in server.log_text or process.poll() is not None, "the server")
        assert process.poll() is None, (printed, server.log_text)
        yield server
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(300)


def test_a_handler_on_a_laptop_is_served_to_that_laptop_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GPUPROOF_SERVE_HOST", raising=False)
    assert flags()[-2:] == ["--host", "127.0.0.1"]
    assert flags("--host", "0.0.0.0").count("--host") == 1
    monkeypatch.setenv("GPUPROOF_SERVE_HOST", "10.0.0.1")
    assert "--host" not in flags()


def test_flags_reach_the_server() -> None:
    words = flags("--port", "9000", "--workers-per-gpu", "2", "--timeout", "1.5", "--require-gpu")
    assert words[words.index("--port") + 1] == "9000"
    assert words[words.index("--workers-per-gpu") + 1] == "2"
    assert words[words.index("--timeout") + 1] == "1.5"
    assert "--require-gpu" in words
    assert "--compile" not in words


def test_what_holds_no_code_is_not_watched(tmp_path: Path) -> None:
    for name in ("code/inner", "code/__pycache__", ".git/objects"):
        (tmp_path / name).mkdir(parents=True)
    assert [str(p.relative_to(tmp_path)) for p in folders([tmp_path])] == [".", "code", "code/inner"]


class HangupCounter:
    """A server process that counts SIGHUPs, and ends once a file exists."""

    def __init__(self, end: Path) -> None:
        self.end = end
        self.count = 0

    def poll(self) -> int | None:
        return 0 if self.end.exists() else None

    def send_signal(self, number: int) -> None:
        assert number == signal.SIGHUP
        self.count += 1


def test_beside_a_file_that_is_watched_other_files_are_not(tmp_path: Path) -> None:
    weights, other = tmp_path / "weights.pt", tmp_path / "download" / "other"
    other.parent.mkdir()
    weights.touch()
    server = HangupCounter(tmp_path / "end")
    watcher = threading.Thread(target=reload_on_change, args=(server, [weights]))
    watcher.start()
    try:
        other.write_text("of no concern")
        (tmp_path / "beside").write_text("neither")
        until(lambda: weights.write_bytes(b"x" * (weights.stat().st_size + 1)) and server.count, "a hangup")
    finally:
        server.end.touch()
        watcher.join(10)
    assert _stamp([weights]).keys() == {str(weights)}


def test_a_folder_that_goes_away_while_it_is_looked_at_ends_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "code" / "gone").mkdir(parents=True)
    (tmp_path / "code" / "inference.py").touch()
    listing = Path.iterdir

    def gone_by_then(folder: Path) -> Iterator[Path]:
        if folder.name == "gone":
            raise FileNotFoundError(folder)
        return listing(folder)

    monkeypatch.setattr(Path, "iterdir", gone_by_then)
    assert _stamp([tmp_path]).keys() == {str(tmp_path / "code" / "inference.py")}


def test_a_missing_model_is_reported_without_a_traceback(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "gpuproof", "serve", str(tmp_path / "none.tar.gz")],
        env={**os.environ, "GPUPROOF_CACHE_DIR": str(tmp_path), "GPUPROOF_STATE_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2
    assert "none.tar.gz" in done.stderr
    assert "Traceback" not in done.stderr


def model_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *words: str) -> Path:
    """The path that MODEL means in a folder with a run called `digits` and the script's own folder of that name."""
    monkeypatch.setenv("GPUPROOF_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    for name in ("AWS_PROFILE", "AWS_ACCESS_KEY_ID", "AWS_ENDPOINT_URL"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "digits").mkdir()
    (tmp_path / "digits" / "train.py").touch()
    paths = RunPaths(tmp_path / "state" / "runs" / "digits-20260101-000000-abcd")
    paths.model_archive.parent.mkdir(parents=True)
    paths.model_archive.touch()
    paths.run.write_text(json.dumps(RUN))
    parser = argparse.ArgumentParser()
    serve.add_parser(parser.add_subparsers())
    return resolve_model(parser.parse_args(["serve", *words]), tmp_path / "scratch")


def test_a_run_goes_before_the_folder_of_its_script(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert model_of(tmp_path, monkeypatch, "digits", "--on", "local").name == "model.tar.gz"
    assert "contains no model; using the run digits-2026" in capsys.readouterr().err


@pytest.mark.parametrize("words", [("./digits",), ("digits", "--code", "x.py")])
def test_a_folder_that_is_meant_stays_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    assert model_of(tmp_path, monkeypatch, *words).name == "digits"


@pytest.mark.slow
def test_an_archive_is_served_and_a_killed_command_leaves_nothing(tmp_path: Path) -> None:
    folder = model_folder(tmp_path / "model", ECHO)
    with tarfile.open(tmp_path / "model.tar.gz", "w:gz") as archive:
        archive.add(folder, ".")
    with typed(tmp_path, tmp_path / "model.tar.gz") as server:
        server.port = int(re.findall(r"listening at [\d.]+:(\d+)", server.log_text)[0])
        assert server.predict({"a": 1}).json == {"a": 1}
        everything = below(server.process.pid)
        server.process.kill()
        assert all(gone(pid) for pid in everything)


@pytest.mark.slow
def test_a_handler_that_cannot_be_loaded_ends_the_command(tmp_path: Path) -> None:
    folder = model_folder(tmp_path / "model", "raise ValueError('no weights')")
    done = subprocess.run(
        [sys.executable, "-m", "gpuproof", "serve", str(folder), "--port", "0"],
        env={**os.environ, "GPUPROOF_CACHE_DIR": str(tmp_path / "cache")},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 1
    assert done.stderr.count("Traceback") == 1, "it was tried again, which helps no laptop"
    assert "no weights" in done.stderr


def typed_wrongly(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(["serve", *words]) == ExitCode.USAGE
    return capsys.readouterr().err


def test_a_missing_model_argument_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SAGEMAKER_BASE_DIR", str(tmp_path))
    output = typed_wrongly(capsys)
    assert f"MODEL is missing, and there is no {tmp_path / 'model'}" in output
    assert "code/inference.py" in output


@pytest.mark.parametrize("words", [("folder",), ("--code", "inference.py"), ("--dev",)])
def test_several_models_come_through_the_api_and_not_from_the_command_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], words: tuple[str, ...]
) -> None:
    monkeypatch.setenv("SAGEMAKER_MULTI_MODEL", "true")
    assert "POST /models" in typed_wrongly(capsys, *words)


@pytest.mark.slow
def test_several_models_are_served_without_one_on_the_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SAGEMAKER_MULTI_MODEL", "true")
    monkeypatch.setenv("GPUPROOF_SERVE_MODELS_ROOTS", str(tmp_path))
    folder = model_folder(tmp_path / "one", ECHO)
    with typed(tmp_path, awaited="listening at") as server:
        server.port = int(re.findall(r"listening at [\d.]+:(\d+)", server.log_text)[0])
        server.until_healthy()
        loaded = server.ask("POST", "/models", json.dumps({"model_name": "one", "url": str(folder)}))
        assert loaded.status == 200
        assert server.ask("POST", "/models/one/invoke", "[7]").json == [7]


@pytest.mark.slow
@pytest.mark.parametrize("words", [(), ("serve",)])
def test_without_a_model_the_containers_is_served_on_all_addresses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    model_folder(tmp_path / "ml" / "model", ECHO)
    monkeypatch.setenv("SAGEMAKER_BASE_DIR", str(tmp_path / "ml"))
    monkeypatch.delenv("GPUPROOF_SERVE_HOST", raising=False)
    monkeypatch.chdir(tmp_path)
    with typed(tmp_path, *words) as server:
        server.port = int(re.findall(r"listening at 0\.0\.0\.0:(\d+)", server.log_text)[0])
        assert server.predict([7]).json == [7]


@pytest.mark.slow
def test_dev_serves_what_was_written_last(tmp_path: Path) -> None:
    versions = ECHO.replace("    return data", "    return {'version': 1}")
    folder = model_folder(tmp_path / "model", versions)
    with typed(tmp_path, folder, "--dev") as server:
        server.port = int(re.findall(r"listening at [\d.]+:(\d+)", server.log_text)[0])
        assert server.predict(1).json == {"version": 1}
        model_folder(folder, versions.replace("1}", "2}"))
        until(lambda: server.predict(1).json == {"version": 2}, "the new version")
        assert server.log_text.count("ready after") == 1
        assert "is ready again" in server.log_text
        assert json.loads(server.ask("GET", "/ping").body)["status"] == "healthy"


@pytest.mark.parametrize(
    ("flag", "value", "expected"),
    [
        ("--port", "99999", "a port number up to 65535"),
        ("--port", "http", "a port number up to 65535"),
        ("--workers", "0", "a positive whole number"),
        ("--workers-per-gpu", "-1", "a positive whole number"),
        ("--max-batch-size", "-3", "a positive whole number"),
        ("--timeout", "0", "a number of seconds, such as 60"),
        ("--timeout", "nan", "a number of seconds, such as 60"),
    ],
)
def test_an_impossible_number_is_wrong_usage(
    capsys: pytest.CaptureFixture[str], flag: str, value: str, expected: str
) -> None:
    with pytest.raises(SystemExit) as left:
        flags(flag, value)
    assert left.value.code == 2
    assert expected in capsys.readouterr().err


@pytest.mark.slow
def test_a_missing_warm_up_request_is_reported_before_anything_is_loaded(tmp_path: Path) -> None:
    folder = model_folder(tmp_path / "model", "raise ValueError('loaded')")
    done = subprocess.run(
        [sys.executable, "-m", "gpuproof", "serve", str(folder), "--port", "0", "--warmup", "none.json"],
        env={**os.environ, "GPUPROOF_CACHE_DIR": str(tmp_path / "cache")},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 2
    assert "none.json" in done.stderr
    assert "loaded" not in done.stderr
