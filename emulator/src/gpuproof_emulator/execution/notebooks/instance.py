"""One running notebook instance: its machine, its network, and the way to its Jupyter."""

from __future__ import annotations

import base64
import json
import os
import secrets
import shutil
import subprocess
import sys
import threading
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import IO, Any
from urllib.parse import urlsplit

from gpuproof.agent.hosts import Egress, HostNetwork, NetworkUnavailable
from gpuproof_emulator.context import Context
from gpuproof_emulator.execution.container_system import ContainerSystem
from gpuproof_emulator.execution.environment import (
    base_environment,
    interpreter_for,
    region_environment,
    role_environment,
)
from gpuproof_emulator.execution.host import Host
from gpuproof_emulator.execution.log_shipper import LogStream
from gpuproof_emulator.execution.network import Placement
from gpuproof_emulator.execution.notebooks.jupyter_api import write_certificate
from gpuproof_emulator.execution.notebooks.jupyter_relay import Relay, connect_unix, listen_tcp
from gpuproof_emulator.execution.notebooks.machine import new_token
from gpuproof_emulator.store import Resource

LOG_GROUP = "/aws/sagemaker/NotebookInstances"
HOME = "/home/ec2-user"
VOLUME = f"{HOME}/SageMaker"
_NAME = "notebook"
_PORT = 8888
_JUPYTER_S = 120.0
_OWN_FOLDERS = ("/tmp", "/var/lib", "/var/log", "/var/tmp")  # noqa: S108 - on the machine
# Lifecycle scripts run as root and change the user with it; here, all runs as one user.
_SUDO = """#!/bin/bash
while [ $# -gt 0 ]; do
    case "$1" in
        -u|-g|--user|--group) shift 2 ;;
        --) shift; break ;;
        -*) shift ;;
        *) break ;;
    esac
done
[ $# -gt 0 ] && exec "$@"
exec /bin/bash
"""


class MachineFailed(Exception):
    """A lifecycle script failed, or the machine cannot be started; the message is the reason."""


