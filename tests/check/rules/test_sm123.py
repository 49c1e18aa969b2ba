"""SM123: entry points and source folders that do not exist."""

from pathlib import Path

import pytest

from gpuproof.findings import Severity
from gpuproof.linter.rule import Hit
from support.check_helpers import check_here, write_files

LAUNCH = """
from sagemaker.pytorch import PyTorch
PyTorch({arguments}, instance_count=1, instance_type="ml.g5.xlarge").fit()
"""


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def hits_of(here: Path, arguments: str, launcher: str = "launch.py", **files: str) -> list[Hit]:
    write_files(here, {name.replace("__", "/") + ".py": text for name, text in files.items()})
    write_files(here, {launcher: LAUNCH.format(arguments=arguments)})
    return list(check_here(select=("SM123",)).hits)


@pytest.mark.parametrize(
    ("arguments", "remedy"),
    [
        ('entry_point="trian.py"', "Did you mean train.py?"),
        ('entry_point="trian.py", source_dir="."', "Did you mean train.py?"),
        ('entry_point="trian.py", source_dir="src"', "Did you mean train.py?"),
        ('entry_point="src/trian.py"', "Did you mean train.py?"),
        ('entry_point="fit.py"', 'It is in src/: set source_dir="src".'),
        ('entry_point="other.py", source_dir="src"', "Correct entry_point, or move the script there."),
    ],
)
def test_a_misspelt_entry_point_is_an_error(here: Path, arguments: str, remedy: str) -> None:
    (hit,) = hits_of(here, arguments, train="", src__train="", src__fit="")
    assert hit.finding.severity is Severity.ERROR
    assert hit.finding.remedy == remedy
    assert "does not exist in" in hit.finding.message


@pytest.mark.parametrize(
    ("files", "remedy"),
    [
        ({"src__train": ""}, '`train.py` is in src/: set source_dir="src".'),
        ({"train": ""}, '`train.py` is next to the launcher: set source_dir=".", or remove it.'),
        ({"codes__x": ""}, "Did you mean codes?"),
    ],
)
def test_a_missing_source_dir_is_an_error_if_the_script_or_a_similar_folder_exists(
    here: Path, files: dict[str, str], remedy: str
) -> None:
    (hit,) = hits_of(here, 'entry_point="train.py", source_dir="code"', **files)
    assert hit.finding.severity is Severity.ERROR
    assert hit.finding.message.startswith("The folder `code` (source_dir) does not exist")
    assert hit.finding.remedy == remedy


def test_a_missing_source_dir_is_a_warning_in_a_repository_and_a_note_elsewhere(here: Path) -> None:
    arguments = 'entry_point="train.py", source_dir="code"'
    assert [hit.finding.severity for hit in hits_of(here, arguments)] == [Severity.NOTE]
    (here / ".git").mkdir()
    assert [hit.finding.severity for hit in hits_of(here, arguments)] == [Severity.WARNING]


def test_folders_above_the_launcher_count(here: Path) -> None:
    arguments = 'entry_point="train.py", source_dir="src"'
    assert hits_of(here, arguments, "tools/aws/launch.py", src__train="") == []
    (hit,) = hits_of(here, arguments.replace("train", "trian"), "tools/aws/launch.py", src__train="")
    assert hit.finding.remedy == "Did you mean train.py?"


def test_folders_above_the_repository_do_not_count(here: Path) -> None:
    (here / "repository" / ".git").mkdir(parents=True)
    files = {"outside": "", "repository__src__outside": ""}
    (hit,) = hits_of(here, 'entry_point="outside.py"', "repository/launch.py", **files)
    assert hit.finding.remedy == 'It is in src/: set source_dir="src".'


def test_the_code_of_a_processing_job_counts(here: Path) -> None:
    launch = """
        from sagemaker.sklearn import SKLearnProcessor
        processor = SKLearnProcessor(instance_type="ml.m5.xlarge", instance_count=1, framework_version="1.2-1")
        processor.run(code="preproces.py")
    """
    write_files(here, {"launch.py": launch, "preprocess.py": ""})
    (hit,) = check_here(select=("SM123",)).hits
    assert hit.finding.remedy == "Did you mean preprocess.py?"


@pytest.mark.parametrize(
    "arguments",
    [
        'entry_point="train.py"',
        'entry_point="s3://bucket/train.py"',
        'entry_point="/opt/train.py"',
        'entry_point="trian.py", source_dir="s3://bucket/code.tar.gz"',
        'entry_point="trian.py", git_config={"repo": "https://example.com/r.git"}',
        'entry_point=name, source_dir="src"',
        'entry_point="trian.py", source_dir=folder',
        'entry_point="run.sh", source_dir="src"',
    ],
)
def test_nothing_is_said_where_it_is_not_certain(here: Path, arguments: str) -> None:
    assert hits_of(here, arguments, train="", src__other="") == []


def test_a_script_that_the_launcher_writes_may_exist_later(here: Path) -> None:
    write = 'open("trian.py", "w").write("")\n'
    launch = LAUNCH.format(arguments='entry_point="trian.py"')
    write_files(here, {"launch.py": write + launch, "train.py": ""})
    assert check_here(select=("SM123",)).hits == ()


def test_a_gpuproof_yaml_is_reported_with_the_message_of_run(here: Path) -> None:
    write_files(here, {"a/gpuproof.yaml": "entry_point: trian.py\n", "a/train.py": ""})
    write_files(here, {"b/gpuproof.yaml": "entry_point: train.py\nsource_dir: srcc\n", "b/src/train.py": ""})
    first, second = check_here(select=("E901",)).hits
    assert first.finding.message.endswith("did you mean 'train.py'?")
    assert second.finding.message.startswith("'source_dir': the folder ")
    assert second.finding.location is not None
    assert (second.finding.location.line, second.finding.severity) == (2, Severity.ERROR)


def test_an_endpoint_has_the_repository_of_its_estimator(here: Path) -> None:
    arguments = 'entry_point="t.py", source_dir="examples/x", git_config={"repo": "r"}, role="r"'
    text = (LAUNCH.format(arguments=arguments) + "\n").replace(".fit()", "")
    text = text.replace("\nPyTorch(", "\nestimator = PyTorch(")
    write_files(here, {"launch.py": text + 'estimator.fit()\nestimator.deploy(1, "ml.g5.xlarge")\n'})
    assert list(check_here(select=("SM123",)).hits) == []
