"""Requests to SageMaker, CloudWatch Logs, tagging and IAM over HTTP."""

from __future__ import annotations

import time
from itertools import islice

import pytest

from gpuproof.backends.aws import Aws, AwsRefused, LogEvent, NoCredentials
from gpuproof.backends.aws.services.iam import trusted_services
from support.faulty_aws import FakeResponse, FaultyAws, Request, json_answer, json_error, query_error

pytestmark = pytest.mark.slow

ARN = "arn:aws:sagemaker:us-east-1:123456789012:training-job/job"


def summaries(*numbers: int, token: str | None = None) -> FakeResponse:
    found = [
        {
            "TrainingJobName": f"job-{number}",
            "TrainingJobArn": f"{ARN}-{number}",
            "CreationTime": 1.0,
            "TrainingJobStatus": "Completed",
        }
        for number in numbers
    ]
    return json_answer({"TrainingJobSummaries": found, **({"NextToken": token} if token else {})})


def test_the_caller_is_known_with_the_part_of_aws_it_is_in(aws: Aws) -> None:
    caller = aws.caller()
    assert (caller.account, caller.partition) == ("123456789012", "aws")


@pytest.mark.parametrize("kind", ["training", "processing"])
@pytest.mark.parametrize(
    "fault",
    [
        json_error("ValidationException", "Requested resource not found."),
        json_error("ValidationException", "Could not find requested job with name: job"),
        json_error("ResourceNotFound", "gone"),
    ],
    ids=["not-found", "could-not-find", "resource-not-found"],
)
def test_a_job_that_is_not_there_is_none(faulty: FaultyAws, aws: Aws, kind: str, fault: FakeResponse) -> None:
    faulty.fault(f"Describe{kind.capitalize()}Job", fault)
    assert aws.describe_job(kind, "job") is None


def test_a_look_that_is_refused_is_not_taken_for_a_missing_job(faulty: FaultyAws, aws: Aws) -> None:
    faulty.fault("DescribeTrainingJob", json_error("AccessDeniedException", "no"))
    with pytest.raises(AwsRefused, match="training job job: AccessDeniedException") as caught:
        aws.describe_job("training", "job")
    assert caught.value.is_permission


def test_jobs_are_listed_page_by_page_the_newest_first(faulty: FaultyAws, aws: Aws) -> None:
    faulty.fault("ListTrainingJobs", summaries(3, 2, token="more"))
    faulty.fault("ListTrainingJobs", summaries(1))
    names = [
        job["TrainingJobName"] for job in aws.list_jobs("training", name_contains="job", created_after=0.0)
    ]
    assert names == ["job-3", "job-2", "job-1"]
    first, second = (request.json() for request in faulty.requests)
    assert (first["SortBy"], first["SortOrder"]) == ("CreationTime", "Descending")
    assert (first["NameContains"], second["NextToken"]) == ("job", "more")


def test_no_page_is_requested_before_it_is_needed(faulty: FaultyAws, aws: Aws) -> None:
    faulty.fault("ListTrainingJobs", summaries(3, 2, token="more"))
    assert len(list(islice(aws.list_jobs("training"), 2))) == 2
    assert faulty.count("ListTrainingJobs") == 1
    faulty.fault("ListTrainingJobs", summaries(3, 2, token="more"))
    assert len(list(aws.list_jobs("training", limit=1))) == 1
    assert faulty.requests[-1].json()["MaxResults"] == 1


@pytest.mark.parametrize("status", ["Completed", "Failed", "Stopped", "Stopping"])
def test_stopping_an_ended_job_is_not_an_error(faulty: FaultyAws, aws: Aws, status: str) -> None:
    refused = json_error(
        "ValidationException", f"The request was rejected because the job is in status {status}."
    )
    faulty.fault("StopTrainingJob", refused)
    faulty.fault("DescribeTrainingJob", json_answer({"TrainingJobStatus": status}))
    aws.stop_job("training", "job")


