"""A run whose inputs lie on S3."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import threading
from collections.abc import Iterator

import pytest

from support.cli_sandbox import GPUPROOF, CliSandbox
from support.s3_server import CREDENTIALS, BadServer, Bucket, MotoServer, Reply, listing, refusal

pytestmark = pytest.mark.journey

SHOW = """
import os
for folder, _, names in sorted(os.walk("/opt/ml/input/data")):
    for name in sorted(names):
        path = os.path.join(folder, name)
        print(path.removeprefix("/opt/ml/input/data/"), open(path).read(), os.access(path, os.W_OK))
"""


@pytest.fixture(scope="module")
def moto_server() -> Iterator[MotoServer]:
    server = MotoServer()
    yield server
    server.stop()


@pytest.fixture
def bucket(sandbox: CliSandbox, moto_server: MotoServer) -> Bucket:
    """A bucket, where the sandbox's endpoint leads."""
    sandbox.environment |= {**CREDENTIALS, "AWS_ENDPOINT_URL": moto_server.url}
    return moto_server.bucket()


def test_a_script_finds_its_objects_and_the_second_run_downloads_nothing(
    sandbox: CliSandbox, bucket: Bucket
) -> None:
    bucket.put(**{"data/train/a.csv": b"1", "data/train/deep/b.csv": b"2", "labels.json": b"3"})
    sandbox.write("train.py", SHOW)
    words = ("run", "train.py", "--input", f"training=s3://{bucket.name}/data/train/")
    words += ("--input", f"labels=s3://{bucket.name}/labels.json")
    first = sandbox.gpuproof(*words)
    assert first.stdout == (
        "labels/labels.json 3 False\ntraining/a.csv 1 False\ntraining/deep/b.csv 2 False\n"
    ), first.stderr
    assert f"download   s3://{bucket.name}/data/train/: 2 files, 2 B, 2 B downloaded\n" in first.stderr
    assert bucket.downloads() == ["data/train/a.csv", "data/train/deep/b.csv", "labels.json"]
    second = sandbox.gpuproof(*words)
    assert second.stdout == first.stdout
    assert "2 files, 2 B, already in the cache" in second.stderr
    assert bucket.downloads() == []


def test_a_processing_job_takes_inputs_from_s3(sandbox: CliSandbox, bucket: Bucket) -> None:
    bucket.put(**{"raw/a.txt": b"hello"})
    sandbox.write("clean.py", "print(open('/opt/ml/processing/input/a.txt').read())")
    sandbox.write(
        "gpuproof.yaml",
        "kind: processing\nname: clean\nentry_point: clean.py\n"
        f"inputs: {{/opt/ml/processing/input: s3://{bucket.name}/raw}}\n",
    )
    done = sandbox.gpuproof("run")
    assert done.stdout == "hello\n", done.stderr


def test_inputs_from_s3_and_from_here_go_together(sandbox: CliSandbox, bucket: Bucket) -> None:
    bucket.put(**{"data/a": b"1"})
    sandbox.write("here/b", "2")
    sandbox.write("train.py", SHOW)
    done = sandbox.gpuproof(
        "run",
        "train.py",
        "--input",
        f"far=s3://{bucket.name}/data",
        "--input",
        "near=here",
        "--format",
        "json",
    )
    assert json.loads(done.stdout)["exit_code"] == 0
    assert "far/a 1 False\nnear/b 2 False\n" in done.stderr


def test_a_dry_run_downloads_nothing_and_sends_no_request(sandbox: CliSandbox, bucket: Bucket) -> None:
    sandbox.write("train.py", SHOW)
    bucket.server.requests.clear()
    words = ("run", "train.py", "--input", f"training=s3://{bucket.name}/data", "--dry-run")
    done = sandbox.gpuproof(*words)
    assert done.returncode == 0
    assert f"/opt/ml/input/data/training is s3://{bucket.name}/data" in done.stderr
    agent_job = json.loads(sandbox.gpuproof(*words, "--format", "json").stdout)["job"]
    assert agent_job["mounts"][0]["source"] == f"s3://{bucket.name}/data"
    assert bucket.server.requests == []
    assert not sandbox.runs.exists()


