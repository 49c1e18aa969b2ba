"""What accounts have answered: nothing in it names them, and the code's tables agree with it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from acceptance import facts
from acceptance.recording import VERSION, confirmed_facts, private_parts, recordings, redact, write


def test_the_tables_agree_with_what_accounts_have_answered() -> None:
    for path, recording in recordings():
        assert (recording["version"], recording["backend"], recording["failure"]) == (VERSION, "aws", None), (
            path
        )
        assert private_parts(path.read_text("utf-8")) == []
        assert facts.problems(recording["facts"]) == []


@pytest.mark.parametrize(
    ("fact", "value", "problem"),
    [
        ("sagemaker-training-driver", {"driver": "550.163.01", "cuda": "cu133", "compat": []}, "CUDA cu133"),
        ("ec2-driver", {"driver": "470.256.02", "cuda": "12.8", "compat": []}, "CUDA 12.8 needs"),
        (
            "endpoint-driver",
            {"driver": "470.256.02", "host_image": "al2-ami-sagemaker-inference-gpu-2"},
            "the driver 535",
        ),
        ("sagemaker-default-image", "99.0.0-cu999-nowhere", "has no 99.0.0"),
        ("ec2-agent-python", "3.7.16", "needs Python 3.9"),
        ("ec2-start-time", 1200.0, "after 1200 s"),
        ("ec2-refused-pull", "the registry is asleep", "does not know"),
        ("ec2-processes", "guess", "unknown evidence"),
        ("quota-names", [{"code": "L-DB2E81BA", "name": "Something else"}], "Something else"),
        ("no-such-fact", True, "no such fact"),
        ("endpoint-ttl", False, "it is not so"),
    ],
)
def test_an_answer_that_contradicts_a_table_is_a_problem(fact: str, value: object, problem: str) -> None:
    (found,) = facts.problems({fact: value})
    assert problem in found


@pytest.mark.parametrize(
    ("fact", "value"),
    [
        # A newer compatibility library in the image makes up for the driver.
        ("sagemaker-training-driver", {"driver": "550.163.01", "cuda": "cu130", "compat": ["580.95.05"]}),
        ("ec2-driver", {"driver": "595.64", "cuda": "13.0", "compat": []}),
        ("endpoint-driver", {"driver": "535.183.01", "host_image": "al2-ami-sagemaker-inference-gpu-2"}),
        ("ec2-agent-python", "3.14.0"),
        ("ec2-refused-pull", "manifest unknown"),
        ("quota-names", [{"code": "L-DB2E81BA", "name": "Running On-Demand G and VT instances"}]),
        ("ec2-driver", None),
    ],
)
def test_an_answer_that_agrees_is_none(fact: str, value: object) -> None:
    assert facts.problems({fact: value}) == []


@pytest.mark.parametrize(
    ("text", "redacted"),
    [
        ("role arn:aws:iam::210987654321:role/gpuproof-ec2 is", "role <arn> is"),
        ("arn:aws-us-gov:ec2:us-gov-west-1:210987654321:instance/i-0123456789abcdef0", "<arn>"),
        (
            "210987654321.dkr.ecr.us-east-1.amazonaws.com/none:1",
            "<account>.dkr.ecr.us-east-1.amazonaws.com/none:1",
        ),
        ("s3://my-private-bucket/gpuproof/x", "s3://<bucket>/gpuproof/x"),
        ("host ip-10-0-3-17.ec2.internal at 10.0.3.17", "host <address> at <address>"),
        ("from 2001:db8:85a3:0:0:8a2e:370:7334", "from <address>"),
        ("i-0123456789abcdef0 in subnet-0a1b2c3d4e5f60718", "<id> in <id>"),
        ("key AKIAIOSFODNN7EXAMPLE", "key <key>"),
        ("RequestID: 8f2c1a34-1b2c-4d5e-8f90-a1b2c3d4e5f6", "RequestID: <request>"),
        ("/home/alice/project by alice@example.org", "<home>/project by <mail>"),
        ("the bucket data-of-alice", "the bucket <name>"),
    ],
)
def test_what_names_an_account_or_a_person_is_removed(text: str, redacted: str) -> None:
    found = redact({"error": [text]}, ["data-of-alice"])
    assert found == {"error": [redacted]}
    assert private_parts(redacted) == []


@pytest.mark.parametrize(
    "text",
    [
        "580.95.05",
        "2.14.0-cu133-amzn2023-sagemaker",
        "al2-ami-sagemaker-inference-gpu-2-1",
        "2026-11-28T12:40:27.000Z",
        "6.8.0-1021-aws",
        "L-DB2E81BA",
        "/dev/mapper/vg.01-lv_ephemeral",
    ],
)
def test_versions_tags_and_times_are_kept(text: str) -> None:
    assert redact(text) == text
    assert private_parts(text) == []


def test_keys_are_redacted_too() -> None:
    assert redact({"i-0123456789abcdef0": 1}) == {"<id>": 1}


def test_only_recordings_of_aws_confirm_facts(tmp_path: Path) -> None:
    document: dict[str, Any] = {"facts": {"endpoint-ttl": True}, "failure": None}
    write(tmp_path / "emulator.json", {**document, "backend": "emulator"}, ())
    assert confirmed_facts(tmp_path) == frozenset()
    unknown = {"facts": {**document["facts"], "new-roles": None}, "failure": None, "backend": "aws"}
    write(tmp_path / "account.json", unknown, ())
    assert confirmed_facts(tmp_path) == {"endpoint-ttl"}
    assert [path.name for path, _ in recordings(tmp_path)] == ["account.json", "emulator.json"]
