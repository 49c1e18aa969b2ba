"""A job is read from gpuproof.yaml, a folder or a script; what is wrong names file, line and key."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuproof.errors import ExitCode, InvalidJob, UsageError
from gpuproof.jobs.distribution.spec import Distribution
from gpuproof.jobs.load import load, load_jobs
from gpuproof.jobs.models.script_jobs import ProcessingJob, TrainingJob
from gpuproof.units import Duration, GpuRequest, MemoryRange, Money

HERE = Path(__file__).parent
BROKEN = sorted((HERE / "broken").glob("*/*.yaml"))
VALID = sorted((HERE / "valid").glob("*.yaml"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "train.py").write_text("print('trained')\n")
    return tmp_path


def write(folder: Path, text: str, name: str = "gpuproof.yaml") -> Path:
    path = folder / name
    path.write_text(text)
    return path


@pytest.mark.parametrize("path", BROKEN, ids=lambda path: path.stem)
def test_a_broken_file_names_each_problem_by_line_and_key(path: Path) -> None:
    expected = path.with_suffix(".expected").read_text().replace("{folder}", str(path.parent)).splitlines()
    with pytest.raises(InvalidJob) as caught:
        load_jobs(path)
    assert caught.value.message.splitlines() == [f"{path}:{line}" for line in expected]
    assert caught.value.exit_code is ExitCode.USAGE


@pytest.mark.parametrize("path", VALID, ids=lambda path: path.stem)
def test_a_valid_file_is_read(path: Path) -> None:
    assert load_jobs(path)


def test_every_key_arrives_as_its_type() -> None:
    job = load(HERE / "valid" / "everything.yaml")
    assert isinstance(job, TrainingJob)
    assert job.name == "cifar-10"
    assert job.arguments == ("--verbose", "3")
    assert job.hyperparameters["schedule"] == {"kind": "cosine", "warmup": 0.1}
    assert job.hyperparameters["resume"] is None
    assert job.resources.gpu == GpuRequest.parse("A10G,L4:1..4")
    assert job.resources.gpu_memory == MemoryRange.parse("24GiB+")
    assert job.resources.max_price == Money.parse("7.50")
    assert job.max_duration == Duration(8 * 3600)
    assert job.if_gpu_unused is not None
    assert (job.if_gpu_unused.action, job.if_gpu_unused.grace) == ("stop", Duration(300))
    assert job.distribution is not None
    assert job.distribution == Distribution(launcher="torchrun", processes_per_host=4, max_restarts=2)
    assert job.stall_timeout == Duration(1200)


def test_a_number_with_an_exponent_is_a_number() -> None:
    job = load(HERE / "valid" / "everything.yaml")
    assert isinstance(job, TrainingJob)
    assert job.hyperparameters["learning-rate"] == 0.001


def test_numbers_stay_as_written_where_text_is_wanted() -> None:
    job = load(HERE / "valid" / "everything.yaml")
    assert job.framework_version == "2.10"
    assert job.environment["OMP_NUM_THREADS"] == "4"
    assert job.tags["cost-centre"] == "0042"


def test_relative_paths_begin_at_the_files_folder(folder: Path) -> None:
    text = "entry_point: train.py\ninputs: {a: ./data, b: ../b, c: s3://bucket/c, d: /abs}\ncheckpoint: ck\noutput: out\n"
    (folder / "sub").mkdir()
    (folder / "sub" / "train.py").touch()
    job = load(write(folder / "sub", text))
    assert isinstance(job, TrainingJob)
    assert job.source_dir == str(folder / "sub")
    assert job.inputs == {
        "a": str(folder / "sub" / "data"),
        "b": str(folder / "b"),
        "c": "s3://bucket/c",
        "d": "/abs",
    }
    assert job.checkpoint is not None
    assert job.checkpoint.path == str(folder / "sub" / "ck")
    assert job.output == str(folder / "sub" / "out")


def test_a_home_folder_is_expanded(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/ada")
    job = load(write(folder, "entry_point: train.py\ninputs: {training: ~/data}\n"))
    assert isinstance(job, TrainingJob)
    assert job.inputs == {"training": "/home/ada/data"}


def test_a_script_is_a_job(folder: Path) -> None:
    script = folder / "train_cifar v2.py"
    script.touch()
    job = load(script)
    assert isinstance(job, TrainingJob)
    assert (job.name, job.entry_point, job.source_dir) == ("train-cifar-v2", "train_cifar v2.py", str(folder))


def test_a_script_given_relatively_gets_an_absolute_folder(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    assert load(Path("train.py")).source_dir == str(folder)


def test_a_folder_means_its_gpuproof_yaml(folder: Path) -> None:
    write(folder, "entry_point: train.py\nname: from-folder\n", "gpuproof.yml")
    assert load(folder).name == "from-folder"


def test_a_job_without_a_name_is_called_after_its_script(folder: Path) -> None:
    assert load(write(folder, "entry_point: train.py\n")).name == "train"


def test_a_job_among_several_is_called_after_its_key() -> None:
    jobs = load_jobs(HERE / "valid" / "several.yaml")
    assert {key: job.name for key, job in jobs.items()} == {"train": "train", "prep_data": "prep-data"}


def test_defaults_lie_under_each_job_key_by_key() -> None:
    jobs = load_jobs(HERE / "valid" / "several.yaml")
    train, prep = jobs["train"], jobs["prep_data"]
    assert isinstance(train, TrainingJob)
    assert train.hyperparameters == {"epochs": 5, "batch-size": 32}
    assert prep.environment == {"TF_CPP_MIN_LOG_LEVEL": "1", "MODE": "preparing"}
    assert (train.framework, prep.framework) == ("tensorflow", "tensorflow")


def test_defaults_for_training_jobs_leave_processing_jobs_alone() -> None:
    assert isinstance(load_jobs(HERE / "valid" / "several.yaml")["prep_data"], ProcessingJob)


def test_an_alias_repeats_what_it_names_and_a_jobs_own_key_wins() -> None:
    large = load(HERE / "valid" / "anchors.yaml", "large")
    assert isinstance(large, TrainingJob)
    assert large.hyperparameters == {"epochs": 1, "size": 9}


def test_processing_inputs_and_outputs_take_their_short_forms() -> None:
    job = load(HERE / "valid" / "processing.yaml")
    assert isinstance(job, ProcessingJob)
    folder = HERE / "valid"
    assert {key: (mount.path, mount.source) for key, mount in job.inputs.items()} == {
        "/opt/ml/processing/input/data": ("/opt/ml/processing/input/data", str(folder / "data")),
        "extra": ("/opt/ml/processing/input/extra", "s3://bucket/extra"),
        "labels": ("/opt/ml/processing/labels", str(folder / "labels.csv")),
    }
    assert {key: (outlet.path, outlet.destination) for key, outlet in job.outputs.items()} == {
        "/opt/ml/processing/features": ("/opt/ml/processing/features", str(folder / "out")),
        "report": ("/opt/ml/processing/output/report", None),
        "vectors": ("/opt/ml/processing/output/vectors", "s3://bucket/features"),
    }


def test_several_jobs_and_no_name_lists_the_names() -> None:
    path = HERE / "valid" / "several.yaml"
    with pytest.raises(UsageError, match="has several jobs: train, prep_data") as caught:
        load(path)
    assert caught.value.remedy == f"choose one: {path} train"


def test_an_unknown_job_suggests_the_nearest() -> None:
    with pytest.raises(UsageError, match="has no job 'prep'; did you mean 'prep_data'"):
        load(HERE / "valid" / "several.yaml", "prep")


def test_a_name_beside_a_script_is_wrong_usage(folder: Path) -> None:
    with pytest.raises(UsageError, match="'small' selects a job of a"):
        load(folder / "train.py", "small")


def test_a_missing_script_suggests_the_nearest_file(folder: Path) -> None:
    with pytest.raises(UsageError, match=r"trian\.py does not exist; did you mean 'train\.py'"):
        load(folder / "trian.py")


def test_a_missing_description_suggests_the_nearest_file(folder: Path) -> None:
    write(folder, "entry_point: train.py\n")
    with pytest.raises(UsageError, match=r"gpuprof\.yaml does not exist; did you mean 'gpuproof\.yaml'"):
        load(folder / "gpuprof.yaml")


def test_a_folder_without_a_description_gets_the_command_to_type(folder: Path) -> None:
    with pytest.raises(UsageError, match=r"there is no gpuproof\.yaml in") as caught:
        load(folder)
    assert caught.value.remedy == "run a script instead: gpuproof run train.py"


def test_a_notebook_is_not_a_script(folder: Path) -> None:
    with pytest.raises(UsageError, match="is a notebook") as caught:
        load(write(folder, "{}", "train.ipynb"))
    assert "nbconvert" in str(caught.value.remedy)


def test_a_huge_file_is_refused_before_it_is_read(folder: Path) -> None:
    path = write(folder, "entry_point: train.py\n#" + "x" * 1_100_000)
    with pytest.raises(InvalidJob, match=r"gpuproof\.yaml:1: the file is larger than 1 MB"):
        load(path)


def test_deep_nesting_is_refused(folder: Path) -> None:
    path = write(folder, "entry_point: train.py\nhyperparameters: {a: " + "[" * 5000 + "]" * 5000 + "}\n")
    with pytest.raises(InvalidJob, match="the file is nested too deeply"):
        load(path)


def test_sagemakers_limits_are_named_as_sagemakers(folder: Path) -> None:
    many = "".join(f"  p{number}: 1\n" for number in range(101))
    long = f"  text: {'x' * 2499}\n"
    text = f"entry_point: train.py\nenvironment:\n{many}tags:\n  key: {'v' * 257}\nhyperparameters:\n{long}"
    with pytest.raises(InvalidJob) as caught:
        load(write(folder, text))
    assert [line.split(": ", 1)[1] for line in caught.value.message.splitlines()] == [
        "'environment': it has 101 variables; SageMaker's limit is 100",
        "'tags.key': the value of a tag has 257 characters; SageMaker's limit is 256",
        "'hyperparameters.text': the value of a hyperparameter, as JSON, has 2501 characters; SageMaker's limit is 2500",
    ]


def test_the_pure_python_yaml_reader_returns_the_same(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import yaml

    monkeypatch.setattr("gpuproof.jobs.yaml_file.reader._LOADER", yaml.SafeLoader)
    path = HERE / "broken" / "values" / "unknown_key.yaml"
    with pytest.raises(InvalidJob, match=r"unknown_key\.yaml:4: unknown key 'instance_typ' in job 'one'"):
        load(path)
    job = load(HERE / "valid" / "everything.yaml")
    assert job.framework_version == "2.10"
