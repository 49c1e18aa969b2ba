"""A run on SageMaker as an object, on real jobs: its results, verdict, explanations and removal."""

from __future__ import annotations

import io
import itertools
import json
import time
from pathlib import Path
from typing import Any

import pytest

from gpuproof.backends.base import Notice
from gpuproof.errors import GPUproofError, RunNotFound, UsageError
from gpuproof.jobs.models.script_jobs import ProcessingJob, TrainingJob
from support.archives import archive

pytestmark = pytest.mark.slow

SAVES = """
open('/opt/ml/model/w', 'w').write('weights')
open('/opt/ml/output/data/metrics.json', 'w').write('{}')
print('saved')
"""
PROCESSES = "import os\nopen('/opt/ml/processing/rows/a.csv', 'w').write('1')\nprint('done')\n"

KILLS_ITS_AGENT = """
import os, signal, time
pid, found = os.getppid(), []
while "gpuproof-agent.pyz" in open(f"/proc/{pid}/cmdline").read():
    found.append(pid)
    pid = int(open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()[1])
# The agent first: it has a verdict as soon as its reaper is gone.
for pid in reversed(found):
    os.kill(pid, signal.SIGKILL)
time.sleep(600)
"""


def files(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


class TestPulling:
    def test_archives_verdict_and_logs_come_home(self, aws: Any, tmp_path: Path) -> None:
        run = aws.ended(SAVES)
        names: list[str] = []
        made = run.pull(tmp_path / "out", progress=lambda name, *_: names.append(name))
        assert [path.name for path in made] == ["model.tar.gz", "output.tar.gz", "verdict.json", "algo-1.log"]
        assert files(tmp_path / "out") == sorted(path.name for path in made)
        assert (tmp_path / "out" / "algo-1.log").read_text() == "saved\n"
        assert json.loads((tmp_path / "out" / "verdict.json").read_text()) == run.verdict
        assert set(names) == {"model.tar.gz", "output.tar.gz"}

    def test_unpacked_they_are_folders(self, aws: Any, tmp_path: Path) -> None:
        aws.ended(SAVES).pull(tmp_path, extract=True)
        assert (tmp_path / "model" / "w").read_text() == "weights"
        assert (tmp_path / "output" / "metrics.json").read_text() == "{}"

    def test_each_host_has_its_own_log(self, aws: Any, tmp_path: Path) -> None:
        run = aws.ended("import os\nprint(os.environ['SM_CURRENT_HOST'])", hosts=2)
        run.pull(tmp_path)
        assert (tmp_path / "algo-1.log").read_text() == "algo-1\n"
        assert (tmp_path / "algo-2.log").read_text() == "algo-2\n"

    def test_outputs_of_a_processing_job_are_folders(self, aws: Any, tmp_path: Path) -> None:
        run = aws.ended(PROCESSES, kind="processing")
        assert [path.name for path in run.pull(tmp_path)] == ["rows", "verdict.json", "algo-1.log"]
        assert (tmp_path / "rows" / "a.csv").read_text() == "1"
        assert run.verdict["outcome"] == "no-gpu-expected"

    def test_an_archive_that_leads_out_is_refused_and_nothing_lands_outside(
        self, aws: Any, tmp_path: Path
    ) -> None:
        run = aws.ended(SAVES)
        location = run.artifacts()[0].location
        key = location.removeprefix(f"s3://{aws.jobs.bucket}/")
        aws.aws.put_object(aws.jobs.bucket, key, archive(**{"fine": b"1", "../../escaped": b"2"}))
        with pytest.raises(GPUproofError, match=r"\.\./\.\./escaped"):
            run.pull(tmp_path / "a" / "b", extract=True)
        assert files(tmp_path) == []

    def test_one_that_goes_on_is_refused(self, running: Any, tmp_path: Path) -> None:
        with pytest.raises(UsageError, match="is still running") as caught:
            running.pull(tmp_path / "out")
        assert caught.value.remedy == f"gpuproof wait {running.id}"
        assert not (tmp_path / "out").exists()

    def test_a_file_in_the_way_is_named(self, aws: Any, tmp_path: Path) -> None:
        (tmp_path / "out").touch()
        with pytest.raises(GPUproofError, match="could not be written"):
            aws.ended(SAVES).pull(tmp_path / "out")

    def test_a_lost_connection_in_the_middle_is_not_noticed(self, aws: Any, tmp_path: Path) -> None:
        run = aws.ended("import os\nopen('/opt/ml/model/w', 'wb').write(os.urandom(3_000_000))")
        aws.emulator.faults("drop,service=s3,operation=GetObject,count=2")
        run.pull(tmp_path, extract=True)
        assert (tmp_path / "model" / "w").stat().st_size == 3_000_000

    def test_results_go_into_the_folders_that_a_job_names(self, aws: Any, tmp_path: Path) -> None:
        run = aws.ended(SAVES)
        run.deliver(TrainingJob(entry_point="train.py", output=str(tmp_path / "out")))
        assert files(tmp_path / "out") == [
            f"{run.id}/output/model.tar.gz",
            f"{run.id}/output/output.tar.gz",
        ]
        processed = aws.ended(PROCESSES, kind="processing")
        processed.deliver(
            ProcessingJob(
                entry_point="prep.py",
                outputs={"rows": str(tmp_path / "rows"), "absent": str(tmp_path / "absent")},
            )
        )
        assert files(tmp_path / "rows") == ["a.csv"]
        assert not (tmp_path / "absent").exists()


class TestVerdict:
    def test_there_is_none_while_it_runs(self, running: Any) -> None:
        assert running.verdict is None

    def test_without_the_archive_the_log_has_it(self, aws: Any) -> None:
        run = aws.ended(SAVES)
        aws.aws.delete_objects(aws.jobs.bucket, aws.keys(f"gpuproof/runs/{run.id}/output/"))
        assert run.verdict["outcome"] == "no-gpu-expected"

    def test_a_missing_verdict_is_noted_in_the_record(self, aws: Any) -> None:
        run = aws.ended(KILLS_ITS_AGENT, tags={"gpuproof:require-gpu": "true"})
        assert run.verdict is None
        assert any("no verdict" in note for note in run.record.notes)

    def test_a_bucket_that_may_not_be_read_leaves_the_log(self, aws: Any) -> None:
        run = aws.ended(SAVES)
        aws.emulator.faults("access-denied,service=s3")
        assert run.verdict["outcome"] == "no-gpu-expected"

    def test_notes_and_exit_code_are_what_the_agent_saw(self, aws: Any) -> None:
        run = aws.ended("import os, signal\nos.kill(os.getpid(), signal.SIGKILL)")
        assert run.record.exit_code == 137


class TestExplaining:
    def test_a_failure_is_explained_by_the_log_and_by_the_instance(self, aws: Any) -> None:
        printed = "RuntimeError: CUDA error: no kernel image is available for execution on the device"
        run = aws.ended(f"raise {printed[:12]}({printed[14:]!r})", instance="ml.p3.2xlarge")
        explained = run.explanations()
        assert explained
        assert explained[0].log == "algo-1"
        assert explained[0].line

    def test_a_run_that_completed_has_none(self, aws: Any) -> None:
        assert aws.ended("").explanations() == ()

    def test_no_capacity_is_explained_by_awss_reason_alone(self, aws: Any) -> None:
        aws.emulator.faults("capacity,count=1")
        run = aws.ended("")
        assert run.record.status == "Failed"
        assert "CapacityError" in run.record.failure_reason
        (explained,) = run.explanations()
        assert explained.code == "sagemaker-capacity"
        assert explained.here == "Requested type: ml.g5.xlarge in us-east-1."
        assert "the job never started" in run.record.notes[-1]


class TestRemoving:
    def test_its_prefix_goes_and_a_model_elsewhere_stays(self, aws: Any) -> None:
        bucket = aws.emulator.bucket(f"models-{time.time_ns()}")
        run = aws.ended(SAVES, output=f"s3://{bucket}/models")
        other = aws.ended(SAVES)
        printed = run.remove()
        assert aws.keys(f"gpuproof/runs/{run.id}/") == []
        assert aws.keys(bucket=bucket) == [
            f"models/{run.id}/output/model.tar.gz",
            f"models/{run.id}/output/output.tar.gz",
        ]
        assert aws.keys(f"gpuproof/runs/{other.id}/") != []
        assert "SageMaker keeps its record of the job" in printed

    def test_one_that_goes_on_is_refused(self, aws: Any, running: Any) -> None:
        with pytest.raises(UsageError, match="is still running") as caught:
            running.remove()
        assert caught.value.remedy == f"gpuproof stop {running.id}"
        assert aws.keys(f"gpuproof/runs/{running.id}/") != []

    def test_a_job_that_gpuproof_did_not_create_is_refused(self, aws: Any) -> None:
        run = aws.ended("", tags={"gpuproof:run": "another"})
        with pytest.raises(UsageError, match="was not created by GPUproof"):
            run.remove()


class TestDescribing:
    def test_everything_printed_so_far_can_be_written_down(self, aws: Any) -> None:
        run = aws.ended("print('one')\nprint('two')")
        sink = io.BytesIO()
        assert run.write_log(sink) == len(sink.getvalue())
        assert sink.getvalue().decode() == "one\ntwo\n"

    def test_output_before_a_time_is_left_out_but_counted(self, aws: Any) -> None:
        run = aws.ended("print('one')")
        old, new = io.BytesIO(), io.BytesIO()
        assert run.write_log(old, since=time.time() + 3600) == 4
        assert run.write_log(new, since=time.time() - 3600) == 4
        assert (old.getvalue(), new.getvalue()) == (b"", b"one\n")

    def test_it_has_the_address_of_the_console(self, aws: Any) -> None:
        run = aws.ended("")
        assert run.address == (
            f"https://us-east-1.console.aws.amazon.com/sagemaker/home?region=us-east-1#/jobs/{run.id}"
        )
        processed = aws.ended(PROCESSES, kind="processing")
        assert processed.address.endswith(f"#/processing-jobs/{processed.id}")

    def test_a_job_that_is_not_there_names_the_region(self, aws: Any) -> None:
        with pytest.raises(RunNotFound, match="us-east-1"):
            _ = aws.look_at("nothing").record

    def test_reading_an_ended_run_takes_one_request(self, aws: Any) -> None:
        run = aws.ended("")
        _ = run.record
        aws.emulator.forget_requests()
        assert [run.record.status for _ in itertools.repeat(None, 3)] == ["Completed"] * 3
        assert aws.emulator.operations() == []

    def test_a_notice_is_a_sentence(self) -> None:
        assert Notice("AWS answers again.").text


def test_its_text_form_makes_no_request_and_its_html_form_shows_the_end(aws: Any) -> None:
    run = aws.ended("print('done')")
    aws.emulator.forget_requests()
    again = aws.look_at(run.id)
    assert repr(again) == f"<SageMakerRun {run.id}>"
    assert aws.emulator.operations() == []
    page = again._repr_html_()
    assert "<td" in page
    assert "Completed" in page
    assert f'<a href="{again.address.replace("&", "&amp;")}"' in page
    assert repr(again) == f"<SageMakerRun {run.id}: Completed, GPU no-gpu-expected>"
