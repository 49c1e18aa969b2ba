"""Runs on SageMaker: found by their tags and listed in a few calls."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from gpuproof.backends.aws import Aws, AwsRefused
from gpuproof.backends.errors import AmbiguousRun
from gpuproof.backends.sagemaker import store
from gpuproof.backends.sagemaker.store import SageMakerRunStore
from gpuproof.errors import RunNotFound
from support.aws_emulator import running_emulator
from support.cli_sandbox import until
from support.container_jobs import Jobs

pytestmark = pytest.mark.slow

FOREVER = "import time\nprint('ready', flush=True)\ntime.sleep(600)\n"


@pytest.fixture
def runs(aws: Any) -> SageMakerRunStore:
    return SageMakerRunStore(aws.aws)


class StaleSearch(Aws):
    """Its Search knows an older state than its lists, as SageMaker's may for some seconds."""

    def search_training_jobs(self, tag: str) -> Iterator[dict[str, Any]]:
        for job in super().search_training_jobs(tag):
            yield {**job, "TrainingJobStatus": "InProgress", "BillableTimeInSeconds": 99_999}


class TestFinding:
    def test_a_whole_id_finds_training_and_processing_jobs(self, aws: Any, runs: SageMakerRunStore) -> None:
        train = aws.ended("")
        process = aws.ended("", kind="processing")
        assert runs.find(train.id).kind == "training"
        assert runs.find(process.id).kind == "processing"
        assert runs.run(runs.find(process.id)).id == process.id

    def test_a_jobs_name_finds_its_newest_run(self, aws: Any, runs: SageMakerRunStore) -> None:
        aws.ended("", name="twice")
        newest = aws.ended("", name="twice")
        assert runs.find("twice").id == newest.id

    def test_beginning_and_end_of_an_id_do(self, aws: Any, runs: SageMakerRunStore) -> None:
        run = aws.ended("", name="beginning")
        assert runs.find("beginning-2026").id == run.id
        assert runs.find(run.id[-9:]).id == run.id

    def test_several_meanings_are_listed(self, aws: Any, runs: SageMakerRunStore) -> None:
        several = [aws.ended("", name="several").id for _ in range(2)]
        with pytest.raises(AmbiguousRun) as caught:
            runs.find("several-2026")
        assert all(run_id in caught.value.message for run_id in several)

    def test_without_a_name_the_newest_is_meant(self, aws: Any, runs: SageMakerRunStore) -> None:
        newest = aws.ended("", name="newest")
        assert runs.find(None).id == newest.id

    def test_a_job_that_gpuproof_did_not_make_is_found_by_its_whole_name(
        self, aws: Any, runs: SageMakerRunStore
    ) -> None:
        run = aws.ended("print('hello')")
        described = aws.aws.describe_job("training", run.id)
        asked = ("AlgorithmSpecification", "RoleArn", "InputDataConfig", "OutputDataConfig", "ResourceConfig")
        request = {name: described[name] for name in (*asked, "StoppingCondition")}
        aws.emulator.client("sagemaker").create_training_job(TrainingJobName="unrelated", **request)
        found = runs.run(runs.find("unrelated"))
        assert found.wait().job_name == "unrelated"
        assert "unrelated" not in [record.id for record in runs.records()]

    @pytest.mark.parametrize("name", ["nothing", "train-20260501-120000-ffff", "no/job*name"])
    def test_an_unknown_name_names_the_searched_region(self, runs: SageMakerRunStore, name: str) -> None:
        with pytest.raises(RunNotFound, match="us-east-1"):
            runs.find(name)


