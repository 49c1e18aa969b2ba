"""Which earlier run's checkpoints a job resumes from, in a fake account in memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

from gpuproof.backends.aws import Aws, S3Object
from gpuproof.backends.sagemaker.planning.resume import EarlierCheckpoints, find_earlier_checkpoints
from gpuproof.jobs import TrainingJob

BUCKET = "runs"
ARN = "arn:aws:sagemaker:us-east-1:123456789012:training-job/"
JOB = TrainingJob(entry_point="train.py", source_dir=".", name="train")


class Account(Aws):
    """Training jobs, and the runs whose checkpoints are there.

    Args:
        jobs: name and status, the newest first.
        tags: of each run, by its name.
        checkpoints: the names of runs that left some.
    """

    def __init__(
        self, jobs: Sequence[tuple[str, str]], tags: dict[str, dict[str, str]], checkpoints: tuple[str, ...]
    ) -> None:
        super().__init__(region="us-east-1")
        self._jobs, self._tags_of, self._checkpoints = jobs, tags, checkpoints
        self.pages = 0

    def tagged(self, key: str, values: Sequence[str] = (), *_: Any) -> Iterator[tuple[str, dict[str, str]]]:
        for name, tags in self._tags_of.items():
            if tags.get(key) in values:
                yield ARN + name, tags

    def _request(
        self, service: str, operation: str, request: dict[str, Any], what: str | None = None
    ) -> dict[str, Any]:
        if operation == "describe_training_job":
            name = request["TrainingJobName"]
            address = f"s3://{BUCKET}/gpuproof/checkpoints/train/{name}/"
            return {"CheckpointConfig": {"S3Uri": address}}
        assert operation == "list_training_jobs"
        self.pages += 1
        start = int(request.get("NextToken", 0))
        found = [job for job in self._jobs if request.get("NameContains", "") in job[0]]
        more = {"NextToken": str(start + 100)} if start + 100 < len(found) else {}
        page = [
            {
                "TrainingJobName": name,
                "TrainingJobArn": ARN + name,
                "TrainingJobStatus": status,
                "CreationTime": datetime(2026, 5, 1, tzinfo=UTC),
            }
            for name, status in found[start : start + 100]
        ]
        return {"TrainingJobSummaries": page, **more}

    def list_objects(self, bucket: str, prefix: str) -> Iterator[S3Object]:
        if any(f"/{name}/" in prefix for name in self._checkpoints):
            yield S3Object(bucket, f"{prefix}step", 1, "etag", 0.0)


def run_id(number: int) -> str:
    return f"train-20260501-12{number:04}-00ff"


def tags(*numbers: int, fresh: int | None = None) -> dict[str, dict[str, str]]:
    return {
        run_id(number): {
            "gpuproof:run": run_id(number),
            "gpuproof:job": "train",
            **({"gpuproof:fresh": "true"} if number == fresh else {}),
        }
        for number in numbers
    }


OTHERS = [(f"pytorch-training-{number}", "Completed") for number in range(1000)]


def test_a_job_without_runs_reads_no_list_of_an_account_with_many_jobs() -> None:
    account = Account(OTHERS, {}, ())
    assert find_earlier_checkpoints(account, JOB, BUCKET) is None
    assert account.pages == 0


def test_a_list_is_read_no_further_than_to_the_jobs_own_runs() -> None:
    jobs = [*OTHERS[:150], (run_id(2), "Failed"), (run_id(1), "Failed"), *OTHERS[150:]]
    account = Account(jobs, tags(1, 2), ())
    assert find_earlier_checkpoints(account, JOB, BUCKET) is None
    assert account.pages == 2


def test_the_newest_run_that_left_some_is_gone_on_from_among_other_peoples_jobs() -> None:
    jobs = [*OTHERS[:150], (run_id(3), "InProgress"), (run_id(2), "Failed"), (run_id(1), "Stopped")]
    account = Account(jobs, tags(1, 2, 3), (run_id(1),))
    address = f"s3://{BUCKET}/gpuproof/checkpoints/train/{run_id(1)}/"
    assert find_earlier_checkpoints(account, JOB, BUCKET) == EarlierCheckpoints(address, run_id(1))


def test_behind_a_run_that_completed_or_began_afresh_nothing_is_looked_for() -> None:
    completed = Account([(run_id(2), "Completed"), (run_id(1), "Failed")], tags(1, 2), (run_id(1),))
    assert find_earlier_checkpoints(completed, JOB, BUCKET) is None
    afresh = Account([(run_id(2), "Failed"), (run_id(1), "Failed")], tags(1, 2, fresh=2), (run_id(1),))
    assert find_earlier_checkpoints(afresh, JOB, BUCKET) is None
