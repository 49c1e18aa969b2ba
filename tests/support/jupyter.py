"""A real Jupyter server of this environment, and work in its kernels."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jupyter_client.blocking.client import BlockingKernelClient

from support.ports import free_port

TOKEN = "secret-of-this-test"
_LIMIT_S = 300.0


@dataclass(frozen=True)
class Server:
    """A running server.

    Args:
        url: its address.
        token: its token.
        runtime: the folder with the connection files of its kernels.
        process: its process id.
    """

    url: str
    token: str
    runtime: Path
    process: int

    def request(self, method: str, path: str, body: Any = None) -> Any:
        """Ask its REST API."""
        request = urllib.request.Request(
            f"{self.url}{path}",
            data=None if body is None else json.dumps(body).encode(),
            headers={"Authorization": f"token {self.token}"},
            method=method,
        )
        with urllib.request.urlopen(request, timeout=_LIMIT_S) as answer:
            return json.loads(answer.read() or b"null")

    def start_kernel(self) -> str:
        """Start a Python kernel and return its id."""
        return self.request("POST", "api/kernels", {"name": "python3"})["id"]

    def kernel_state(self, kernel: str) -> str:
        """`starting`, `idle` or `busy`."""
        return self.request("GET", f"api/kernels/{kernel}")["execution_state"]

    def execute(self, kernel: str, code: str) -> None:
        """Start to execute code in a kernel, as a notebook does; returns when the kernel is ready to do it."""
        until = time.monotonic() + _LIMIT_S
        while True:
            client = BlockingKernelClient()
            client.load_connection_file(str(self.runtime / f"kernel-{kernel}.json"))
            client.start_channels()
            try:
                client.wait_for_ready(timeout=_LIMIT_S)
                client.execute(code)
                return
            except RuntimeError:
                # On a busy machine, a heartbeat that takes longer than a second is taken for the end of the kernel.
                if time.monotonic() > until:
                    raise
            finally:
                client.stop_channels()


def jupyter_environment(folder: Path) -> dict[str, str]:
    """Variables that keep Jupyter's own files in a folder."""
    names = ("JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR", "IPYTHONDIR", "HOME")
    for name in names:
        (folder / name.lower()).mkdir(parents=True, exist_ok=True)
    return {name: str(folder / name.lower()) for name in names}


@contextmanager
def jupyter_server(folder: Path) -> Generator[Server]:
    """A server that is ready, in a process group of its own, which ends with the block."""
    port = free_port()
    own = jupyter_environment(folder)
    command = [
        sys.executable,
        "-m",
        "jupyter_server",
        "--no-browser",
        f"--ServerApp.port={port}",
        "--ip=127.0.0.1",
    ]
    process = subprocess.Popen(
        [*command, "--allow-root", f"--ServerApp.root_dir={folder}"],
        env={**os.environ, **own, "JUPYTER_TOKEN": TOKEN},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    server = Server(f"http://127.0.0.1:{port}/", TOKEN, Path(own["JUPYTER_RUNTIME_DIR"]), process.pid)
    try:
        wait_until(lambda: server_answers(server))
        yield server
    finally:
        # The server ends its kernels.
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def wait_until(condition: Callable[[], Any], limit_s: float = _LIMIT_S) -> None:
    """Wait until a condition holds; fails after a generous time."""
    until = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < until, "it did not happen in time"
        time.sleep(0.05)


def server_answers(server: Server) -> bool:
    """Whether it is ready."""
    try:
        server.request("GET", "api/status")
    except OSError:
        return False
    return True
