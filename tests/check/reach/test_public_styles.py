"""Scripts in the styles of public examples: the preflight check stops none of them."""

import shutil
from pathlib import Path

import pytest

from gpuproof.findings import Severity
from gpuproof.jobs.models.script_jobs import TrainingJob
from gpuproof.linter.preflight import check_job
from gpuproof.linter.rule import Hit

SCRIPTS = sorted(path for path in (Path(__file__).parent / "scripts").glob("*.py") if path.stem != "tiny_gpt")
GPU = "ml.g5.xlarge"


@pytest.fixture(autouse=True)
def scripts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A copy outside `tests/`: rules do not report what would be a test."""
    shutil.copytree(Path(__file__).parent / "scripts", tmp_path / "work")
    monkeypatch.chdir(tmp_path / "work")


ON_REQUEST = {"dcgan": "--accel", "super_resolution": "--cuda"}
"""Scripts that use a GPU only with an option."""


NEEDS = {
    "ddp_trainer_class.py": {"distribution": "torchrun"},
    "sagemaker_huggingface.py": {"inputs": {"train": "/data"}},
}
"""What the job of a script has to have: a launcher, or a channel."""


def hits_in(name: str, *arguments: str, instance_type: str | None = GPU, is_remote: bool = True) -> list[Hit]:
    job = TrainingJob(entry_point=name, **NEEDS.get(name, {})).with_absolute_paths(Path.cwd())
    job = job.model_copy(update={"instance_type": instance_type, "arguments": arguments})
    return check_job(job, is_remote=is_remote)


def errors_in(
    name: str, *arguments: str, instance_type: str | None = GPU, is_remote: bool = True
) -> list[str]:
    found = hits_in(name, *arguments, instance_type=instance_type, is_remote=is_remote)
    return [hit.code for hit in found if hit.finding.severity is Severity.ERROR]


def test_there_are_thirty_scripts() -> None:
    assert len(SCRIPTS) >= 30


@pytest.mark.parametrize("instance_type", [None, GPU])
@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_an_ordinary_script_is_not_stopped(script: Path, instance_type: str | None) -> None:
    wastes_gpu = script.stem in ON_REQUEST and instance_type is not None
    assert errors_in(script.name, instance_type=instance_type) == (["PT101"] if wastes_gpu else [])


@pytest.mark.parametrize(
    ("script", "code"), [("ddp_trainer_class.py", "DS123"), ("sagemaker_huggingface.py", "SM109")]
)
def test_a_job_without_what_its_script_needs_is_stopped(
    script: str, code: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(NEEDS, script)
    assert errors_in(script) == [code]


@pytest.mark.parametrize(("script", "option"), ON_REQUEST.items())
def test_a_script_that_gets_the_option_for_a_gpu_is_not_stopped(script: str, option: str) -> None:
    assert errors_in(f"{script}.py", option) == []


def test_a_script_that_certainly_needs_a_gpu_is_stopped_on_a_cpu_instance() -> None:
    assert errors_in("benchmark_tool.py", instance_type="ml.m5.xlarge") == ["IN104"]


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_each_warning_is_one_line(script: Path) -> None:
    assert all("\n" not in hit.finding.message for hit in hits_in(script.name))


@pytest.mark.parametrize(
    ("script", "option"),
    [
        ("mnist_save_option.py", "--save-model"),
        ("mnist_save_option.py", "--save"),
        ("siamese.py", "--save-model"),
        ("mnist_rnn.py", "--save-model"),
        ("forward_forward.py", "--save_model"),
        ("hogwild.py", "--save_model"),
        ("keras_save_option.py", "--export"),
    ],
)
def test_a_model_that_the_job_saves_and_loses_stops_it(script: str, option: str) -> None:
    assert errors_in(script, option) == ["SM101"]
    assert errors_in(script, option, is_remote=False) == []


def test_the_warning_says_why_the_job_is_not_stopped() -> None:
    by_code = {hit.code: hit.finding.message for hit in hits_in("mnist_save_option.py")}
    assert by_code["SM101"].endswith("This job does not run the line: `args.save_model` is false.")
    by_code = {hit.code: hit.finding.message for hit in hits_in("sagemaker_train_and_serve.py")}
    assert by_code["PT112"].endswith("sagemaker_train_and_serve.py does not call `predict_fn` directly.")
