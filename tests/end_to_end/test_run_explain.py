"""`gpuproof run` prints why a job failed, and `gpuproof explain` prints it again."""

from __future__ import annotations

import json

import pytest

from support.cli_sandbox import CliSandbox

pytestmark = pytest.mark.journey


def test_a_failed_run_ends_with_the_cause_and_what_to_type(sandbox: CliSandbox) -> None:
    sandbox.write("train.py", "import sklearn_extra_nowhere")
    done = sandbox.gpuproof("run", "train.py")
    assert done.returncode == 1
    assert "module-not-found (algo-1.log:" in done.stderr
    assert "sklearn_extra_nowhere.py" in done.stderr
    assert "source_dir" in done.stderr


def test_the_explanations_are_in_the_json_and_explain_finds_the_newest_run(sandbox: CliSandbox) -> None:
    sandbox.write("train.py", "open('/opt/ml/input/data/valid/x.csv')")
    result = sandbox.run_json("train.py")
    (found,) = result["explanations"]
    assert found["code"] == "sagemaker-channel-missing"
    assert found["count"] == 1
    assert "--input valid=DATA" in found["remedy"]
    done = sandbox.gpuproof("explain", "--format", "json")
    assert done.returncode == 1
    again = json.loads(done.stdout)
    assert again["log"] == result["run"]["id"]
    assert again["explanations"] == [found]


def test_a_script_that_was_killed_is_explained_by_how_it_ended(sandbox: CliSandbox) -> None:
    sandbox.write(
        "train.py", "import os, signal\nprint('step 1', flush=True)\nos.kill(os.getpid(), signal.SIGKILL)"
    )
    done = sandbox.gpuproof("run", "train.py")
    assert "error      killed-137" in done.stderr
    assert "Host memory of this machine" in done.stderr


def test_an_unknown_failure_adds_nothing(sandbox: CliSandbox) -> None:
    sandbox.write("train.py", "raise ValueError('no rows')")
    result = sandbox.run_json("train.py")
    assert result["explanations"] == []
    done = sandbox.gpuproof("explain", result["run"]["id"])
    assert done.returncode == 3
    assert "ValueError: no rows" in done.stdout


def test_a_run_that_went_well_needs_no_explanation(sandbox: CliSandbox) -> None:
    sandbox.write("train.py", "print('CUDA out of memory. Tried to allocate 2.00 GiB: the batch is halved')")
    assert sandbox.run_json("train.py")["explanations"] == []
