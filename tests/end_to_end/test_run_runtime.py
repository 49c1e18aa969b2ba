"""`import gpuproof.runtime` in a script that `gpuproof run` starts in an interpreter without GPUproof."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from support.cli_sandbox import CliSandbox

pytestmark = pytest.mark.journey

SCRIPT = """
import json, os, sys
import gpuproof.runtime as rt
print(json.dumps({
    "from": rt.__file__,
    "hyperparameters": rt.hyperparameters(),
    "model": str(rt.paths.model),
    "channel": sorted(path.name for path in rt.paths.channel("train").iterdir()),
    "gpuproof": {name: value for name, value in os.environ.items() if name.startswith("GPUPROOF_")},
    "installed": "site-packages" in rt.__file__,
}))
"""


@pytest.fixture
def bare(tmp_path: Path) -> Path:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "bare"], check=True)
    return tmp_path / "bare" / "bin" / "python"


def test_a_script_finds_it_in_a_bare_environment(sandbox: CliSandbox, bare: Path) -> None:
    sandbox.write("train.py", SCRIPT)
    sandbox.write("data/a.csv", "1")
    sandbox.write(
        "gpuproof.yaml", "entry_point: train.py\ninputs: {train: data}\nhyperparameters: {epochs: 3}\n"
    )
    done = sandbox.gpuproof("run", "--python", bare)
    assert done.returncode == 0, done.stderr
    output = json.loads(done.stdout)
    assert ".pyz" in output["from"]
    assert output["hyperparameters"] == {"epochs": 3}
    assert output["model"] == "/opt/ml/model"
    assert output["channel"] == ["a.csv"]
    assert output["gpuproof"].keys() == {"GPUPROOF_THROUGHPUT", "GPUPROOF_STEPS", "GPUPROOF_WATCHED_BY"}


@pytest.mark.parametrize(
    ("flag", "expected"), [("--no-require-gpu", {"GPUPROOF_REQUIRE_GPU": "0"}), (None, {})]
)
def test_it_knows_the_gpu_settings_of_the_job(
    sandbox: CliSandbox, bare: Path, flag: str | None, expected: dict[str, str]
) -> None:
    sandbox.environment["GPUPROOF_REQUIRE_GPU"] = "1"  # a user's own is not the job's
    sandbox.write("train.py", SCRIPT.replace('rt.paths.channel("train").iterdir()', "()"))
    done = sandbox.gpuproof(
        "run", "train.py", "--python", bare, "--instance-type", "ml.g5.12xlarge", *([flag] if flag else [])
    )
    settings = json.loads(done.stdout)["gpuproof"]
    del settings["GPUPROOF_THROUGHPUT"], settings["GPUPROOF_STEPS"]  # folders, for every job
    assert settings == {"GPUPROOF_EXPECTED_GPUS": "4", "GPUPROOF_WATCHED_BY": "gpuproof run", **expected}


def test_a_stopped_run_saves_and_the_next_attempt_goes_on(sandbox: CliSandbox, bare: Path) -> None:
    sandbox.write(
        "train.py",
        "import time, gpuproof.runtime as rt\n"
        "state = {'steps': 0}\n"
        "kept = rt.checkpoint(state=state)\n"
        "print('from', state['steps'], flush=True)\n"
        "for epoch in kept.epochs(1):\n"
        "    for _ in kept.steps(range(rt.hyperparameters()['steps'])):\n"
        "        state['steps'] += 1\n"
        "        if state['steps'] == 1: print('stepped', flush=True)\n"
        "        time.sleep(0.002)\n",
    )
    words = ["run", "train.py", "--python", bare, "-p"]
    running = sandbox.start(*words, "steps=1000000")
    assert running.stdout is not None
    assert [running.stdout.readline() for _ in range(2)] == ["from 0\n", "stepped\n"]
    assert sandbox.gpuproof("stop", sandbox.newest().name).returncode == 0
    running.communicate(timeout=300)
    assert sandbox.state(sandbox.newest())["status"] == "Stopped"
    again = sandbox.gpuproof(*words, "steps=1")
    assert again.returncode == 0, again.stderr
    resumed, began = again.stdout.splitlines()
    assert "resumed after epoch 0 and" in resumed
    assert int(began.split()[1]) > 0