def test_stopping_a_job_that_is_not_there_or_cannot_be_stopped_is_an_error(
    faulty: FaultyAws, aws: Aws
) -> None:
    faulty.fault(
        "StopTrainingJob", json_error("ValidationException", "Requested resource not found."), times=2
    )
    faulty.fault("DescribeTrainingJob", json_error("ValidationException", "Requested resource not found."))
    with pytest.raises(AwsRefused, match="not found"):
        aws.stop_job("training", "job")
    faulty.fault("DescribeTrainingJob", json_answer({"TrainingJobStatus": "InProgress"}))
    with pytest.raises(AwsRefused, match="StopTrainingJob"):
        aws.stop_job("training", "job")


def test_tags_are_read_over_all_pages(faulty: FaultyAws, aws: Aws) -> None:
    faulty.fault("ListTags", json_answer({"Tags": [{"Key": "a", "Value": "1"}], "NextToken": "more"}))
    faulty.fault("ListTags", json_answer({"Tags": [{"Key": "b", "Value": ""}]}))
    assert aws.tags(ARN) == {"a": "1", "b": ""}


def test_a_search_is_read_over_all_pages(faulty: FaultyAws, aws: Aws) -> None:
    def page(name: str, **more: str) -> FakeResponse:
        return json_answer({"Results": [{"TrainingJob": {"TrainingJobName": name}}, {}], **more})

    faulty.fault("Search", page("newer", NextToken="more"))
    faulty.fault("Search", page("older"))
    found = [job["TrainingJobName"] for job in aws.search_training_jobs("gpuproof:run")]
    assert found == ["newer", "older"]
    assert faulty.requests[1].json()["NextToken"] == "more"


def test_resources_are_found_by_twenty_values_of_a_tag_at_a_time(faulty: FaultyAws, aws: Aws) -> None:
    def answer(request: Request) -> FakeResponse:
        (asked,) = request.json()["TagFilters"]
        found = [
            {"ResourceARN": f"{ARN}-{value}", "Tags": [{"Key": "gpuproof:run", "Value": value}]}
            for value in asked["Values"]
        ]
        return json_answer({"PaginationToken": "", "ResourceTagMappingList": found})

    faulty.fault("GetResources", answer, times=None)
    values = [str(number) for number in range(45)]
    found = dict(aws.tagged("gpuproof:run", values))
    assert [tags["gpuproof:run"] for tags in found.values()] == values
    assert faulty.count("GetResources") == 3
    assert "sagemaker:training-job" in faulty.requests[0].json()["ResourceTypeFilters"]


def test_a_tag_with_any_value_takes_one_request(faulty: FaultyAws, aws: Aws) -> None:
    faulty.fault("GetResources", json_answer({"ResourceTagMappingList": []}))
    assert list(aws.tagged("gpuproof:run")) == []
    assert faulty.requests[0].json()["TagFilters"] == [{"Key": "gpuproof:run", "Values": []}]


def test_a_log_is_read_on_from_where_it_was(aws: Aws) -> None:
    group, stream = "/aws/sagemaker/TrainingJobs", "job-a/algo-1-1"
    aws.call("logs", "create_log_group", logGroupName=group)
    aws.call("logs", "create_log_stream", logGroupName=group, logStreamName=stream)
    put = {"logGroupName": group, "logStreamName": stream}
    now = int(time.time()) * 1000  # CloudWatch takes no lines from the future
    aws.call("logs", "put_log_events", **put, logEvents=[{"timestamp": now, "message": "one"}])
    assert [log_stream.name for log_stream in aws.log_streams(group, "job-a/")] == [stream]
    events, token = aws.log_events(group, stream)
    assert events == [LogEvent(now / 1000, "one")]
    aws.call("logs", "put_log_events", **put, logEvents=[{"timestamp": now + 1, "message": "two"}])
    events, token = aws.log_events(group, stream, token)
    assert [event.message for event in events] == ["two"]
    assert aws.log_events(group, stream, token)[0] == []


