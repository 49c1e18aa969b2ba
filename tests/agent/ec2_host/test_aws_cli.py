from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from gpuproof.agent.ec2_host.transfer.aws_cli import AwsCli, AwsFailed


class Time:
    """A clock that waiting moves on."""

    def __init__(self) -> None:
        self.now = 0.0

    def clock(self) -> float:
        return self.now

    def wait(self, seconds: float) -> None:
        self.now += seconds


def cli(retry_for: float = 300.0) -> tuple[AwsCli, Time]:
    time = Time()
    return AwsCli(time.wait, retry_for, time.clock), time


def test_a_call_is_repeated_until_it_succeeds(aws: Callable[[str], Path]) -> None:
    calls = aws('[ "$number" -ge 4 ] && echo fine && exit; echo "Could not connect" >&2; exit 255')
    client, time = cli()
    assert client.run("s3", "ls") == "fine\n"
    assert calls.read_text() == "s3 ls\n" * 4
    assert time.now == 1 + 2 + 4


@pytest.mark.parametrize(
    ("text", "code", "seconds"),
    [
        ("An error occurred (NoSuchBucket) when calling the ListObjectsV2 operation: no", "NoSuchBucket", 0),
        ("download failed: s3://b/k to k [Errno 28] No space left on device", "", 0),
        ("An error occurred (AccessDenied) when calling the PutObject operation: no", "AccessDenied", 60),
        ("Unable to locate credentials", "", 300),
    ],
)
def test_a_call_fails_after_a_time_that_depends_on_the_reason(
    text: str, code: str, seconds: float, aws: Callable[[str], Path]
) -> None:
    aws(f'echo "{text}" >&2; exit 1')
    client, time = cli()
    with pytest.raises(AwsFailed) as failed:
        client.run("s3", "ls")
    assert (str(failed.value), failed.value.code) == (text, code)
    assert seconds - 15 <= time.now <= seconds


def test_content_is_sent_and_files_that_were_left_out_are_no_failure(aws: Callable[[str], Path]) -> None:
    aws("cat; exit 2")
    client, _ = cli()
    assert client.run("s3", "cp", "-", content=b"text" * 50_000) == "text" * 50_000


def test_a_machine_without_the_cli_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(AwsFailed, match="the AWS CLI cannot be started"):
        cli(0.0)[0].run("s3", "ls")
