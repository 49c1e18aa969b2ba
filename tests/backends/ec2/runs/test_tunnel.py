"""`gpuproof shell --jupyter` and `--forward`: the real AWS CLI opens the tunnel, up to the plugin, which forwards TCP."""

from __future__ import annotations

import http.server
import json
import os
import re
import signal
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gpuproof.agent.machine.files import SERVER
from gpuproof.backends.remote.s3_layout import RunLayout
from support.aws_cli import aws_cli
from support.faulty_aws import FaultyAws, json_answer
from support.jupyter import wait_until

pytestmark = pytest.mark.slow

TOKEN = "the-token-of-this-machine"
_PATIENCE_S = 300.0
_SESSION = {"SessionId": "me-0123", "TokenValue": "secret", "StreamUrl": "wss://sessions.invalid/"}
_PLUGIN = '''#!{python}
"""Forwards the local port of the session's parameters to the same port as the instance's: INSTANCE_PORT."""
import json, os, socket, sys, threading
if sys.argv[1:] == ["--version"]:
    print("1.2.707.0")
    sys.exit()
open(os.environ["PLUGIN_PIDS"], "a").write(f"{{os.getpid()}}\\n")
parameters = json.loads(next(word for word in sys.argv if "localPortNumber" in word))["Parameters"]
server = socket.create_server(("127.0.0.1", int(parameters["localPortNumber"][0])))
def copy(source, sink):
    try:
        while data := source.recv(65536):
            sink.sendall(data)
        sink.shutdown(socket.SHUT_WR)
    except OSError:
        pass
while True:
    here, _ = server.accept()
    there = socket.create_connection(("127.0.0.1", int(os.environ["INSTANCE_PORT"])))
    for pair in ((here, there), (there, here)):
        threading.Thread(target=copy, args=pair, daemon=True).start()
'''


class _Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"from the instance")

    def log_message(self, *_: Any) -> None:  # type: ignore[override]
        pass


@pytest.fixture
def server() -> Iterator[int]:
    """What listens on the instance; its port."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Handler) as running:
        threading.Thread(target=running.serve_forever, daemon=True).start()
        yield running.server_address[1]
        running.shutdown()


@pytest.fixture
def ssm(ec2: Any) -> Iterator[FaultyAws]:
    with FaultyAws(ec2.emulator.url) as proxy:
        connected = json_answer({"Target": "i", "Status": "connected", "LastConnected": None})
        proxy.fault("GetConnectionStatus", connected, None)
        proxy.fault("StartSession", json_answer(_SESSION), None)
        yield proxy


class Client:
    """`gpuproof shell` in a process of its own; its output goes into a file."""

    def __init__(self, folder: Path, ssm: FaultyAws, port: int) -> None:
        if not aws_cli():
            pytest.skip("the AWS CLI is not installed, and cannot be")
        self.folder = folder
        for name, text in {
            "aws": f'#!/bin/sh\nexec {aws_cli()} "$@"\n',
            "session-manager-plugin": _PLUGIN.format(python=sys.executable),
        }.items():
            (folder / name).write_text(text)
            (folder / name).chmod(0o755)
        self._environment = {
            **os.environ,
            "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}",
            "AWS_ENDPOINT_URL_SSM": ssm.url,
            "INSTANCE_PORT": str(port),
            "PLUGIN_PIDS": str(folder / "pids"),
        }
        self.process: subprocess.Popen[bytes] | None = None

    def start(self, *words: str) -> None:
        with (self.folder / "output").open("wb") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "gpuproof", "shell", *words],
                env=self._environment,
                stdout=output,
                stderr=subprocess.STDOUT,
            )

    @property
    def output(self) -> str:
        return (self.folder / "output").read_text()

    @property
    def plugins(self) -> list[int]:
        pids = self.folder / "pids"
        return [int(line) for line in pids.read_text().split()] if pids.exists() else []

    def found(self, pattern: str) -> str:
        """The first match of a pattern in the output, as soon as there is one."""
        wait_until(lambda: re.search(pattern, self.output) or self._ended(), _PATIENCE_S)
        match = re.search(pattern, self.output)
        assert match is not None, self.output
        return match[0]

    def _ended(self) -> bool:
        return self.process is not None and self.process.poll() is not None


@pytest.fixture
def client(tmp_path: Path, ssm: FaultyAws, server: int) -> Iterator[Client]:
    made = Client(tmp_path, ssm, server)
    yield made
    if made.process is not None:
        if made.process.poll() is None:
            made.process.send_signal(signal.SIGINT)
        made.process.wait(_PATIENCE_S)


def fetch(url: str) -> bytes:
    with urllib.request.urlopen(url, timeout=_PATIENCE_S) as answer:
        return answer.read()


def test_the_jupyter_server_of_a_machine_is_opened_from_any_computer(
    ec2: Any, client: Client, ssm: FaultyAws, server: int
) -> None:
    launch = ec2.launch(kind="machine")
    ec2.boot(launch)
    content = json.dumps({"version": 1, "port": server, "token": TOKEN}).encode()
    ec2.emulator.client("s3").put_object(
        Bucket=launch.bucket, Key=RunLayout(launch.run_id).host_file("algo-1", SERVER), Body=content
    )
    client.start(launch.run_id, "--jupyter")
    url = client.found(r"http://127\.0\.0\.1:\d+/lab\?token=\S+")
    assert url.endswith(f"token={TOKEN}")
    assert fetch(url) == b"from the instance"
    (request,) = [request for request in ssm.requests if request.operation == "StartSession"]
    local = url.split(":")[2].split("/")[0]
    assert request.json() == {
        "Target": launch.instances[0],
        "DocumentName": "AWS-StartPortForwardingSession",
        "Parameters": {"portNumber": [str(server)], "localPortNumber": [local]},
    }
    lines = [path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline") if path.exists()]
    assert not [line for line in lines if TOKEN.encode() in line]
    # Systems Manager ends idle sessions, and networks fail.
    os.kill(client.plugins[0], signal.SIGKILL)
    client.found("the tunnel was interrupted and is open again")
    assert fetch(url) == b"from the instance"
    assert client.process is not None
    client.process.send_signal(signal.SIGINT)
    assert client.process.wait(_PATIENCE_S) == 130
    wait_until(lambda: not [pid for pid in client.plugins if Path(f"/proc/{pid}").exists()], _PATIENCE_S)


def test_any_port_can_be_forwarded(ec2: Any, client: Client, server: int) -> None:
    launch = ec2.launch()
    ec2.boot(launch)
    client.start(launch.run_id, "--forward", str(server))
    line = client.found(r"127\.0\.0\.1:\d+ is port")
    assert fetch(f"http://{line.split()[0]}/") == b"from the instance"


def test_a_run_without_jupyter_is_named(ec2: Any, client: Client) -> None:
    launch = ec2.launch()
    ec2.boot(launch)
    client.start(launch.run_id, "--jupyter")
    assert client.process is not None
    assert client.process.wait(_PATIENCE_S) == 1
    assert "has no Jupyter server" in client.output
