"""Planning a run on this machine."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gpuproof.backends.local import plan as planning
from gpuproof.backends.local.plan import plan_run
from gpuproof.backends.s3_inputs.mapping import S3Prefix
from gpuproof.errors import ExitCode, GpuRequired, InvalidJob, UsageError
from gpuproof.jobs.models.script_jobs import ProcessingJob, TrainingJob

Script = Callable[[str], Path]


@pytest.fixture
def no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planning, "count_gpus", lambda: 0)


def job(script: Path, **keys: Any) -> TrainingJob:
    return TrainingJob(entry_point=script.name, source_dir=str(script.parent), **keys)


class TestPlanning:
    def test_nothing_is_made(self, script: Script, tmp_path: Path) -> None:
        before = sorted(tmp_path.rglob("*"))
        plan_run(job(script("")))
        assert sorted(tmp_path.rglob("*")) == [
            *before,
            tmp_path / "project",
            tmp_path / "project" / "train.py",
        ]

    def test_the_interpreter_is_decided(self, script: Script) -> None:
        assert plan_run(job(script(""))).python == sys.executable

    @pytest.mark.usefixtures("no_gpu")
    def test_a_gpu_that_does_not_exist_is_rejected_with_the_nearest(self, script: Script) -> None:
        with pytest.raises(InvalidJob, match="requests the GPU A10,") as caught:
            plan_run(job(script(""), resources={"gpu": "A10:1"}, require_gpu=False))
        assert "A10G" in str(caught.value.remedy)

    def test_a_gpu_that_aws_lacks_may_be_that_of_this_machine(
        self, script: Script, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(planning, "count_gpus", lambda: 1)
        assert plan_run(job(script(""), resources={"gpu": "RTX-4090:1"})).gpus_here == 1

    @pytest.mark.usefixtures("no_gpu")
    def test_a_required_gpu_must_be_here(self, script: Script) -> None:
        with pytest.raises(GpuRequired, match="but the NVIDIA driver shows none on this machine") as caught:
            plan_run(job(script(""), require_gpu=True))
        assert caught.value.exit_code == ExitCode.GPU_UNUSED
        assert "--no-require-gpu" in str(caught.value.remedy)

    @pytest.mark.usefixtures("no_gpu")
    def test_a_gpu_that_is_only_requested_need_not_be_present(self, script: Script) -> None:
        planned = plan_run(job(script(""), instance_type="ml.g5.xlarge"))
        assert (planned.expected.count, planned.gpus_here) == (1, 0)

    def test_requiring_a_gpu_of_a_type_without_one_contradicts_itself(self, script: Script) -> None:
        with pytest.raises(InvalidJob, match=r"requires a GPU, but instance_type: ml\.m5\.large has no GPU"):
            plan_run(job(script(""), require_gpu=True, instance_type="ml.m5.large"))

    def test_an_input_that_is_not_there_is_named(self, script: Script, tmp_path: Path) -> None:
        with pytest.raises(InvalidJob, match=f"Input 'training'.*{tmp_path}/rows") as caught:
            plan_run(job(script(""), inputs={"training": str(tmp_path / "rows")}))
        assert caught.value.remedy == "--input training=FOLDER"

    def test_an_input_on_s3_is_not_looked_for(self, script: Script) -> None:
        planned = plan_run(job(script(""), inputs={"training": "s3://rows/data"}))
        assert planned.sources == {"training": S3Prefix("rows", "data")}
        assert planned.remote_inputs == planned.sources

    def test_a_processing_input_on_s3_is_not_looked_for(self, script: Script) -> None:
        path = script("")
        clean = ProcessingJob(
            entry_point=path.name,
            source_dir=str(path.parent),
            inputs={"/opt/ml/processing/input": "s3://rows/data"},
        )
        assert plan_run(clean).remote_inputs == {"/opt/ml/processing/input": S3Prefix("rows", "data")}

    def test_a_linked_input_is_followed(self, script: Script, tmp_path: Path) -> None:
        (tmp_path / "rows").mkdir()
        (tmp_path / "link").symlink_to("rows")
        planned = plan_run(job(script(""), inputs={"training": str(tmp_path / "link")}))
        assert planned.sources == {"training": tmp_path / "rows"}

    def test_inputs_below_the_source_folder_do_not_travel_twice(self, script: Script) -> None:
        path = script("")
        (path.parent / "rows").mkdir()
        (path.parent / "rows" / "a.csv").touch()
        planned = plan_run(job(path, inputs={"training": str(path.parent / "rows")}))
        assert [file.relative for file in planned.tree.files] == ["train.py"]

    def test_what_gpuproof_keeps_below_the_source_folder_does_not_travel(
        self, script: Script, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        path = script("")
        for variable, name in (("GPUPROOF_STATE_DIR", "state"), ("GPUPROOF_CACHE_DIR", "cache")):
            monkeypatch.setenv(variable, str(path.parent / name))
            (path.parent / name).mkdir()
            (path.parent / name / "old").touch()
        assert [file.relative for file in plan_run(job(path)).tree.files] == ["train.py"]

    def test_a_file_that_looks_like_a_secret_is_copied_and_named(self, script: Script) -> None:
        path = script("")
        (path.parent / ".env").write_text("X=1")
        planned = plan_run(job(path))
        assert planned.files() == [(".env", 3), ("train.py", 0)]
        assert ".env looks like a secret: copied for this run, but not uploaded to AWS" in planned.warnings
        assert planned.document()["files"] == [{"name": ".env", "bytes": 3}, {"name": "train.py", "bytes": 0}]
        assert plan_run(job(path, include=[".env"])).warnings == ()

    def test_what_gitignore_lists_does_not_travel(self, script: Script) -> None:
        path = script("")
        (path.parent / ".env").write_text("X=1")
        (path.parent / ".gitignore").write_text(".env*\n")
        assert [name for name, _ in plan_run(job(path)).files()] == [".gitignore", "train.py"]
        assert len(plan_run(job(path, include=[".env"])).files()) == 3
        assert len(plan_run(job(path, respect_gitignore=False)).files()) == 3

    def test_an_interpreter_that_is_not_there_is_refused(self, script: Script) -> None:
        with pytest.raises(UsageError, match="--python /nowhere"):
            plan_run(job(script("")), python="/nowhere")
