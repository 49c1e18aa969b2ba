"""Finding and listing runs on EC2."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gpuproof.backends.aws import Aws, AwsRefused
from gpuproof.backends.ec2.launch_record import LaunchRecord
from gpuproof.backends.ec2.store import EC2RunStore
from gpuproof.backends.errors import AmbiguousRun
from gpuproof.backends.record import RunRecord
from gpuproof.backends.remote.s3_layout import LAUNCHES, RunLayout
from gpuproof.cli.main import main
from gpuproof.errors import GPUproofError, RunNotFound

pytestmark = pytest.mark.slow


def newer(ec2: Any) -> LaunchRecord:
    """A launch that a newer version of GPUproof has recorded."""
    launch = ec2.launch()
    content = launch.to_bytes().replace(b'"version": 1', b'"version": 9')
    ec2.aws.put_object(ec2.bucket, RunLayout(launch.run_id).launch, content)
    return launch


class TestFinding:
    def test_by_id_with_two_requests_to_s3_for_the_bucket_and_the_record(self, ec2: Any) -> None:
        launch = ec2.launch()
        ec2.end(launch)
        ec2.emulator.forget_requests()
        assert ec2.store().find(launch.run_id).id == launch.run_id
        assert "ListObjectsV2" not in ec2.emulator.operations("s3")[:2]

    def test_by_the_name_of_its_job_the_newest(self, ec2: Any) -> None:
        ec2.launch("mnist")
        newest = ec2.launch("mnist")
        ec2.launch("other")
        assert ec2.store().find("mnist").id == newest.run_id

    def test_by_a_name_that_is_too_long_for_an_id(self, ec2: Any) -> None:
        name = "a-name-that-is-much-too-long-for-the-id-of-a-run-on-aws"
        launch = ec2.launch(name)
        ec2.launch(f"{name}-2")
        assert ec2.store().find(name).id == launch.run_id

    def test_by_the_beginning_or_end_of_the_id(self, ec2: Any) -> None:
        launch = ec2.launch("resnet")
        store = ec2.store()
        assert store.find("resn").id == launch.run_id
        assert store.find(launch.run_id[-4:]).id == launch.run_id

    def test_several_matches_are_listed(self, ec2: Any) -> None:
        first, second = ec2.launch("bert-a"), ec2.launch("bert-b")
        with pytest.raises(AmbiguousRun, match="matches 2 runs") as caught:
            ec2.store().find("bert-")
        assert first.run_id in caught.value.message
        assert second.run_id in caught.value.message

    def test_without_a_name_the_newest(self, ec2: Any) -> None:
        ec2.launch(run_id="a-20260501-120000-ab12")
        newest = ec2.launch(run_id="a-20260502-090000-0000")
        assert ec2.store().find(None).id == newest.run_id

    @pytest.mark.parametrize("name", ["nothing", "train-20260501-120000-ffff", "no/job*name"])
    def test_an_unknown_name_names_the_region_and_the_bucket_variable(self, ec2: Any, name: str) -> None:
        ec2.launch()
        with pytest.raises(RunNotFound, match="on EC2 in us-east-1") as caught:
            ec2.store().find(name)
        assert "GPUPROOF_BUCKET" in str(caught.value.remedy)

    def test_without_any_run_it_says_how_to_start_one(self, ec2: Any) -> None:
        with pytest.raises(RunNotFound, match="There are no runs on EC2") as caught:
            ec2.store().find(None)
        assert "--on ec2" in str(caught.value.remedy)

    def test_a_removed_run_is_not_found_and_not_listed(self, ec2: Any) -> None:
        launch = ec2.launch()
        ec2.end(launch)
        store = ec2.store()
        store.run(store.find(launch.run_id)).remove()
        assert list(ec2.store().records()) == []
        with pytest.raises(RunNotFound):
            ec2.store().find(launch.run_id)


class TestBucket:
    def test_without_gpuproofs_bucket_there_are_no_runs_and_none_is_created(
        self, ec2: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.delenv("GPUPROOF_BUCKET")
        ec2.emulator.forget_requests()
        assert ec2.store().newest(20) == ([], 0)
        assert list(ec2.store().records()) == []
        assert "CreateBucket" not in ec2.emulator.operations()
        with pytest.raises(RunNotFound):
            ec2.store().find(None)

    def test_a_bucket_of_another_region_has_no_runs_of_this_one(
        self, ec2: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("GPUPROOF_BUCKET", f"{ec2.bucket}-eu")
        ec2.emulator.client("s3", "eu-west-1").create_bucket(
            Bucket=f"{ec2.bucket}-eu", CreateBucketConfiguration={"LocationConstraint": "eu-west-1"}
        )
        assert ec2.store().newest(20) == ([], 0)
        assert EC2RunStore(Aws(region="eu-west-1")).newest(20) == ([], 0)

    def test_one_that_may_not_be_listed_is_an_error(self, ec2: Any) -> None:
        ec2.emulator.faults("access-denied,service=s3,operation=ListObjectsV2")
        with pytest.raises(AwsRefused, match="AccessDenied"):
            ec2.store().newest(20)


class TestListing:
    def test_newest_first_with_state_cost_and_verdict(self, ec2: Any) -> None:
        done, running, reclaimed = ec2.launch("one"), ec2.launch("two"), ec2.launch("three", spot=True)
        ec2.end(done)
        ec2.boot(running)
        ec2.end(reclaimed, "Stopped", interrupted=True)
        listed = list(ec2.store().records())
        assert [(entry.job_name, entry.status, entry.verdict) for entry in listed] == [
            ("three", "Stopped", "used"),
            ("two", "InProgress", None),
            ("one", "Completed", "used"),
        ]
        assert all(entry.cost for entry in listed)

    def test_the_newest_and_older_ones_that_still_run(self, ec2: Any) -> None:
        oldest = ec2.launch("old")
        ec2.boot(oldest)
        for _ in range(3):
            ec2.end(ec2.launch(instances=0))
        records, left_out = ec2.store().newest(2)
        assert [record.job_name for record in records] == ["train", "train", "old"]
        assert left_out == 1

    def test_without_permission_to_describe_instances_they_are_listed(self, ec2: Any) -> None:
        launch = ec2.launch()
        ec2.boot(launch)
        ec2.emulator.faults("access-denied,service=ec2,operation=DescribeInstances")
        (record,) = ec2.store().records()
        assert (record.status, record.secondary_status) == ("InProgress", "Training")

    def test_other_files_below_the_prefix_are_ignored(self, ec2: Any) -> None:
        ec2.aws.put_object(ec2.bucket, f"{LAUNCHES}notes.txt", b"")
        ec2.aws.put_object(ec2.bucket, f"{LAUNCHES}folder/x.json", b"")
        assert list(ec2.store().records()) == []

    def test_a_record_of_a_newer_version_is_left_out_with_a_note(self, ec2: Any) -> None:
        launch, known = newer(ec2), ec2.launch()
        store = ec2.store()
        assert [record.id for record in store.records()] == [known.run_id]
        (note,) = store.notes
        assert f"{launch.run_id} is not listed" in note
        assert "another version" in note
        assert "Update GPUproof" in note
        with pytest.raises(GPUproofError, match="another version"):
            store.find(launch.run_id)

    def test_ps_prints_that_note(self, ec2: Any, capsys: pytest.CaptureFixture[str]) -> None:
        launch, known = newer(ec2), ec2.launch()
        assert main(["ps", "--on", "ec2"]) == 0
        printed = capsys.readouterr()
        assert f"gpuproof: {launch.run_id} is not listed" in printed.err
        assert known.run_id in printed.out
        assert main(["ps", "--on", "ec2", "--json"]) == 0
        document = json.loads(capsys.readouterr().out)
        assert launch.run_id in document["problem"]
        assert [run["id"] for run in document["runs"]] == [known.run_id]

    def test_of_many_runs_only_the_newest_are_read(self, ec2: Any) -> None:
        launch = ec2.launch(instances=0, created=time.time() - 9000)
        for number in range(200):
            ec2.write(replace(launch, run_id=f"many-20260601-12{number // 60:02}{number % 60:02}-0000"))
        ec2.emulator.forget_requests()
        records, left_out = ec2.store().newest(20)
        assert (len(records), left_out) == (20, 181)
        assert records[0].id == "many-20260601-120319-0000"
        # Per run its launch record and the two reports that it lacks; and the bucket, the listing, the instances.
        assert len(ec2.emulator.operations()) <= 3 * 20 + 5


class TestCache:
    """What cannot change any more is read once."""

    def listed(self, ec2: Any, cache: Path) -> tuple[list[RunRecord], int]:
        """The records, and the number of files that were read for them."""
        ec2.emulator.forget_requests()
        records = list(EC2RunStore(ec2.aws, cache=cache).records())
        return records, ec2.emulator.operations("s3").count("GetObject")

    def test_files_of_a_run_that_has_ended(self, ec2: Any, tmp_path: Path) -> None:
        launch, running = ec2.launch(), ec2.launch()
        ec2.end(launch)
        ec2.boot(running)
        first, reads = self.listed(ec2, tmp_path)
        assert reads == 3 + 3  # launch record and two reports; the run in progress has no end.json
        second, reads = self.listed(ec2, tmp_path)
        assert reads == 3
        assert [item.document for item in second if item.has_ended] == [
            item.document for item in first if item.has_ended
        ]

    def test_a_launch_record_that_was_changed_is_read_again(self, ec2: Any, tmp_path: Path) -> None:
        launch = ec2.launch()
        ec2.end(launch)
        self.listed(ec2, tmp_path)
        ec2.write(replace(launch, job_name="renamed"))
        (record,), _ = self.listed(ec2, tmp_path)
        assert record.job_name == "renamed"

    def test_a_run_whose_instance_was_reclaimed_is_read_again(self, ec2: Any, tmp_path: Path) -> None:
        launch = ec2.launch(spot=True)
        ec2.end(launch, "Stopped", interrupted=True)
        _, first = self.listed(ec2, tmp_path)
        assert self.listed(ec2, tmp_path)[1] == first

    def test_a_removed_run_is_forgotten(self, ec2: Any, tmp_path: Path) -> None:
        launch = ec2.launch()
        ec2.end(launch)
        self.listed(ec2, tmp_path)
        assert [path for path in tmp_path.rglob("*") if path.is_file()]
        ec2.look_at(launch).remove()
        assert self.listed(ec2, tmp_path) == ([], 0)
        assert not [path for path in tmp_path.rglob("*") if path.is_file()]

    @pytest.mark.parametrize("content", [b"", b"[]", b'{"version": 1, "etag": 3}', b"\xff"])
    def test_a_damaged_file_is_replaced(self, ec2: Any, tmp_path: Path, content: bytes) -> None:
        launch = ec2.launch()
        ec2.end(launch)
        self.listed(ec2, tmp_path)
        (file,) = (path for path in tmp_path.rglob("*") if path.is_file())
        file.write_bytes(content)
        (record,), reads = self.listed(ec2, tmp_path)
        assert (record.status, reads) == ("Completed", 3)
        assert self.listed(ec2, tmp_path)[1] == 0

    def test_a_folder_that_cannot_be_written_is_no_error(self, ec2: Any, tmp_path: Path) -> None:
        launch = ec2.launch()
        ec2.end(launch)
        file = tmp_path / "file"
        file.touch()
        assert len(self.listed(ec2, file)[0]) == 1
