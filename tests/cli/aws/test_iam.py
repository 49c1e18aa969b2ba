"""`gpuproof iam policy`: pure JSON on stdout, words on stderr."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator

import pytest

from gpuproof.backends.remote.iam.policy_size import size_of
from gpuproof.cli.main import main
from gpuproof.errors import ExitCode
from support.emulated_account import EmulatedAccount, emulated_account

ACCOUNT = "123456789012"
TOPIC = f"arn:aws:sns:us-east-1:{ACCOUNT}:done"


@pytest.fixture(autouse=True)
def _nothing_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GPUPROOF_BUCKET", raising=False)
    monkeypatch.delenv("GPUPROOF_ROLE_ARN", raising=False)
    monkeypatch.delenv("GPUPROOF_INSTANCE_PROFILE", raising=False)


@pytest.fixture(scope="module")
def account(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmulatedAccount]:
    with emulated_account(tmp_path_factory.mktemp("account")) as account:
        yield account


def printed(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[dict[str, object], str]:
    assert main(["iam", "policy", *words]) == ExitCode.OK
    out, err = capsys.readouterr()
    return json.loads(out), err


@pytest.mark.parametrize("which", ["--user", "--role", "--trust"])
def test_one_policy_can_go_straight_into_a_file(capsys: pytest.CaptureFixture[str], which: str) -> None:
    document, words = printed(capsys, which, "--account", ACCOUNT)
    assert document["Version"] == "2012-10-17"
    assert words.splitlines()[0].startswith(f"{which.removeprefix('--')}: ")
    assert "aws iam" in words


def test_without_a_choice_all_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    documents, words = printed(capsys)
    assert documents.pop("version") == 1
    assert list(documents) == ["user", "role", "trust"]
    for name in documents:
        assert f"{name}: " in words


def attached(words: str) -> list[str]:
    """The names of the files whose policies the printed commands attach to a user."""
    assert "put-user-policy" not in words  # an inline policy of a user may have 2,048 characters only
    return re.findall(r"file://(\S+\.json)", words)


@pytest.mark.parametrize("words", [("--on", "ec2", "--user"), ("--cleanup",)])
def test_a_policy_that_iam_accepts_is_attached_in_one_piece(
    capsys: pytest.CaptureFixture[str], words: tuple[str, ...]
) -> None:
    document, output = printed(capsys, *words)
    assert size_of(document) <= 6144
    assert attached(output) == [f"{words[-1].removeprefix('--')}.json"]
    part, _ = printed(capsys, *words, "--part", "1")
    assert part == document


@pytest.mark.parametrize(
    "words",
    [
        (),
        ("--vpc", "--account", "123456789012", "--region", "us-east-1", "--input", "s3://elsewhere/data"),
        ("--on", "ec2", "--region", "us-east-1", "--regions", "us-west-2,eu-west-1,eu-north-1,ap-south-1"),
    ],
)
def test_a_policy_that_is_too_large_for_iam_is_printed_in_parts(
    capsys: pytest.CaptureFixture[str], words: tuple[str, ...]
) -> None:
    document, output = printed(capsys, *words, "--user")
    commands = [line for line in output.splitlines() if line.startswith("gpuproof iam policy ")]
    assert attached(output) == [f"user-{number}.json" for number in range(1, len(commands) + 1)]
    assert len(commands) > 1
    statements: list[object] = []
    for command in commands:
        line, _, _ = command.partition(" > ")
        part, quiet = printed(capsys, *shlex.split(line)[3:])
        assert quiet == ""
        assert size_of(part) <= 6144
        statements += part["Statement"]  # type: ignore[misc]
    assert statements == document["Statement"]
    assert main(["iam", "policy", *words, "--user", "--part", str(len(commands) + 1)]) == ExitCode.USAGE


def test_the_policy_of_a_role_fits_into_the_role(capsys: pytest.CaptureFixture[str]) -> None:
    for backend in ("sagemaker", "ec2", "scheduler"):
        document, words = printed(capsys, "--on", backend, "--role")
        assert size_of(document) <= 10_240
        assert "put-role-policy" in words


def test_bucket_account_region_and_role_narrow_it(capsys: pytest.CaptureFixture[str]) -> None:
    account = "123456789012"
    words = ("--user", "--bucket", "s3://data/", "--account", account, "--region", "eu-west-1")
    document, output = printed(capsys, *words, "--role", "jobs")
    text = json.dumps(document)
    assert "arn:aws:s3:::data/gpuproof/*" in text
    assert "arn:aws:sagemaker:eu-west-1:123456789012:training-job/*" in text
    assert "arn:aws:iam::123456789012:role/jobs" in text
    assert "s3:CreateBucket" not in text
    assert output


def test_the_settings_apply_without_a_flag(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GPUPROOF_BUCKET", "mine")
    monkeypatch.setenv("GPUPROOF_ROLE_ARN", "arn:aws:iam::123456789012:role/path/jobs")
    document, output = printed(capsys)
    text = json.dumps(document)
    assert "arn:aws:s3:::mine/gpuproof/*" in text
    assert "role/path/jobs" in text
    assert "--role-name jobs" in output


def test_policies_for_ec2_name_its_role(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    documents, words = printed(capsys, "--on", "ec2")
    assert "ec2:RunInstances" in json.dumps(documents["user"])
    assert "sagemaker" not in json.dumps(documents)
    assert "aws iam create-instance-profile --instance-profile-name gpuproof-ec2" in words
    monkeypatch.setenv("GPUPROOF_INSTANCE_PROFILE", "jobs")
    document, words = printed(capsys, "--on", "ec2", "--user")
    assert "instance-profile/jobs" in json.dumps(document)


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["--account", "12"], "12 digits"),
        (["--input", "data/"], "is not an S3 address"),
        (["--output", "out"], "is not an S3 address"),
        (["--kms-key", "alias/x"], "not the ARN of a KMS key"),
        (["--user", "--part", "0"], "'0' is not a number of a part"),
        (["--topic", "done"], "not the ARN of an SNS topic"),
        (["--role", "--part", "1"], "--part needs --user or --cleanup"),
    ],
)
def test_what_cannot_be_meant_is_wrong_usage(
    capsys: pytest.CaptureFixture[str], words: list[str], problem: str
) -> None:
    assert main(["iam", "policy", *words]) == ExitCode.USAGE
    out, err = capsys.readouterr()
    assert out == ""
    assert problem in err


@pytest.mark.parametrize("backend", ["sagemaker", "scheduler"])
def test_a_trust_policy_names_the_account_or_is_not_printed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, backend: str
) -> None:
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    condition = {"StringEquals": {"aws:SourceAccount": ACCOUNT}}
    document, _ = printed(capsys, "--on", backend, "--trust", "--account", ACCOUNT)
    assert document["Statement"][0]["Condition"] == condition  # type: ignore[index]
    assert main(["iam", "policy", "--on", backend, "--trust"]) == ExitCode.USAGE
    out, err = capsys.readouterr()
    assert out == ""
    assert "--trust --account 123456789012" in err


@pytest.mark.slow
def test_a_trust_policy_names_the_account_of_the_credentials(
    capsys: pytest.CaptureFixture[str], account: EmulatedAccount, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in account.environment.items():
        monkeypatch.setenv(name, value)
    document, _ = printed(capsys, "--trust")
    assert document["Statement"][0]["Condition"] == {"StringEquals": {"aws:SourceAccount": ACCOUNT}}  # type: ignore[index]
    documents, words = printed(capsys)
    assert documents["trust"] == document
    assert "<account>" not in words
    # Only trust policies are narrowed to it without --account.
    assert ACCOUNT not in json.dumps(documents["user"])


def test_without_an_account_all_are_printed_with_a_placeholder_in_the_trust_policy(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    documents, words = printed(capsys)
    assert documents["trust"]["Statement"][0]["Condition"] == {  # type: ignore[index]
        "StringEquals": {"aws:SourceAccount": "<account>"}
    }
    assert "trust: replace <account> by the account, or add --account" in words


def test_the_role_may_publish_to_the_topics_of_asynchronous_endpoints_that_are_named(
    capsys: pytest.CaptureFixture[str],
) -> None:
    document, _ = printed(capsys, "--role", "--topic", TOPIC)
    (statement,) = [item for item in document["Statement"] if "sns:Publish" in item["Action"]]  # type: ignore[attr-defined]
    assert statement["Resource"] == [TOPIC]
    without, _ = printed(capsys, "--role")
    assert "sns" not in json.dumps(without)


@pytest.mark.slow
def test_neither_credentials_nor_boto3_are_needed() -> None:
    code = (
        "import sys; sys.modules['boto3'] = sys.modules['botocore'] = None\n"
        "from gpuproof.cli.main import main; sys.exit(main(['iam', 'policy']))"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300)
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout)


def test_the_role_of_instances_may_publish_to_a_jobs_topic(capsys: pytest.CaptureFixture[str]) -> None:
    document, _ = printed(capsys, "--on", "ec2", "--role", "--topic", TOPIC)
    allowed = [statement for statement in document["Statement"] if "sns:Publish" in statement["Action"]]
    assert [statement["Resource"] for statement in allowed] == [[TOPIC]]