def test_a_log_is_read_from_its_end(faulty: FaultyAws, aws: Aws) -> None:
    line = {"timestamp": 2000, "message": "last", "ingestionTime": 2000}
    faulty.fault("GetLogEvents", json_answer({"events": [line], "nextBackwardToken": "b/1"}))
    assert aws.last_log_events("group", "stream") == ([LogEvent(2.0, "last")], "b/1")
    assert faulty.requests[0].json()["startFromHead"] is False
    faulty.fault("GetLogEvents", json_answer({"events": [], "nextBackwardToken": "b/1"}))
    assert aws.last_log_events("group", "stream", "b/1") == ([], "b/1")
    assert faulty.requests[1].json()["nextToken"] == "b/1"


def test_a_log_that_is_not_there_yet_is_empty(aws: Aws) -> None:
    assert aws.last_log_events("/aws/sagemaker/NoSuchGroup", "job/x") == ([], None)
    assert aws.log_streams("/aws/sagemaker/NoSuchGroup", "job/") == []
    assert aws.log_events("/aws/sagemaker/NoSuchGroup", "job/x", "token") == ([], "token")


def test_a_role_that_is_not_there_is_none_and_a_refusal_is_not(faulty: FaultyAws, aws: Aws) -> None:
    assert aws.role("nobody") is None
    faulty.fault("GetRole", query_error("AccessDenied", "no", 403))
    with pytest.raises(AwsRefused) as caught:
        aws.role("nobody")
    assert caught.value.is_permission


SAGEMAKER = {"Service": "sagemaker.amazonaws.com"}


@pytest.mark.parametrize(
    ("statement", "trusted"),
    [
        (
            {"Effect": "Allow", "Principal": SAGEMAKER, "Action": "sts:AssumeRole"},
            ["sagemaker.amazonaws.com"],
        ),
        ([{"Effect": "Allow", "Principal": SAGEMAKER, "Action": ["sts:*"]}], ["sagemaker.amazonaws.com"]),
        ({"Effect": "Allow", "Principal": {"Service": ["a", "b"]}, "Action": "sts:AssumeRole"}, ["a", "b"]),
        ({"Effect": "Allow", "Principal": SAGEMAKER, "Action": "sts:TagSession"}, []),
        ({"Effect": "Allow", "Principal": {"AWS": "*"}, "Action": "sts:AssumeRole"}, []),
        ({"Effect": "Allow", "Principal": "*", "Action": "sts:AssumeRole"}, []),
        (
            [
                {"Effect": "Allow", "Principal": SAGEMAKER, "Action": "sts:AssumeRole"},
                {"Effect": "Deny", "Principal": SAGEMAKER, "Action": "sts:AssumeRole"},
            ],
            [],
        ),
    ],
)
def test_who_may_assume_a_role_follows_from_its_trust_policy(statement: object, trusted: list[str]) -> None:
    assert list(trusted_services({"Statement": statement})) == trusted


@pytest.mark.parametrize(
    ("variables", "words"),
    [
        ({"AWS_PROFILE": "nobody"}, "list-profiles"),
        ({"AWS_SECRET_ACCESS_KEY": None}, "both"),
        ({"AWS_ACCESS_KEY_ID": None, "AWS_SECRET_ACCESS_KEY": None}, "aws sso login"),
    ],
)
def test_without_whole_credentials_the_remedy_is_their_own(
    faulty: FaultyAws, monkeypatch: pytest.MonkeyPatch, variables: dict[str, str | None], words: str
) -> None:
    for name, value in variables.items():
        monkeypatch.delenv(name, raising=False) if value is None else monkeypatch.setenv(name, value)
    with pytest.raises(NoCredentials) as caught:
        Aws(region="us-east-1").caller()
    assert words in str(caught.value.remedy)
    assert faulty.asked == []
