"""Logs arrive as they are printed, in any number."""

from __future__ import annotations

import pytest

from support.cli_sandbox import until
from support.emulator_jobs import Account

pytestmark = pytest.mark.slow


def test_a_hundred_thousand_lines_arrive_complete_and_in_order(aws: Account) -> None:
    name = aws.train("seq 0 99999")
    # A request for each line would take longer than the end is waited for.
    assert aws.ended(name)["TrainingJobStatus"] == "Completed"
    assert [int(line) for line in aws.log(name)] == list(range(100_000))


def test_lines_are_seen_while_the_job_goes_on(aws: Account) -> None:
    name = aws.train("echo first; sleep 600")
    missing = aws.client("logs").exceptions.ResourceNotFoundException

    def first() -> bool:
        try:
            return aws.log(name) == ["first"]
        except (IndexError, missing):
            return False

    until(first, "the first line")
    assert aws.job(name)["SecondaryStatus"] == "Training"
    aws.client("sagemaker").stop_training_job(TrainingJobName=name)
    aws.ended(name)


def test_a_line_longer_than_an_event_becomes_several(aws: Account) -> None:
    job = aws.trained("head -c 600000 /dev/zero | tr '\\0' y")
    lines = aws.log(job["TrainingJobName"])
    assert len(lines) > 2
    assert "".join(lines) == "y" * 600_000


def test_bytes_that_are_no_text_do_not_stop_the_log(aws: Account) -> None:
    job = aws.trained("printf '\\377\\376 end\\n'; printf 'a\\r\\n'")
    assert aws.log(job["TrainingJobName"]) == ["\ufffd\ufffd end", "a"]


def test_every_host_has_a_stream_that_sagemaker_would_name_so(aws: Account) -> None:
    import re

    resources = {"InstanceType": "ml.g5.xlarge", "InstanceCount": 2, "VolumeSizeInGB": 1}
    name = aws.trained("echo here", ResourceConfig=resources)["TrainingJobName"]
    found = aws.client("logs").describe_log_streams(
        logGroupName="/aws/sagemaker/TrainingJobs", logStreamNamePrefix=f"{name}/"
    )
    names = [item["logStreamName"] for item in found["logStreams"]]
    assert [
        bool(re.fullmatch(rf"{name}/algo-{number}-\d{{10}}", stream))
        for number, stream in enumerate(names, 1)
    ] == [
        True,
        True,
    ]


def test_lines_are_filtered_by_the_beginning_of_their_streams_name(aws: Account) -> None:
    mine = aws.trained("echo mine")["TrainingJobName"]
    aws.trained("echo not mine")
    group, logs = "/aws/sagemaker/TrainingJobs", aws.client("logs")

    def messages(prefix: str) -> list[str]:
        found = logs.filter_log_events(logGroupName=group, logStreamNamePrefix=prefix)
        return [event["message"] for event in found["events"]]

    assert messages(f"{mine}/") == ["mine"]
    assert messages("nobody/") == []
    with pytest.raises(logs.exceptions.ResourceNotFoundException):
        logs.filter_log_events(logGroupName="/none", logStreamNamePrefix="x")
