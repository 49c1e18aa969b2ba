"""How policies are evaluated."""

from __future__ import annotations

from typing import Any

import pytest

from gpuproof_emulator.permissions.conditions import holds
from gpuproof_emulator.permissions.evaluation import Decision, evaluate

MODEL = "arn:aws:sagemaker:us-east-1:123456789012:model/digits"


def decide(*statements: dict[str, Any], action: str = "sagemaker:CreateModel", **values: str) -> Decision:
    named = {key.replace("__", ":").replace("_", "/"): (value,) for key, value in values.items()}
    return evaluate([{"Statement": list(statements)}], action, MODEL, named)


def allow(action: Any = "sagemaker:CreateModel", resource: Any = "*", **more: Any) -> dict[str, Any]:
    return {"Effect": "Allow", "Action": action, "Resource": resource, **more}


@pytest.mark.parametrize(
    "statement",
    [
        allow(),
        allow("sagemaker:Create*"),
        allow("SageMaker:createmodel"),
        allow(["s3:GetObject", "*"]),
        allow(resource="arn:aws:sagemaker:*:123456789012:model/*"),
        allow(resource=["arn:aws:s3:::b", MODEL]),
        allow(resource="arn:aws:sagemaker:us-east-?:*:model/dig*"),
        {"Effect": "Allow", "NotAction": "iam:*", "Resource": "*"},
        {"Effect": "Allow", "Action": "*", "NotResource": "arn:aws:s3:::*"},
    ],
)
def test_a_statement_that_names_action_and_resource_allows(statement: dict[str, Any]) -> None:
    assert decide(statement) is Decision.ALLOWED


@pytest.mark.parametrize(
    "statement",
    [
        allow("sagemaker:CreateModelPackage"),
        allow("sagemaker:Create"),
        allow(resource=MODEL.upper()),
        allow(resource="arn:aws:sagemaker:us-east-1:123456789012:model"),
        allow(resource="arn:aws:sagemaker:us-east-1:123456789012:model/[d]igits"),
        {"Effect": "Allow", "NotAction": "sagemaker:*", "Resource": "*"},
        {"Effect": "Allow", "Action": "*", "NotResource": MODEL},
    ],
)
def test_what_no_statement_names_is_denied(statement: dict[str, Any]) -> None:
    assert decide(statement) is Decision.IMPLICIT_DENY


def test_a_denial_wins_over_every_permission() -> None:
    deny = {"Effect": "Deny", "Action": "sagemaker:*", "Resource": "*"}
    assert decide(allow(), deny) is Decision.EXPLICIT_DENY
    assert decide(deny, allow(), action="s3:GetObject") is Decision.IMPLICIT_DENY


def test_policy_variables_stand_for_who_asks() -> None:
    statement = allow(resource="arn:aws:sagemaker:*:*:model/${aws:username}*")
    assert decide(statement, aws__username="dig") is Decision.ALLOWED
    assert decide(statement, aws__username="ann") is Decision.IMPLICIT_DENY
    assert decide(statement) is Decision.IMPLICIT_DENY
    with_default = allow(resource="arn:aws:sagemaker:*:*:model/${aws:username, 'digits'}")
    assert decide(with_default) is Decision.ALLOWED


TAG = "aws:RequestTag/team"
TRUE: list[tuple[str, Any, dict[str, tuple[str, ...]]]] = [
    ("Null", "false", {TAG: ("a",)}),
    ("Null", "true", {}),
    ("StringEquals", ["b", "a"], {TAG: ("a",)}),
    ("StringNotEquals", "b", {TAG: ("a",)}),
    ("StringNotEquals", "b", {}),
    ("StringEqualsIfExists", "b", {}),
    ("StringLike", "te*", {TAG: ("team",)}),
    ("StringEqualsIgnoreCase", "A", {TAG: ("a",)}),
    ("Bool", True, {TAG: ("true",)}),
    ("NumericLessThanEquals", "3", {TAG: ("2.5",)}),
    ("DateGreaterThan", "2026-01-01T00:00:00Z", {TAG: ("2026-02-01T00:00:00Z",)}),
    ("IpAddress", "10.0.0.0/8", {TAG: ("10.1.2.3",)}),
    ("ArnLike", "arn:aws:iam::*:role/x", {TAG: ("arn:aws:iam::1:role/x",)}),
    ("ForAllValues:StringEquals", ["a", "b"], {TAG: ("a", "b")}),
    ("ForAllValues:StringEquals", ["a"], {}),
    ("ForAnyValue:StringEquals", "a", {TAG: ("a", "b")}),
]
FALSE: list[tuple[str, Any, dict[str, tuple[str, ...]]]] = [
    ("Null", "false", {}),
    ("StringEquals", "b", {TAG: ("a",)}),
    ("StringEquals", "b", {}),
    ("StringNotEquals", ["b", "a"], {TAG: ("a",)}),
    ("StringEqualsIfExists", "b", {TAG: ("a",)}),
    ("NumericEquals", "3", {TAG: ("three",)}),
    ("ForAllValues:StringEquals", ["a"], {TAG: ("a", "b")}),
    ("ForAnyValue:StringEquals", "c", {TAG: ("a", "b")}),
    ("ForAnyValue:StringEquals", "c", {}),
]


@pytest.mark.parametrize(
    ("operator", "expected", "values", "result"),
    [(*row, True) for row in TRUE] + [(*row, False) for row in FALSE],
)
def test_conditions_compare_as_iam_does(
    operator: str, expected: Any, values: dict[str, tuple[str, ...]], result: bool
) -> None:
    lowered = {key.lower(): value for key, value in values.items()}
    assert holds({operator: {TAG: expected}}, lowered) is result


def test_all_conditions_of_a_statement_must_hold() -> None:
    both = {"StringEquals": {"aws:a": "1", "aws:b": "2"}}
    assert holds(both, {"aws:a": ("1",), "aws:b": ("2",)})
    assert not holds(both, {"aws:a": ("1",), "aws:b": ("3",)})


def test_an_unknown_operator_is_an_error() -> None:
    with pytest.raises(ValueError, match="StringSimilar"):
        holds({"StringSimilar": {TAG: "a"}}, {TAG.lower(): ("a",)})
