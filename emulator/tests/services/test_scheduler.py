"""Schedules of EventBridge Scheduler call SageMaker when they are due."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from support.aws_emulator import running_emulator
from support.cli_sandbox import until
from support.emulator_jobs import Account

pytestmark = pytest.mark.slow

DELETE_MODEL = "arn:aws:scheduler:::aws-sdk:sagemaker:deleteModel"
RATE = {"ScheduleExpression": "rate(5 minutes)"}
IMAGE = "763104351884.dkr.ecr.us-east-1.amazonaws.com/pytorch-inference:2.6-gpu"


def test_a_one_time_schedule_runs_when_it_is_due_and_deletes_itself(aws: Account) -> None:
    model = _model(aws)
    name = _schedule(aws, model, datetime.now(UTC) + timedelta(seconds=2), ActionAfterCompletion="DELETE")
    until(lambda: not _exists(aws, model), "the model's deletion")
    until(lambda: not _scheduled(aws, name), "the schedule's deletion")


def test_a_later_schedule_runs_as_if_its_time_had_come(aws: Account) -> None:
    model = _model(aws)
    moment = datetime.now(UTC) + timedelta(hours=2)
    name = _schedule(aws, model, moment)
    assert aws.emulator.run_schedules(moment - timedelta(seconds=2)) == []
    assert _exists(aws, model)
    (run,) = aws.emulator.run_schedules(moment)
    assert run == {"name": name, "group": "default", "operation": "DeleteModel", "error": ""}
    assert not _exists(aws, model)
    # It is not repeated, and without ActionAfterCompletion it stays.
    assert aws.emulator.run_schedules(moment) == []
    assert _scheduled(aws, name)
    aws.client("scheduler").delete_schedule(Name=name)


def test_the_time_zone_of_a_schedule_counts(aws: Account) -> None:
    name = _schedule(
        aws, _model(aws), datetime(2090, 6, 1, 12), ScheduleExpressionTimezone="America/New_York"
    )
    due = datetime(2090, 6, 1, 16, tzinfo=UTC)
    assert aws.emulator.run_schedules(due - timedelta(seconds=1)) == []
    assert [run["name"] for run in aws.emulator.run_schedules(due)] == [name]
    aws.client("scheduler").delete_schedule(Name=name)


def test_a_rate_repeats_and_reports_what_sagemaker_rejects(aws: Account) -> None:
    model = _model(aws)
    name = _schedule(aws, model, ScheduleExpression="rate(5 minutes)")
    start = time.time()
    assert aws.emulator.run_schedules(start) == []
    assert [run["error"] for run in aws.emulator.run_schedules(start + 301)] == [""]
    assert aws.emulator.run_schedules(start + 400) == []
    (again,) = aws.emulator.run_schedules(start + 700)
    assert "Could not find model" in again["error"]
    aws.client("scheduler").delete_schedule(Name=name)


def test_a_rate_runs_from_its_start_date_to_its_end_date_and_is_deleted_then(aws: Account) -> None:
    start = datetime.now(UTC).replace(microsecond=0) + timedelta(hours=1)
    dates = {"StartDate": start, "EndDate": start + timedelta(minutes=12)}
    name = _schedule(aws, _model(aws), **RATE, **dates, ActionAfterCompletion="DELETE")
    runs = [aws.emulator.run_schedules(start + timedelta(minutes=minute)) for minute in (-1, 0, 4, 5, 10)]
    assert [len(found) for found in runs] == [0, 1, 0, 1, 1]
    assert _scheduled(aws, name)
    assert aws.emulator.run_schedules(start + timedelta(minutes=13)) == []
    assert not _scheduled(aws, name)


def test_a_moved_rate_runs_at_its_new_start(aws: Account) -> None:
    client, start = aws.client("scheduler"), datetime.now(UTC).replace(microsecond=0) + timedelta(hours=1)
    dates = {"StartDate": start, "EndDate": start + timedelta(days=1)}
    name = _schedule(aws, _model(aws), **RATE, **dates)
    stored = client.get_schedule(Name=name)
    assert (stored["StartDate"], stored["EndDate"]) == (dates["StartDate"], dates["EndDate"])
    later = {key: date + timedelta(hours=2) for key, date in dates.items()}
    members = ("Name", "ScheduleExpression", "FlexibleTimeWindow", "Target")
    client.update_schedule(**{member: stored[member] for member in members}, **later)
    assert aws.emulator.run_schedules(start + timedelta(hours=1)) == []
    assert len(aws.emulator.run_schedules(start + timedelta(hours=2))) == 1
    client.delete_schedule(Name=name)


def test_a_role_without_the_permission_is_refused(aws: Account) -> None:
    model, moment = _model(aws), datetime.now(UTC) + timedelta(hours=1)
    name = _schedule(aws, model, moment)
    _allow(aws, "sagemaker:DeleteEndpoint")
    (run,) = aws.emulator.run_schedules(moment)
    assert "is not authorized to perform: sagemaker:DeleteModel" in run["error"]
    assert _exists(aws, model)
    _allow(aws, "sagemaker:Delete*")
    aws.client("scheduler").delete_schedule(Name=name)


def test_a_disabled_schedule_does_not_run(aws: Account) -> None:
    moment = datetime.now(UTC) + timedelta(hours=1)
    name = _schedule(aws, _model(aws), moment, State="DISABLED")
    assert aws.emulator.run_schedules(moment) == []
    aws.client("scheduler").delete_schedule(Name=name)


def test_an_update_without_a_state_enables_the_schedule(aws: Account) -> None:
    moment = datetime.now(UTC) + timedelta(hours=1)
    name = _schedule(aws, _model(aws), moment, State="DISABLED")
    client = aws.client("scheduler")
    stored = client.get_schedule(Name=name)
    members = ("Name", "ScheduleExpression", "FlexibleTimeWindow", "Target")
    client.update_schedule(**{member: stored[member] for member in members})
    assert client.get_schedule(Name=name)["State"] == "ENABLED"
    assert [run["error"] for run in aws.emulator.run_schedules(moment)] == [""]
    client.delete_schedule(Name=name)


def test_a_schedule_in_a_group_runs_and_a_missing_group_is_an_error(aws: Account) -> None:
    group, moment = aws.name(), datetime.now(UTC) + timedelta(hours=1)
    with pytest.raises(ClientError, match=f"Schedule group {group} does not exist"):
        _schedule(aws, _model(aws), moment, GroupName=group)
    aws.client("scheduler").create_schedule_group(Name=group)
    _schedule(aws, _model(aws), moment, GroupName=group)
    assert [run["group"] for run in aws.emulator.run_schedules(moment)] == [group]
    aws.client("scheduler").delete_schedule_group(Name=group)


def test_a_rejected_call_is_reported_and_not_repeated(aws: Account) -> None:
    moment = datetime.now(UTC) + timedelta(hours=1)
    endpoint_name = "no-such-endpoint"
    target = {
        "Arn": "arn:aws:scheduler:::aws-sdk:sagemaker:deleteEndpoint",
        "Input": json.dumps({"EndpointName": endpoint_name}),
    }
    name = _schedule(aws, "", moment, target=target, ActionAfterCompletion="DELETE")
    (run,) = aws.emulator.run_schedules(moment)
    assert "Could not find endpoint" in run["error"]
    assert not _scheduled(aws, name)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"ScheduleExpression": "cron(0 1 * * ? *)"}, "does not support cron expressions"),
        ({"ScheduleExpression": "rate(0 minutes)"}, "Invalid Schedule Expression"),
        ({"ScheduleExpression": "at(2099-13-01T00:00:00)"}, "Invalid Schedule Expression"),
        ({"ScheduleExpressionTimezone": "Mars/Olympus"}, "Invalid ScheduleExpressionTimezone"),
        ({"FlexibleTimeWindow": {"Mode": "FLEXIBLE", "MaximumWindowInMinutes": 5}}, "FlexibleTimeWindow"),
        ({"ScheduleExpression": "at(2020-01-01T00:00:00)"}, "in the past"),
        ({**RATE, "StartDate": datetime(2020, 1, 1, tzinfo=UTC)}, "cannot be earlier than 5 minutes ago"),
        ({**RATE, "EndDate": datetime(2020, 1, 1, tzinfo=UTC)}, "EndDate you specify must be in the future"),
        ({**RATE, "ActionAfterCompletion": "DELETE"}, "without an EndDate"),
        ({"target": {"Arn": "arn:aws:sqs:us-east-1:123456789012:q"}}, "does not support the target"),
        (
            {"target": {"Arn": "arn:aws:scheduler:::aws-sdk:sagemaker:doSomething"}},
            "no operation DoSomething",
        ),
        ({"target": {"Arn": "arn:aws:scheduler:::aws-sdk:sagemaker:listModels"}}, "read-only"),
        ({"target": {"Input": "{}"}}, "Member must not be null"),
        ({"target": {"DeadLetterConfig": {}}}, "does not support Target.DeadLetterConfig"),
        (
            {"target": {"RoleArn": "arn:aws:iam::123456789012:role/nobody"}},
            "must allow AWS EventBridge Scheduler",
        ),
    ],
)
def test_what_cannot_run_is_rejected_at_creation(aws: Account, changes: dict[str, Any], said: str) -> None:
    with pytest.raises(ClientError, match=said):
        _schedule(aws, "m", datetime(2099, 1, 1), **changes)
    assert not aws.client("scheduler").list_schedules(NamePrefix=aws.prefix)["Schedules"]


def test_a_schedule_survives_a_restart_and_does_not_run_twice(tmp_path: Path) -> None:
    moment = datetime.now(UTC) + timedelta(hours=1)
    with running_emulator(tmp_path) as emulator:
        aws = Account(emulator, emulator.bucket("schedules"), "r")
        done, waiting = _model(aws), _model(aws)
        first = _schedule(aws, done, moment - timedelta(minutes=30))
        second = _schedule(aws, waiting, moment)
        assert [run["name"] for run in emulator.run_schedules(moment - timedelta(minutes=10))] == [first]
    with running_emulator(tmp_path) as emulator:
        assert [run["name"] for run in emulator.run_schedules(moment)] == [second]


def _model(aws: Account) -> str:
    name = aws.name()
    role = aws.emulator.role
    aws.client("sagemaker").create_model(
        ModelName=name, PrimaryContainer={"Image": IMAGE}, ExecutionRoleArn=role
    )
    return name


def _schedule(
    aws: Account,
    model: str,
    moment: datetime | None = None,
    target: dict[str, Any] | None = None,
    **changes: Any,
) -> str:
    name = aws.name()
    request = {
        "Name": name,
        "FlexibleTimeWindow": {"Mode": "OFF"},
        "Target": {
            "Arn": DELETE_MODEL,
            "RoleArn": _scheduler_role(aws),
            "Input": json.dumps({"ModelName": model}),
            **(target or {}),
        },
        **changes,
    }
    if moment is not None:
        request.setdefault("ScheduleExpression", f"at({moment:%Y-%m-%dT%H:%M:%S})")
    aws.client("scheduler").create_schedule(**request)
    return name


def _scheduler_role(aws: Account) -> str:
    iam = aws.client("iam")
    statement = {
        "Effect": "Allow",
        "Principal": {"Service": "scheduler.amazonaws.com"},
        "Action": "sts:AssumeRole",
    }
    document = json.dumps({"Version": "2012-10-17", "Statement": [statement]})
    try:
        role = iam.create_role(RoleName="scheduler", AssumeRolePolicyDocument=document)["Role"]["Arn"]
    except iam.exceptions.EntityAlreadyExistsException:
        return iam.get_role(RoleName="scheduler")["Role"]["Arn"]
    _allow(aws, "sagemaker:Delete*")
    return role


def _allow(aws: Account, action: str) -> None:
    policy = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": action, "Resource": "*"}]}
    aws.client("iam").put_role_policy(
        RoleName="scheduler", PolicyName="delete", PolicyDocument=json.dumps(policy)
    )


def _exists(aws: Account, model: str) -> bool:
    try:
        aws.client("sagemaker").describe_model(ModelName=model)
    except ClientError:
        return False
    return True


def _scheduled(aws: Account, name: str) -> bool:
    found = aws.client("scheduler").list_schedules(NamePrefix=name)["Schedules"]
    return any(match["Name"] == name for match in found)
