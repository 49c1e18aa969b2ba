"""What a traced script sends: it may read, and nothing changes elsewhere."""

from __future__ import annotations

import http.server
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

SCRIPT = """
import asyncio, os, subprocess, sys, urllib.request
from gpuproof.trace.notes import Notes
from gpuproof.trace.uploads import Uploads

notes = Notes()
Uploads(notes).install()
url = sys.argv[1]
{body}
for note in notes.list():
    print(note.code, note.message.replace(url.partition("//")[2], "HOST"))
"""


@pytest.fixture
def server() -> Iterator[tuple[str, list[str]]]:
    requests: list[str] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def answer(self) -> None:
            requests.append(f"{self.command} {self.path}")
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            self.send_response(200)
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"ok")

        do_GET = do_POST = do_PUT = do_DELETE = answer  # noqa: N815 - the names that the base class calls

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as running:
        threading.Thread(target=running.serve_forever, args=(0.01,), daemon=True).start()
        yield f"http://127.0.0.1:{running.server_port}", requests
        running.shutdown()


def run(folder: Path, body: str, url: str = "http://127.0.0.1:9") -> list[str]:
    """What the program prints, and then its notes; programs named below write their arguments to `ran`."""
    for name in ("aws", "git", "rm", "rsync"):
        program = folder / name
        program.write_text(f'#!/bin/sh\necho "{name} $*" >> "{folder}/ran"\n')
        program.chmod(0o755)
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT.format(body=body), url],
        env={**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"},
        cwd=folder, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE"])
def test_a_request_that_changes_something_is_not_sent(
    tmp_path: Path, server: tuple[str, list[str]], method: str
) -> None:
    body = f"""
print(urllib.request.urlopen(url + "/data").read())
try:
    urllib.request.urlopen(urllib.request.Request(url + "/model?key=1", data=b"x", method="{method}"))
except OSError as error:
    print(error)
"""
    url, requests = server
    read, error, note = run(tmp_path, body, url)
    assert read == "b'ok'"
    assert "gpuproof plan sends nothing" in error
    assert note == f"upload {method} HOST/model was not sent."
    assert requests == ["GET /data"]


def test_asyncio_sends_nothing_either(tmp_path: Path, server: tuple[str, list[str]]) -> None:
    body = """
async def post():
    host, port = url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(b"POST /a HTTP/1.1\\r\\nHost: " + host.encode() + b"\\r\\nContent-Length: 0\\r\\n\\r\\n")
    await writer.drain()
    print(await reader.read())

try:
    asyncio.run(post())
except OSError:
    print("not sent")
"""
    url, requests = server
    assert run(tmp_path, body, url)[-1] == "upload POST 127.0.0.1/a was not sent."
    assert requests == []


def test_operations_of_aws_that_read_are_sent(tmp_path: Path, server: tuple[str, list[str]]) -> None:
    body = """
for operation in ("DescribeTrainingJob", "CreateTrainingJob"):
    headers = {"X-Amz-Target": f"SageMaker.{operation}"}
    try:
        print(urllib.request.urlopen(urllib.request.Request(url + "/", data=b"{}", headers=headers)).read())
    except OSError as error:
        print("not sent")
"""
    url, requests = server
    assert run(tmp_path, body, url)[:2] == ["b'ok'", "not sent"]
    assert requests == ["POST /"]


@pytest.mark.parametrize(
    "command",
    [
        '["aws", "s3", "cp", "model.pt", "s3://bucket/model.pt"]',
        '["aws", "s3api", "put-object", "--bucket", "b", "--key", "a/b"]',
        '["aws", "s3", "sync", "--quiet", "out", "s3://bucket/out", "--region", "eu-west-1"]',
        '["aws", "s3", "rm", "s3://bucket/out", "--recursive"]',
        '["rsync", "-a", "out/", "host:out"]',
        '["git", "push", "origin"]',
        '["rm", "-rf", "out"]',
        '"rm -rf out", shell=True',
    ],
)
def test_programs_that_upload_or_delete_are_not_run(tmp_path: Path, command: str) -> None:
    shown, note = run(
        tmp_path, f"print(subprocess.run({command}, capture_output=True, text=True).returncode)"
    )
    assert shown == "0"
    assert note.startswith("upload ")
    assert note.endswith(" was not run.")
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    "command", ["aws s3 cp s3://bucket/data.csv data.csv", "aws s3 ls s3://bucket", "git rev-parse HEAD"]
)
def test_programs_that_read_are_run(tmp_path: Path, command: str) -> None:
    assert run(tmp_path, f"subprocess.run({command.split()!r}, check=True)\nos.system({command!r})") == []
    assert (tmp_path / "ran").read_text().splitlines() == [command, command]