@pytest.mark.parametrize(
    ("reply", "code", "words"),
    [
        (refusal("ExpiredToken", 400), 5, ["ExpiredToken", "aws sso login"]),
        (refusal("NoSuchBucket", 404), 5, ["NoSuchBucket", "aws s3 ls"]),
        (refusal("AccessDenied", 403), 5, ["AccessDenied", "s3:ListBucket"]),
        (listing({}), 2, ["No object matches s3://rows/data/"]),
        (listing({"data/../../x": b""}), 2, ["outside of the channel"]),
    ],
    ids=["expired token", "missing bucket", "forbidden", "empty", "escaping key"],
)
def test_what_aws_refuses_ends_in_words_and_leaves_no_run(
    sandbox: CliSandbox, reply: Reply, code: int, words: list[str]
) -> None:
    server = BadServer(lambda *_: reply)
    sandbox.environment |= {**CREDENTIALS, "AWS_ENDPOINT_URL": server.url}
    sandbox.write("train.py", SHOW)
    try:
        done = sandbox.gpuproof("run", "train.py", "--input", "training=s3://rows/data/")
    finally:
        server.stop()
    assert done.returncode == code
    for word in words:
        assert word in done.stderr
    assert "Traceback" not in done.stderr
    assert list(sandbox.runs.glob("*")) == []


def test_without_credentials_nothing_is_decided(sandbox: CliSandbox, bucket: Bucket) -> None:
    del sandbox.environment["AWS_ACCESS_KEY_ID"]
    sandbox.write("train.py", SHOW)
    done = sandbox.gpuproof("run", "train.py", "--input", f"training=s3://{bucket.name}/data")
    assert done.returncode == 3
    assert "AWS_PROFILE" in done.stderr


def test_ctrl_c_during_the_download_ends_it_and_makes_no_run(sandbox: CliSandbox) -> None:
    asked, hang = threading.Event(), threading.Event()

    def answer(key: str, *_: object) -> Reply:
        if key:
            asked.set()
            hang.wait(600)
        return Reply(200, b"x") if key else listing({"data/a": b"x"})

    server = BadServer(answer)
    sandbox.environment |= {**CREDENTIALS, "AWS_ENDPOINT_URL": server.url}
    sandbox.write("train.py", SHOW)
    try:
        typed = sandbox.start("run", "train.py", "--input", "training=s3://rows/data/")
        assert asked.wait(120)
        typed.send_signal(signal.SIGINT)
        _, output = typed.communicate(timeout=300)
    finally:
        hang.set()
        server.stop()
    assert (typed.returncode, output) == (130, "")
    assert list(sandbox.runs.glob("*")) == []
    assert list((sandbox.home / ".cache" / "gpuproof" / "s3" / "partial").iterdir()) == []


def test_a_person_sees_a_progress_line(sandbox: CliSandbox, bucket: Bucket) -> None:
    bucket.put(**{"data/a": b"x" * 5000})
    sandbox.write("train.py", "")
    ours, theirs = pty.openpty()
    done = subprocess.Popen(
        [*GPUPROOF, "run", "train.py", "--input", f"training=s3://{bucket.name}/data"],
        cwd=sandbox.project,
        env={**sandbox._environment(), "TERM": "xterm", "COLUMNS": "120"},
        stdout=subprocess.DEVNULL,
        stderr=theirs,
    )
    os.close(theirs)
    seen = b""
    try:
        while content := os.read(ours, 1 << 16):
            seen += content
    except OSError:
        pass  # how a terminal says that the other side has gone
    os.close(ours)
    assert done.wait(300) == 0
    assert f"Downloading s3://{bucket.name}/data · 4.9 KiB of 4.9 KiB".encode() in seen
