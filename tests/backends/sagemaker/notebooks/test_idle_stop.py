"""Idle auto-stop on an emulated machine: the real script and agent, with a real Jupyter."""

from __future__ import annotations

import json
import urllib.request
from contextlib import suppress
from typing import Any

import pytest

from support.cli_sandbox import until
from support.notebook_sandbox import NOTHING, NotebookSandbox

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def emulator_options() -> dict[str, Any]:
    """The interpreter of the tests has JupyterLab."""
    pytest.importorskip("jupyterlab")
    return {}


def test_an_idle_instance_stops_itself_and_says_why(sandbox: NotebookSandbox) -> None:
    sandbox.create(sandbox.plan(idle=6))
    sandbox.reaches("Stopped")
    assert "Stopping: idle for 6.0 s: no kernel was busy and no GPU worked." in sandbox.log()
    # What the user reads on the volume.
    volume = next((sandbox.emulator.state / "notebooks").rglob("volume"))
    assert "stops after 6 s" in (volume / "gpuproof.log").read_text()
    sandbox.notebook().delete()
    assert sandbox.exists() == NOTHING


def test_a_kernel_that_computes_keeps_it_running_until_it_is_idle(sandbox: NotebookSandbox) -> None:
    websocket = pytest.importorskip("websocket")
    sandbox.create(sandbox.plan(idle=6))
    base, token = jupyter(sandbox)
    request = urllib.request.Request(f"{base}api/kernels?token={token}", b"{}", method="POST")
    with urllib.request.urlopen(request, timeout=120) as answer:
        kernel = json.loads(answer.read())["id"]
    address = f"{base.replace('http:', 'ws:')}api/kernels/{kernel}/channels?token={token}"
    connection = websocket.create_connection(address, timeout=120)
    connection.send(
        json.dumps(_execution("import os, time\nwhile not os.path.exists('enough'): time.sleep(0.1)"))
    )
    until(lambda: _state(base, token) == ["busy"], "the kernel's work")
    sandbox.stays_in_service(15)
    volume = next((sandbox.emulator.state / "notebooks").rglob("volume"))
    (volume / "enough").touch()
    sandbox.reaches("Stopped")
    with suppress(OSError):
        connection.close()


def jupyter(sandbox: NotebookSandbox) -> tuple[str, str]:
    """Address and token of its Jupyter."""

    class NoRedirect(urllib.request.HTTPRedirectHandler):
        def redirect_request(self, *_: Any) -> None:
            """Not followed."""

    try:
        urllib.request.build_opener(NoRedirect()).open(sandbox.notebook().open())
    except urllib.error.HTTPError as redirect:
        base, _, token = redirect.headers["Location"].partition("?token=")
        return base, token
    pytest.skip("this machine allows no network namespaces")


def _state(base: str, token: str) -> list[str]:
    with urllib.request.urlopen(f"{base}api/kernels?token={token}", timeout=120) as answer:
        return [load["execution_state"] for load in json.loads(answer.read())]


def _execution(code: str) -> dict[str, Any]:
    """A message of Jupyter's protocol: https://jupyter-client.readthedocs.io/en/stable/messaging.html"""
    content = {
        "code": code,
        "silent": False,
        "store_history": False,
        "user_expressions": {},
        "allow_stdin": False,
    }
    header = {
        "msg_id": "1",
        "msg_type": "execute_request",
        "username": "",
        "session": "s",
        "version": "5.3",
        "date": "",
    }
    return {
        "header": header,
        "parent_header": {},
        "metadata": {},
        "content": content,
        "channel": "shell",
        "buffers": [],
    }
