"""`gpuproof run --on ec2 --jupyter` from the command to JupyterLab in the browser's place, and to the end of the machine.

The instance boots in the emulator and runs a real JupyterLab. The real AWS CLI opens the session; in place of the Session Manager
plugin, a program forwards connections into the instance's network.
"""

from __future__ import annotations

import json
import os
import re
import signal
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.aws_cli import aws_cli
from support.aws_emulator import RunningEmulator
from support.booting_account import Project, booting_account
from support.faulty_aws import FaultyAws, json_answer
from support.jupyter import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("machine")]

_PATIENCE_S = 300.0
_URL = re.compile(r"(http://127\.0\.0\.1:\d+)/lab\?token=([\w-]{20,})")
_SESSION = {"SessionId": "me-0123", "TokenValue": "secret", "StreamUrl": "wss://sessions.invalid/"}
JOB = """
kind: machine
name: workbench
source_dir: .
framework: pytorch
instance_type: g5.xlarge
idle_timeout: 1h
max_duration: 2h
"""
# Enters the network of the instance for each connection, in a process of its own.
PLUGIN = """#!{python} -P
import json, os, pathlib, signal, socket, sys, threading
from gpuproof.agent.hosts import HostEntry, enter_host
if sys.argv[1:] == ["--version"]:
    print("1.2.707.0")
    sys.exit()
def about(name):
    for word in sys.argv[1:]:
        if name in word:
            return json.loads(word)
    raise SystemExit(f"no {{name}} in {{sys.argv}}")
session = about("Target")
ports = session["Parameters"]
spec = json.loads(pathlib.Path({folder!r}, session["Target"], "spec.json").read_text())
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
server = socket.create_server(("127.0.0.1", int(ports["localPortNumber"][0])))
def copy(source, sink):
    try:
        while data := source.recv(65536):
            sink.sendall(data)
        sink.shutdown(socket.SHUT_WR)
    except OSError:
        pass
while True:
    here, _ = server.accept()
    if os.fork() == 0:
        server.close()
        enter_host(HostEntry.from_json(spec["entry"]))
        there = socket.create_connection(("127.0.0.1", int(ports["portNumber"][0])))
        back = threading.Thread(target=copy, args=(there, here))
        back.start()
        copy(here, there)
        back.join()
        os._exit(0)
    here.close()
"""


@pytest.fixture(scope="module")
def account(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningEmulator]:
    pytest.importorskip("jupyterlab")
    with booting_account(tmp_path_factory.mktemp("account")) as emulator:
        yield emulator


@pytest.fixture
def project(account: RunningEmulator, tmp_path: Path) -> Iterator[Project]:
    """A project whose commands reach Systems Manager, and find the AWS CLI and the plugin."""
    programs = tmp_path / "programs"
    programs.mkdir()
    for name, text in {
        "aws": f'#!/bin/sh\nexec {aws_cli()} "$@"\n',
        "session-manager-plugin": PLUGIN.format(python=sys.executable, folder=str(account.state / "ec2")),
    }.items():
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)
    with FaultyAws(account.url) as ssm:
        ssm.fault("GetConnectionStatus", json_answer({"Target": "i", "Status": "connected"}), None)
        ssm.fault("StartSession", json_answer(_SESSION), None)
        more = {"AWS_ENDPOINT_URL_SSM": ssm.url, "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}"}
        made = Project(account, tmp_path / "project", more)
        yield made
        made.assert_only_runs_are_left()


def test_a_machine_opens_jupyter_keeps_running_after_ctrl_c_and_is_stopped(
    project: Project, tmp_path: Path
) -> None:
    project.write("print('hello')\n", JOB)
    output = tmp_path / "output"
    client = project.start("run", "--on", "ec2", "--jupyter", "--no-check", output=output)

    def is_open() -> bool:
        return _URL.search(output.read_text()) is not None or client.poll() is not None

    wait_until(is_open, _PATIENCE_S)
    found = _URL.search(output.read_text())
    assert found is not None, f"{output.read_text()}\n{project.consoles()}"
    address, token = found[1], found[2]
    with urllib.request.urlopen(f"{address}/api/contents?token={token}", timeout=_PATIENCE_S) as answer:
        files = [item["name"] for item in json.load(answer)["content"]]
    assert "train.py" in files
    client.send_signal(signal.SIGINT)
    assert client.wait(_PATIENCE_S) == 130
    assert "keeps running" in output.read_text()
    (instance,) = project.instances("running")
    (run,) = json.loads(project.run("ps", "--on", "ec2", "--format", "json"))["runs"]
    assert (run["status"], run["kind"]) == ("InProgress", "machine")
    project.run("stop", run["id"])
    assert "Stopped" in project.run("wait", run["id"], code=1)
    project.wait_until_terminated()
    assert project.instances("terminated") == [instance]
    project.run("pull", run["id"], "--to", str(tmp_path / "pulled"))
    kept = list((tmp_path / "pulled").rglob("train.py"))
    assert [path.read_text() for path in kept] == ["print('hello')\n"]
    assert token not in project.run("logs", run["id"])
    assert token not in project.run("show", run["id"])
