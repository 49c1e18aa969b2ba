"""The examples as a reader runs them: real TensorFlow and PyTorch, trained and checked."""

from __future__ import annotations

import http.client
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from gpuproof.util.process_tree import descendants
from support.cli_sandbox import CliSandbox, gone, until
from support.ports import free_port

pytestmark = [pytest.mark.journey, pytest.mark.slow]

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.mark.parametrize("name", ["keras-digits", "pytorch-digits"])
def test_an_example_trains_pulls_and_reaches_its_accuracy(sandbox: CliSandbox, name: str) -> None:
    shutil.copytree(EXAMPLES / name, sandbox.project / name, ignore=shutil.ignore_patterns("__pycache__"))
    done = sandbox.gpuproof("run", name)
    assert done.returncode == 0, done.stderr
    assert "no-gpu-expected" in done.stderr
    assert "this machine has none" in done.stderr
    assert sandbox.gpuproof("pull", name, "--to", "pulled").returncode == 0
    checked = subprocess.run(
        [sys.executable, "evaluate.py", sandbox.project / "pulled" / "model.tar.gz"],
        cwd=sandbox.project / name,
        capture_output=True,
        text=True,
    )
    assert checked.returncode == 0, checked.stderr
    accuracy = float(checked.stdout.rsplit(" ", 1)[1])
    assert 0.95 <= accuracy <= 1
    asked = _predict_over_http(sandbox, name)
    assert asked.returncode == 0, asked.stdout + asked.stderr
    # The same digits, the same model: HTTP must not change a single answer.
    assert f"accuracy over HTTP on 360 held-back digits: {accuracy:.3f}" in asked.stdout


def _predict_over_http(sandbox: CliSandbox, name: str) -> subprocess.CompletedProcess[str]:
    """Run `predict.py` against the run's model, served as in the demo."""
    port = free_port()
    server = sandbox.start("serve", sandbox.newest().name, "--port", str(port), "--no-access-log")
    try:
        until(lambda: server.poll() is not None or _is_healthy(port), "/ping 200", 300)
        return subprocess.run(
            [sys.executable, EXAMPLES / "predict.py", f"http://127.0.0.1:{port}"],
            cwd=sandbox.project / name,
            capture_output=True,
            text=True,
        )
    finally:
        server.send_signal(signal.SIGTERM)
        assert server.wait(300) == 0


def _is_healthy(port: int) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=300)
    try:
        connection.request("GET", "/ping")
        return connection.getresponse().status == http.HTTPStatus.OK
    except OSError:
        return False
    finally:
        connection.close()


def test_a_killed_agent_takes_a_real_training_with_it_and_the_next_attempt_resumes(
    sandbox: CliSandbox,
) -> None:
    shutil.copytree(EXAMPLES / "pytorch-digits", sandbox.project / "digits")
    folder = sandbox.detached("digits", "-p", "epochs=100000")
    until(lambda: any((folder / "checkpoints").glob("checkpoint-*")), "a checkpoint")
    agent = sandbox.state(folder)["agent_pid"]
    family = [agent, *descendants(agent)]
    os.kill(agent, signal.SIGKILL)
    assert [pid for pid in family if not gone(pid)] == []
    again = sandbox.gpuproof("run", "digits", "-p", "epochs=2")
    assert again.returncode == 0, again.stderr
    assert f"checkpoint files of {folder.name}" in again.stderr
    assert "resumed after epoch" in again.stdout


@pytest.mark.gpu
def test_the_torch_example_uses_a_real_gpu(sandbox: CliSandbox) -> None:
    shutil.copytree(EXAMPLES / "pytorch-digits", sandbox.project / "digits")
    result = sandbox.run_json("digits", "--gpu", "1", "--require-gpu", "-p", "epochs=60")
    verdict = result["verdict"]
    assert (verdict["outcome"], result["exit_code"]) == ("used", 0), verdict
    gpu = next(gpu for gpu in verdict["gpus"] if gpu["worked"])
    results = Path(__file__).parents[2] / "bench" / "results"
    name = "".join(letter if letter.isalnum() else "-" for letter in gpu["name"].lower())
    shutil.copy(Path(result["folder"]) / "verdict.json", results / f"run-torch-{name}.json")
