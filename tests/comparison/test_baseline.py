"""The file with the baselines of a project."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuproof.comparison.baseline import BaselineFile
from gpuproof.comparison.measurements import RunMeasurements
from gpuproof.errors import GPUproofError, UsageError

RUN = RunMeasurements(
    "train-1", "train", "Completed", "used", {"step_s": 0.5}, {"step_s": (0.4, 0.6)}, {"torch": "2.13"}
)


def test_what_was_set_is_found_by_the_jobs_name(tmp_path: Path):
    file = BaselineFile(tmp_path / ".gpuproof" / "baseline.json")
    file.set("train", (RUN,))
    file.set("evaluate", (RUN, RUN))
    assert file.find(None, "train").runs == (RUN,)
    assert file.find("evaluate").runs == (RUN, RUN)
    file.set("train", (RUN, RUN))
    assert len(file.find("train").runs) == 2


def test_the_only_baseline_needs_no_name(tmp_path: Path):
    file = BaselineFile(tmp_path / "baseline.json")
    file.set("nightly", (RUN,))
    assert file.find(None, "train").name == "nightly"


def test_without_a_name_several_baselines_are_unclear(tmp_path: Path):
    file = BaselineFile(tmp_path / "baseline.json")
    file.set("one", (RUN,))
    file.set("two", (RUN,))
    with pytest.raises(UsageError, match="several baselines, and none of the job 'train'") as raised:
        file.find(None, "train")
    assert "one and two" in (raised.value.remedy or "")
    with pytest.raises(UsageError, match="no baseline 'three'"):
        file.find("three")


def test_the_file_goes_with_its_last_baseline(tmp_path: Path):
    file = BaselineFile(tmp_path / "baseline.json")
    file.set("one", (RUN,))
    file.set("two", (RUN,))
    file.remove("one")
    assert set(file.read()) == {"two"}
    file.remove(None)
    assert not file.path.exists()
    with pytest.raises(UsageError, match="There is no baseline"):
        file.remove(None)


def test_it_is_beside_the_job_file_also_for_a_folder_below(tmp_path: Path):
    (tmp_path / ".git").mkdir()
    project = tmp_path / "project"
    (project / "src").mkdir(parents=True)
    assert BaselineFile.of_project(project / "src").path == tmp_path / ".gpuproof" / "baseline.json"
    (project / "gpuproof.yaml").touch()
    path = project / ".gpuproof" / "baseline.json"
    assert BaselineFile.of_project(project / "src").path == path
    BaselineFile(path).set("train", (RUN,))
    assert BaselineFile.of_project(project / "src").path == path


def test_a_file_of_another_repository_above_is_not_taken(tmp_path: Path):
    BaselineFile(tmp_path / ".gpuproof" / "baseline.json").set("train", (RUN,))
    repository = tmp_path / "repository"
    (repository / ".git").mkdir(parents=True)
    assert BaselineFile.of_project(repository).path == repository / ".gpuproof" / "baseline.json"


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        "{}",
        '{"version": 2, "baselines": {}}',
        '{"version": 1, "baselines": {"a": {"set": "", "runs": []}}}',
    ],
)
def test_what_is_no_file_of_baselines_is_an_error_and_is_kept(content: str, tmp_path: Path):
    file = BaselineFile(tmp_path / "baseline.json")
    file.path.write_text(content)
    with pytest.raises(GPUproofError):
        file.set("train", (RUN,))
    assert file.path.read_text() == content
