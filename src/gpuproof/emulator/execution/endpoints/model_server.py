"""Containers of models: GPUproof's own server in a private `/opt/ml`, started, waited for, and started again if it dies."""

from __future__ import annotations

import http.client
import os
import secrets
import shutil
import signal
import threading
import time
from collections.abc import Callable
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING

from gpuproof.emulator.endpoints import ModelContainer, ServingFailed
from gpuproof.emulator.execution.agent_archive import AGENT, put_agent
from gpuproof.emulator.execution.endpoints.invocations import Target, forward
from gpuproof.emulator.execution.endpoints.model_files import bring_model, bring_source
from gpuproof.emulator.execution.host import Host
from gpuproof.emulator.execution.interpreters import base_environment
from gpuproof.emulator.execution.jobs.instances import CANNOT_START, region_environment, role_environment
from gpuproof.emulator.execution.jobs.log_shipper import LogStream
from gpuproof.emulator.protocol import Answer, AwsError, AwsRequest

if TYPE_CHECKING:
    from gpuproof.emulator.emulator import Emulator

_UNHEALTHY = (
    "The primary container for production variant {variant} did not pass the ping health check. Please check CloudWatch "
    "logs for this endpoint."
)
_LOST = "InternalServerError: We encountered an internal error. Please try again. ({why})"
_LOOK_S = 0.05
_PING_S = 2.0  # https://docs.aws.amazon.com/sagemaker/latest/dg/your-algorithms-inference-code.html
_STOP_S = 30.0  # the same page: SIGKILL follows SIGTERM after 30 seconds
_AGAIN_S = 1.0


class GPUproofServer:
    """Starts containers of models.

    Args:
        emulator: everything there is.
    """

    def __init__(self, emulator: Emulator) -> None:
        self._emulator = emulator
        self._live: set[_Container] = set()
        self._lock = threading.Lock()
        self._ended = False

    def start(self, container: ModelContainer) -> _Container:
        """Start a container and wait until it answers `/ping`.

        Raises:
            ServingFailed: it does not; the message is the endpoint's FailureReason.
        """
        made = _Container(self._emulator, container, self._live.discard)
        with self._lock:
            if self._ended:
                raise ServingFailed(_LOST.format(why="the emulator ends"))
            self._live.add(made)
        try:
            made.bring()
            made.launch()
            made.wait_until_healthy()
        except BaseException:
            made.kill()
            raise
        return made

    def shutdown(self) -> None:
        """End all containers at once."""
        with self._lock:
            self._ended = True
            live = list(self._live)
        for container in live:
            container.kill()


class _Container:
    """One container.

    Args:
        emulator: everything there is.
        asked: what to start.
        gone: called once the container is no more.
    """

    def __init__(self, emulator: Emulator, asked: ModelContainer, gone: Callable[[_Container], None]) -> None:
        self._emulator = emulator
        self._asked = asked
        self._gone = gone
        instance = f"i-{secrets.token_hex(9)[:17]}"
        self._group = f"/aws/sagemaker/Endpoints/{asked.endpoint}"
        self._stream = f"{asked.variant}/{instance}"
        self._folder = asked.folder / instance
        self._environment: dict[str, str] = {}
        self._lock = threading.Lock()
        self._changed = threading.Event()
        self._ending = False
        self._healthy = False
        self._host = Host(instance, self._folder, self._host_ended)

    def bring(self) -> None:
        """Lay out the disk.

        Raises:
            ServingFailed: the model is not to be had.
        """
        asked, host = self._asked, self._host
        put_agent(self._emulator.options.state, self._folder)
        s3 = self._emulator.clients.get("s3", asked.region)
        if asked.model_data is not None:
            bring_model(s3, asked.model_data, self._folder, host.ml)
        own = bring_source(s3, asked.environment, self._folder, host.ml)
        options = self._emulator.options
        self._environment = {
            **base_environment(options, asked.image, host.home, os.environ),
            **options.environment,
            **region_environment(asked.region),
            "SAGEMAKER_REGION": asked.region,
            **self._credentials(),
            **own,
        }

    def launch(self) -> None:
        """Start the server, unless the container is to end."""
        with self._lock:
            if self._ending:
                return
            self._host = Host(self._host.name, self._folder, self._host_ended)
            self._port_file.unlink(missing_ok=True)
            logs = self._emulator.clients.get("logs", self._asked.region)
            sink = LogStream(logs, self._group, self._stream).copy
            self._host.start(self._command(), self._environment, sink)

    def wait_until_healthy(self) -> None:
        """Wait until the server answers `/ping`.

        Raises:
            ServingFailed: it ended first, took too long, or the emulator ends.
        """
        deadline = time.monotonic() + self._asked.startup
        while time.monotonic() < deadline and not self._ending and self._host.outcome is None:
            if self._answers_ping():
                self._healthy = True
                return
            self._changed.wait(_LOOK_S)
        outcome = self._host.outcome
        if self._ending or (outcome is not None and outcome.ours):
            why = outcome.problem if outcome is not None else "the emulator ends"
            raise ServingFailed(_LOST.format(why=why))
        if outcome is not None and outcome.code is None:
            raise ServingFailed(CANNOT_START.format(problem=outcome.problem))
        raise ServingFailed(_UNHEALTHY.format(variant=self._asked.variant))

    def invoke(self, request: AwsRequest) -> Answer:
        """The container's own answer to an invocation."""
        port = self._port()
        if port is None:
            raise AwsError("ServiceUnavailable", "The container is being started again.", 503)
        asked = self._asked
        return forward(request, Target(port, asked.variant, asked.region, self._group, self._stream))

    def stop(self) -> None:
        """Let running requests end, then end everything."""
        with self._lock:
            self._ending = True
        self._changed.clear()
        if self._host.outcome is None:
            self._host.signal(signal.SIGTERM)
            self._changed.wait(min(_STOP_S, self._emulator.options.stop_grace))
        self.kill()

    def kill(self) -> None:
        """End everything at once."""
        with self._lock:
            self._ending = True
            self._host.kill()
        self._changed.set()
        self._host.join()
        shutil.rmtree(self._folder, ignore_errors=True)
        self._gone(self)

    @property
    def _port_file(self) -> Path:
        return self._folder / "port"

    def _command(self) -> list[str]:
        address = ["--host", "127.0.0.1", "--port", "0", "--ready-fd", "3"]
        serve = ["python3", str(self._folder / AGENT), "serve", *address]
        return ["/bin/sh", "-c", 'exec "$@" 3>"$0"', str(self._port_file), *serve, "--leave-on-failure"]

    def _credentials(self) -> dict[str, str]:
        if self._asked.role is None:
            return {"AWS_ENDPOINT_URL": self._emulator.clients.url}
        return role_environment(
            self._emulator.clients, self._asked.region, self._asked.role, self._asked.endpoint
        )

    def _port(self) -> int | None:
        """Where the server listens; None until it does."""
        try:
            told = self._port_file.read_text(encoding="ascii")
        except OSError:
            return None
        return int(told) if told.endswith("\n") else None

    def _answers_ping(self) -> bool:
        port = self._port()
        if port is None:
            return False
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=_PING_S)
        try:
            connection.request("GET", "/ping")
            return connection.getresponse().status == HTTPStatus.OK
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()

    def _host_ended(self) -> None:
        self._changed.set()
        with self._lock:
            again = self._healthy and not self._ending
        if again:
            # SageMaker starts a container that ended again.
            timer = threading.Timer(_AGAIN_S, self.launch)
            timer.daemon = True
            timer.start()