class TestListing:
    def test_newest_first_with_what_lists_and_tags_say(self, aws: Any, runs: SageMakerRunStore) -> None:
        first = aws.ended("", name="listed")
        second = aws.ended("raise SystemExit(1)", name="listed", kind="processing", hosts=2)
        listed = [record for record in runs.records() if record.job_name == "listed"]
        assert [(entry.id, entry.kind, entry.status) for entry in listed] == [
            (second.id, "processing", "Failed"),
            (first.id, "training", "Completed"),
        ]
        assert (listed[0].instance_type, listed[0].instance_count) == ("ml.g5.xlarge", 2)

    def test_runs_that_go_on_have_their_cost_so_far(self, aws: Any, runs: SageMakerRunStore) -> None:
        run = aws.start(FOREVER, name="goes-on")
        next(event for event in run.follow() if hasattr(event, "content"))
        (record,) = [record for record in runs.records() if record.id == run.id]
        assert (record.secondary_status, record.cost is not None) == ("Training", True)
        run.stop()

    def test_training_jobs_that_have_ended_have_their_bill(self, aws: Any, runs: SageMakerRunStore) -> None:
        aws.ended("", name="billed")
        (record,) = [record for record in runs.records() if record.job_name == "billed"]
        assert record.billed_seconds
        assert record.cost
        assert record.seconds(0.0) is not None

    def test_processing_jobs_too(self, aws: Any, runs: SageMakerRunStore) -> None:
        aws.ended("", name="processed", kind="processing")
        (record,) = [record for record in runs.records() if record.job_name == "processed"]
        assert (record.billed_seconds is not None, record.cost is not None) == (True, True)

    @pytest.mark.parametrize("kind", ["training", "processing"])
    def test_the_verdict_is_in_the_tags_once_a_command_has_read_it(
        self, aws: Any, runs: SageMakerRunStore, kind: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        # The other runs of this account have not been looked at.
        monkeypatch.setattr(store, "_UNREAD", 0)
        name = f"judged-{kind}"
        run = aws.ended("", name=name, kind=kind)
        outcome = run.record.verdict
        assert outcome is not None
        aws.emulator.forget_requests()
        (record,) = [record for record in runs.records() if record.job_name == name]
        assert (record.verdict, record.gpu_requirement_met) == (outcome, run.record.gpu_requirement_met)
        assert aws.emulator.operations("s3") == []

    def test_a_listing_reads_the_verdict_of_a_run_that_no_command_has_looked_at_once(self, aws: Any) -> None:
        run = aws.start("", name="detached")

        def is_over() -> bool:
            return aws.aws.describe_job("training", run.id)["TrainingJobStatus"] == "Completed"

        until(is_over, "the end of the run")
        (first,) = [record for record in SageMakerRunStore(Aws()).records() if record.id == run.id]
        assert first.verdict is not None
        aws.emulator.faults("access-denied,operation=GetObject")
        (again,) = [record for record in SageMakerRunStore(Aws()).records() if record.id == run.id]
        assert again.verdict == first.verdict

    def test_without_leave_to_search_they_are_listed_without_it(
        self, aws: Any, runs: SageMakerRunStore
    ) -> None:
        run = aws.ended("", name="unbilled")
        aws.emulator.faults("access-denied,operation=Search")
        (record,) = [record for record in runs.records() if record.id == run.id]
        assert (record.status, record.cost, record.instance_type) == ("Completed", None, "ml.g5.xlarge")

    def test_a_search_that_is_behind_the_list_is_not_believed(self, aws: Any) -> None:
        run = aws.ended("", name="behind")
        (record,) = [record for record in SageMakerRunStore(StaleSearch()).records() if record.id == run.id]
        assert (record.status, record.billed_seconds) == ("Completed", None)

    def test_removed_runs_are_not_listed(self, aws: Any, runs: SageMakerRunStore) -> None:
        run = aws.ended("", name="removed")
        run.remove()
        assert run.id not in [record.id for record in runs.records()]
        assert runs.find(run.id).status == "Completed"

    def test_what_aws_refuses_is_an_error(self, aws: Any, runs: SageMakerRunStore) -> None:
        aws.emulator.faults("access-denied,operation=GetResources")
        with pytest.raises(AwsRefused, match="AccessDenied"):
            list(runs.records())


def test_two_hundred_runs_take_a_few_calls(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path_factory.mktemp("many")
    with running_emulator(folder) as emulator:
        for name, value in emulator.credentials.items():
            monkeypatch.setenv(name, value)
        jobs = Jobs(emulator, folder)
        # Without capacity none of them runs: two hundred interpreters would take minutes.
        emulator.faults("capacity")
        made = [jobs.start("", name="many", send=False) for _ in range(200)]
        runs = SageMakerRunStore(Aws())
        aws = Aws()

        def over() -> bool:
            return all(
                list_job["TrainingJobStatus"] != "InProgress" for list_job in aws.list_jobs("training")
            )

        until(over, "the end of all runs")
        emulator.forget_requests()
        assert {record.id for record in runs.records()} == set(made)
        assert len(emulator.operations()) <= 10
        emulator.forget_requests()
        newest, older = runs.newest(20)
        assert (len(newest), older) == (20, 180)
        assert {record.id for record in newest} == set(made[-20:])
        assert len(emulator.operations()) <= 10
