"""What a run's record says of its code and inputs."""

from pathlib import Path
from typing import Any

import pytest

from gpuproof.backends.agent_job.provenance import input_address, provenance
from gpuproof.backends.remote.planning.job_files import collect_source, split_inputs
from gpuproof.backends.remote.upload.upload_plan import plan_uploads
from gpuproof.jobs.models.script_jobs import TrainingJob
from gpuproof.jobs.source.digests import folder_digest, tree_digest
from gpuproof.jobs.source.tree import collect


@pytest.fixture
def source(tmp_path: Path) -> Path:
    (tmp_path / "source" / "data").mkdir(parents=True)
    (tmp_path / "source" / "train.py").write_text("1\n")
    (tmp_path / "source" / "data" / "x.csv").write_text("2\n")
    return tmp_path / "source"


def job(source: Path, **keys: Any) -> TrainingJob:
    return TrainingJob(entry_point="train.py", source_dir=str(source), **keys)


def test_code_is_digested_without_inputs_in_its_folder(source: Path):
    with_data = job(source, inputs={"training": str(source / "data")})
    found = provenance(with_data, collect_source(with_data), {})
    (source / "data" / "x.csv").write_text("3\n")
    assert provenance(with_data, collect_source(with_data), {}) == found
    assert found["code"]["files"] == 1
    assert found["selection"]["exclude"] == ["data"]


def test_the_selection_is_enough_to_find_the_same_files_again(source: Path):
    (source / ".gitignore").write_text("*.bin\nlogs/\n")
    (source / "weights.bin").write_text("w\n")
    (source / "logs").mkdir()
    (source / "logs" / "1.txt").write_text("l\n")
    sent = job(source, inputs={"training": str(source / "data")}, include=("weights.bin",))
    found = provenance(sent, collect_source(sent), {})
    selection = found["selection"]
    again = collect(
        source,
        selection["entry_point"],
        exclude=[source / name for name in selection["exclude"]],
        include=selection["include"],
        respect_gitignore=selection["respect_gitignore"],
    )
    assert tree_digest(again).to_json() == found["code"]


def test_uploaded_inputs_have_the_digest_of_their_folder_and_others_their_address(
    source: Path, tmp_path: Path
):
    sent = job(source, inputs={"training": str(source / "data"), "test": "s3://bucket/test/"})
    uploads = plan_uploads(collect_source(sent), *split_inputs(sent), tmp_path / "cache")
    assert uploads.manifest() == {
        "training": folder_digest(source / "data").to_json(),
        "test": {"uri": "s3://bucket/test/"},
    }
    assert input_address(sent, "test") == "s3://bucket/test/"
    assert input_address(sent, "training") is None