class NotebookMachine:
    """The machine of one notebook instance; everything on it ends with `end`.

    Args:
        context: the emulator's shared state.
        notebook: the notebook instance.
        folder: its volume and what the machine writes.
    """

    def __init__(self, context: Context, notebook: Resource, folder: Path) -> None:
        self._context = context
        self._notebook = notebook
        self._volume = folder / "volume"
        self._volume.mkdir(parents=True, exist_ok=True, mode=0o700)
        for disk in folder.glob("disk-*"):
            shutil.rmtree(disk, ignore_errors=True)  # only the volume survives a stop
        # Of its own: the machine of a notebook instance that was reset may still be about to start.
        self._disk = folder / f"disk-{secrets.token_hex(4)}"
        self._host = Host(_NAME, self._disk, self._ended)
        self._socket = self._disk / "jupyter.sock"
        self._network: HostNetwork | None = None
        self._relay: Relay | None = None
        self._token = new_token()
        self._report: dict[str, Any] = {}
        self._reported = threading.Event()
        self.jupyter_url: str | None = None
        """Where its Jupyter answers on loopback, with the token; None if it has none."""

    def start(self, hooks: Mapping[str, str], hook_seconds: float) -> None:
        """Start the machine, and wait until it is in service.

        Args:
            hooks: the scripts to run, in base64, by the name of their log.
            hook_seconds: time limit of each.

        Raises:
            MachineFailed: a script failed, or this machine does not allow it.
        """
        context, notebook = self._context, self._notebook
        environment = {
            **base_environment(context.options, _NAME, Path(HOME), os.environ),
            **region_environment(notebook.region),
            **role_environment(
                context.clients, notebook.region, notebook.document["RoleArn"], f"notebook-{notebook.name}"
            ),
            **self._join_network(),
            **context.options.environment,
        }
        self._host.system = self._system()
        self._write_metadata()
        spec = self._host.folder / "machine.json"
        spec.touch(mode=0o600)
        spec.write_text(
            json.dumps(
                {
                    "hooks": [
                        (name, base64.b64decode(text).decode(errors="replace"))
                        for name, text in hooks.items()
                    ],
                    "hook_seconds": hook_seconds,
                    "jupyter": self._jupyter(),
                }
            )
        )
        command = [sys.executable, "-m", "gpuproof_emulator.execution.notebooks.machine", str(spec)]
        placement = Placement() if self._network is None else Placement(self._network.entry(_NAME).to_json())
        self._host.start(command, environment, self._read_output, placement)
        self._reported.wait()
        if self._report.get("event") != "in-service":
            raise MachineFailed(self._report.get("problem") or self._why_ended())
        if self._report["jupyter"]:
            listener = listen_tcp()
            self._relay = Relay(listener, lambda: connect_unix(self._socket))
            self.jupyter_url = f"http://127.0.0.1:{listener.getsockname()[1]}/?token={self._token}"

    def end(self) -> None:
        """End everything on the machine, and wait for that."""
        if self._relay is not None:
            self._relay.close()
        self._host.kill()
        self._host.join()
        if self._network is not None:
            self._network.close()

    def _join_network(self) -> dict[str, str]:
        port = urlsplit(self._context.clients.url).port
        egress = Egress.from_environment(os.environ, [] if port is None else [port])
        try:
            self._network = HostNetwork.create([_NAME], egress)
        except NetworkUnavailable:
            return {}  # without a network of its own, the machine gets no Jupyter
        return dict(self._network.environment)

    def _system(self) -> ContainerSystem:
        home, programs = self._disk / "ec2-user", self._disk / "programs"
        for path in (home / "SageMaker", programs):
            path.mkdir(parents=True)
        sudo = programs / "sudo"
        sudo.write_text(_SUDO)
        sudo.chmod(0o755)
        return ContainerSystem(
            hostname=_NAME,
            stage=str(self._disk / "stage"),
            files={HOME: str(home), VOLUME: str(self._volume)},
            folders=tuple(path for path in _OWN_FOLDERS if Path(path).is_dir()),
            programs=str(programs),
        )

    def _write_metadata(self) -> None:
        """Write what a notebook instance knows about itself.

        Source: https://docs.aws.amazon.com/sagemaker/latest/dg/nbi-metadata.html
        """
        metadata = self._host.ml / "metadata"
        metadata.mkdir()
        names = {"ResourceArn": self._notebook.arn, "ResourceName": self._notebook.name}
        (metadata / "resource-metadata.json").write_text(json.dumps(names))

    def _jupyter(self) -> dict[str, Any] | None:
        python = interpreter_for(self._context.options, _NAME)
        command = jupyter_command(python)
        if command is None or self._network is None:
            return None
        certificate = self._disk / "localhost.pem"
        write_certificate(certificate)
        return {
            "command": command,
            "port": _PORT,
            "token": self._token,
            "certificate": str(certificate),
            "socket": str(self._socket),
            "root": VOLUME,
            "seconds": _JUPYTER_S,
        }

    def _read_output(self, output: IO[bytes]) -> None:
        role = self._notebook.document["RoleArn"]
        logs = self._context.clients.of_role(role, "logs", self._notebook.region)
        streams: dict[str, LogStream] = {}
        for line in output:
            try:
                document = json.loads(line)
            except ValueError:
                document = {"log": "machine", "text": line.decode(errors="replace").rstrip()}
            if "event" in document:
                self._report = document
                self._reported.set()
                continue
            name = f"{self._notebook.name}/{document['log']}"
            if name not in streams:
                streams[name] = LogStream(logs, LOG_GROUP, name)
            streams[name].add(document["text"].encode())
            streams[name].flush()

    def _ended(self) -> None:
        self._reported.set()

    def _why_ended(self) -> str:
        outcome = self._host.outcome
        return outcome.problem if outcome is not None and outcome.problem else "the machine was ended"


@lru_cache
def jupyter_command(python: str) -> list[str] | None:
    """The command that starts the Jupyter of an interpreter; None if it has none."""
    for module in ("jupyterlab", "jupyter_server"):
        found = subprocess.run(
            [
                python,
                "-c",
                f"import importlib.util, sys; sys.exit(importlib.util.find_spec({module!r}) is None)",
            ],
            capture_output=True,
            check=False,
        )
        if found.returncode == 0:
            options = (
                "--no-browser",
                "--allow-root",
                "--ServerApp.ip=127.0.0.1",
                "--ServerApp.port_retries=0",
            )
            return [python, "-m", module, *options]
    return None
