"""Advice that knows the job: no remedy is what the user did."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from gpuproof.agent.paths import RunPaths
from gpuproof.explain import Context, Explanation, explain_lines
from gpuproof.explain.context import JobFacts
from gpuproof.explain.sources import explain_run

MISSING_FILE = "FileNotFoundError: [Errno 2] No such file or directory: 'data/part.csv'"
NONE = "TypeError: expected str, bytes or os.PathLike object, not NoneType"
NO_RANK = (
    "ValueError: Error initializing torch.distributed using env:// rendezvous: environment variable RANK expected, "
    "but not set"
)


def explained(context: Context, job: JobFacts, *lines: str) -> Explanation:
    return explain_lines(lines, replace(context, job=job))[0]


@pytest.mark.parametrize("line", [MISSING_FILE, NONE, "KeyError: 'SM_CHANNEL_TRAINING'"])
def test_a_script_that_reads_another_channel_than_the_job_has(context: Context, line: str) -> None:
    job = JobFacts(channels=("train",), entry_point="fit.py", variables_read=("SM_CHANNEL_TRAINING",))
    found = explained(context, job, line)
    assert found.here == (
        "fit.py reads SM_CHANNEL_TRAINING, which this job does not set: it has the channel 'train'."
    )
    assert found.remedy.startswith("Rename the input: --input training=DATA")
    assert "os.environ['SM_CHANNEL_TRAIN']" in found.remedy


def test_a_job_without_inputs_needs_the_one_that_the_script_reads(context: Context) -> None:
    job = JobFacts(variables_read=("SM_CHANNEL_VALID", "SM_MODEL_DIR"))
    found = explained(context, job, NONE)
    assert "this job has no input channels" in (found.here or "")
    assert "--input valid=DATA" in found.remedy


def test_an_optional_channel_does_not_explain_a_file_of_another_kind(context: Context) -> None:
    job = JobFacts(channels=("train",), variables_read=("SM_CHANNEL_TRAIN", "SM_CHANNEL_VALIDATION"))
    found = explained(context, job, MISSING_FILE)
    assert found.here is None
    assert "SM_CHANNEL_VALIDATION" not in found.remedy


def test_an_absolute_path_has_nothing_to_do_with_channels(context: Context) -> None:
    job = JobFacts(channels=("train",), variables_read=())
    assert explained(context, job, MISSING_FILE.replace("data/", "/data/")).here is None


def test_a_job_whose_input_the_script_never_reads(context: Context) -> None:
    job = JobFacts(channels=("train",), entry_point="fit.py", variables_read=("SM_MODEL_DIR",))
    found = explained(context, job, MISSING_FILE)
    assert "fit.py does not read SM_CHANNEL_TRAIN" in (found.here or "")
    assert "os.environ['SM_CHANNEL_TRAIN'], 'part.csv'" in found.remedy


def test_nothing_is_said_about_a_source_that_is_not_here(context: Context) -> None:
    assert explained(context, JobFacts(channels=("train",)), MISSING_FILE).here is None


def test_a_folder_that_was_sent_without_the_file(context: Context) -> None:
    found = explained(context, JobFacts(variables_read=(), files=("data", "fit.py")), MISSING_FILE)
    assert "The folder data was sent with the job, but without part.csv" in (found.here or "")


def test_a_channel_that_the_job_has_is_not_recommended_again(context: Context) -> None:
    line = "FileNotFoundError: [Errno 2] No such file or directory: '/opt/ml/input/data/train/a.csv'"
    found = explained(context, JobFacts(channels=("train",)), line)
    assert found.code == "sagemaker-channel-missing"
    assert "--input train" not in found.remedy
    assert "inputs:" not in found.remedy


def test_a_job_without_a_launcher_gets_one(context: Context) -> None:
    found = explained(context, JobFacts(launcher="none", entry_point="ddp.py"), NO_RANK)
    assert found.code == "launcher-missing"
    assert "gpuproof run ddp.py --distribution torchrun" in found.remedy
    assert "distribution: torchrun in gpuproof.yaml" in found.remedy


def test_a_job_with_torchrun_is_not_told_to_use_it(context: Context) -> None:
    found = explained(context, JobFacts(launcher="torchrun"), NO_RANK)
    assert "--distribution torchrun" not in found.remedy
    assert "subprocess" in found.remedy


def test_without_a_job_every_way_to_start_it_is_named(context: Context) -> None:
    (found,) = explain_lines([NO_RANK], context)
    for way in ("--distribution torchrun", "distribution: torchrun", "torch_distributed", "Torchrun()"):
        assert way in found.remedy


def test_a_package_that_requirements_txt_names_is_not_recommended_again(context: Context) -> None:
    line = "ModuleNotFoundError: No module named 'timm'"
    found = explained(context, JobFacts(requirements=("timm",)), line)
    assert ">> requirements.txt" not in found.remedy
    assert ">> requirements.txt" in explained(context, JobFacts(), line).remedy


@pytest.mark.parametrize(
    ("passed", "defined"), [("--batch-size", "--batch_size"), ("--lr_rate", "--lr-rate")]
)
def test_an_option_with_another_spelling_is_pointed_out(context: Context, passed: str, defined: str) -> None:
    line = f"train.py: error: the following arguments are required: {defined}"
    found = explained(context, JobFacts(arguments=(passed, "8")), line)
    assert found.here == f"This job passes {passed}; the script defines {defined}."


def test_a_hyperparameter_that_the_job_lacks(context: Context) -> None:
    found = explained(context, JobFacts(hyperparameters=("epochs",)), "KeyError: 'SM_HP_LR'")
    assert "this job has epochs" in (found.here or "")
    assert "-p lr=VALUE" in found.remedy


def test_an_import_of_an_installed_package_is_not_a_file_of_the_user(context: Context) -> None:
    def failing(path: str) -> list[str]:
        return [
            "Traceback (most recent call last):",
            f'  File "{path}", line 3, in <module>',
            "    import flibber",
            "ModuleNotFoundError: No module named 'flibber'",
        ]

    theirs = explain_lines(failing("/opt/conda/lib/python3.12/site-packages/widgets/core.py"), context)[0]
    assert "The installed package widgets imports it" in (theirs.here or "")
    assert "source_dir" not in theirs.remedy
    ours = explain_lines(failing("/opt/ml/code/train.py"), context)[0]
    assert "source_dir" in ours.remedy


def test_the_facts_of_a_local_run_are_read_from_its_folder(tmp_path: Path, context: Context) -> None:
    paths = RunPaths(tmp_path)
    code = paths.ml / "code"
    code.mkdir(parents=True)
    (code / "fit.py").write_text("import os\nfolder = os.environ.get('SM_CHANNEL_IMAGES', 'data')\n")
    (code / "requirements.txt").write_text("Timm_Extra>=1  # models\n")
    paths.job.write_text(
        json.dumps({"channels": ["train"], "entry_point": "fit.py", "launcher": "none", "hosts": ["algo-1"]})
    )
    paths.log().parent.mkdir()
    paths.log().write_text(MISSING_FILE + "\n")
    (found,) = explain_run(paths, None, replace(context, failed=True)).explanations
    assert "fit.py reads SM_CHANNEL_IMAGES" in (found.here or "")
    assert "--input images=DATA" in found.remedy
