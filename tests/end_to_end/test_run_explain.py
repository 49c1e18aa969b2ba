"""`gpuproof run` says why a job failed, and `gpuproof explain` says it again."""

from __future__ import annotations

import json

import pytest

from support.cli_sandbox import Desk

pytestmark = pytest.mark.journey


def test_a_failed_run_ends_with_the_cause_and_what_to_type(desk: Desk) -> None:
    desk.write("train.py", "import sklearn_extra_nowhere")
    done = desk.gpuproof("run", "train.py")
    assert done.returncode == 1
    assert "module-not-found (algo-1.log:" in done.stderr
    assert "sklearn_extra_nowhere.py" in done.stderr
    assert "source_dir" in done.stderr


def test_the_explanations_are_in_the_json_and_explain_finds_the_newest_run(desk: Desk) -> None:
    desk.write("train.py", "open('/opt/ml/input/data/valid/x.csv')")
    result = desk.run_json("train.py")
    (found,) = result["explanations"]
    assert found["code"] == "sagemaker-channel-missing"
    assert found["count"] == 1
    assert "--input valid=DATA" in found["remedy"]
    done = desk.gpuproof("explain", "--format", "json")
    assert done.returncode == 1
    again = json.loads(done.stdout)
    assert again["log"] == result["run"]["id"]
    assert again["explanations"] == [found]


def test_a_script_that_was_killed_is_explained_by_how_it_ended(desk: Desk) -> None:
    desk.write(
        "train.py", "import os, signal\nprint('step 1', flush=True)\nos.kill(os.getpid(), signal.SIGKILL)"
    )
    done = desk.gpuproof("run", "train.py")
    assert "error      killed-137" in done.stderr
    assert "Host memory of this machine" in done.stderr


def test_a_failure_that_nobody_knows_adds_nothing(desk: Desk) -> None:
    desk.write("train.py", "raise ValueError('no rows')")
    result = desk.run_json("train.py")
    assert result["explanations"] == []
    done = desk.gpuproof("explain", result["run"]["id"])
    assert done.returncode == 3
    assert "ValueError: no rows" in done.stdout


def test_a_run_that_went_well_needs_no_explanation(desk: Desk) -> None:
    desk.write("train.py", "print('CUDA out of memory. Tried to allocate 2.00 GiB: the batch is halved')")
    assert desk.run_json("train.py")["explanations"] == []
