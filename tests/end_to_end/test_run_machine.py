"""`kind: machine` on this machine: `gpuproof run --jupyter` with a real JupyterLab."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from support.jupyter import jupyter_environment, wait_until

# With the other journey that needs port 8888.
pytestmark = [pytest.mark.slow, pytest.mark.journey, pytest.mark.xdist_group("machine")]

JOB = "kind: machine\nname: workbench\nidle_timeout: {}\nmax_duration: {}\n"
_URL = re.compile(r"(http://127\.0\.0\.1:\d+)/lab\?token=([\w-]{20,})")
_PATIENCE_S = 300.0

Start = Callable[..., "subprocess.Popen[bytes]"]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts `gpuproof` in a folder with a machine; its output goes into the file `output`."""
    pytest.importorskip("jupyterlab")
    project = tmp_path / "project"
    project.mkdir()
    (project / "notes.txt").write_text("before")
    environment = {
        **os.environ,
        **jupyter_environment(tmp_path / "jupyter"),
        "GPUPROOF_STATE_DIR": str(tmp_path / "state"),
        "GPUPROOF_CACHE_DIR": str(tmp_path / "cache"),
        "NO_COLOR": "1",
    }
    started: list[subprocess.Popen[bytes]] = []

    def run(*words: str, idle: str = "1h", limit: str = "1h") -> subprocess.Popen[bytes]:
        (project / "gpuproof.yaml").write_text(JOB.format(idle, limit))
        with (tmp_path / "output").open("wb") as output:
            process = subprocess.Popen(
                [sys.executable, "-m", "gpuproof", *words],
                cwd=project,
                env=environment,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        started.append(process)
        return process

    yield run
    for process in started:
        if process.poll() is None:
            process.kill()
        process.wait()
    # A machine outlives its client: of a test that failed, it would run on.
    command = [sys.executable, "-m", "gpuproof", "stop", "--all"]
    subprocess.run(command, env=environment, cwd=project, capture_output=True, check=False)


def printed(folder: Path) -> str:
    return (folder / "output").read_text()


def states(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(path.read_text()) for path in (folder / "state").rglob("run.json")]


def put(url: str, token: str, name: str, text: str) -> None:
    """Save a file as JupyterLab does."""
    body = json.dumps({"type": "file", "format": "text", "content": text}).encode()
    headers = {"Authorization": f"token {token}", "Content-Type": "application/json"}
    request = urllib.request.Request(f"{url}/api/contents/{name}", body, headers, method="PUT")
    urllib.request.urlopen(request, timeout=_PATIENCE_S).close()


def command_lines() -> str:
    found: list[bytes] = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            found.append(path.read_bytes())
        except OSError:
            continue
    return b"\n".join(found).decode(errors="replace")


def test_jupyterlab_works_in_the_users_folder_until_it_is_stopped(start: Start, tmp_path: Path) -> None:
    process = start("run", "--jupyter")
    wait_until(lambda: _URL.search(printed(tmp_path)), _PATIENCE_S)
    found = _URL.search(printed(tmp_path))
    assert found is not None
    put(found[1], found[2], "saved.txt", "kept")
    assert found[2] not in command_lines()
    process.send_signal(2)
    assert process.wait(_PATIENCE_S) == 130
    (state,) = states(tmp_path)
    assert (state["status"], state["kind"]) == ("Stopped", "machine")
    project = tmp_path / "project"
    assert (project / "saved.txt").read_text() == "kept"
    assert (project / "notes.txt").read_text() == "before"
    kept = [path for path in (tmp_path / "state").rglob("*") if path.is_file()]
    (holder,) = [path for path in kept if found[2].encode() in path.read_bytes()]
    assert (holder.name, holder.stat().st_mode & 0o077) == ("jupyter.json", 0)


def test_it_ends_when_it_is_idle_and_says_why(start: Start, tmp_path: Path) -> None:
    process = start("run", "--jupyter", idle="2s")
    assert process.wait(_PATIENCE_S) == 0, printed(tmp_path)
    (state,) = states(tmp_path)
    assert state["status"] == "Completed"
    assert "idle for 2.0 s: no kernel was busy and no GPU worked" in state["notes"]
    assert "note       idle for 2.0 s" in printed(tmp_path)
    assert "verdict    no-gpu-expected" in printed(tmp_path)


def test_max_duration_ends_it_although_it_is_not_idle(start: Start, tmp_path: Path) -> None:
    process = start("run", limit="2s")
    assert process.wait(_PATIENCE_S) == 1, printed(tmp_path)
    (state,) = states(tmp_path)
    assert (state["status"], state["secondary_status"]) == ("Stopped", "MaxRuntimeExceeded")


def test_sagemaker_points_to_notebook_instances(start: Start, tmp_path: Path) -> None:
    process = start("run", "--on", "sagemaker", "--jupyter")
    assert process.wait(_PATIENCE_S) == 2
    assert "gpuproof notebook create" in printed(tmp_path)
