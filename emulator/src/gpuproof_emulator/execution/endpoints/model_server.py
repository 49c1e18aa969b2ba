"""Containers of models: GPUproof's server in a private `/opt/ml`, restarted if it exits."""

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

from gpuproof.agent.hosts import HostNetwork, NetworkUnavailable
from gpuproof_emulator.context import Context
from gpuproof_emulator.execution.agent_archive import place_agent
from gpuproof_emulator.execution.endpoints.container_spec import ContainerSpec, ServingFailed
from gpuproof_emulator.execution.endpoints.entry_point import command, place_entry_point
from gpuproof_emulator.execution.endpoints.invocations import RESPONSE_TIMEOUT_S, InvocationTarget, forward
from gpuproof_emulator.execution.endpoints.model_files import (
    download_additional,
    download_model,
    download_source,
)
from gpuproof_emulator.execution.endpoints.multi_model import MultiModel
from gpuproof_emulator.execution.endpoints.unix_connection import UnixConnection
from gpuproof_emulator.execution.environment import base_environment, region_environment, role_environment
from gpuproof_emulator.execution.host import Host, cannot_start
from gpuproof_emulator.execution.log_shipper import LogStream
from gpuproof_emulator.execution.network import Placement
from gpuproof_emulator.execution.utilization import InstanceMonitor, Series, volume_bytes
from gpuproof_emulator.protocol import AwsError, AwsRequest, AwsResponse

_UNHEALTHY = (
    "The primary container for production variant {variant} did not pass the ping health check. Please check CloudWatch "
    "logs for this endpoint."
)
_INTERNAL_ERROR = "InternalServerError: We encountered an internal error. Please try again. ({why})"
_SOCKET = ".invocations.sock"
_MULTI_MODEL = "SAGEMAKER_MULTI_MODEL"
_POLL_S = 0.05
_PING_S = 2.0  # https://docs.aws.amazon.com/sagemaker/latest/dg/your-algorithms-inference-code.html
_STOP_S = 30.0  # same page: SIGKILL follows SIGTERM after 30 seconds
_RESTART_DELAY_S = 1.0


class GPUproofServer:
    """Starts containers of models.

    Args:
        context: the emulator's shared state.
    """

    def __init__(self, context: Context) -> None:
        self._context = context
        self._live: set[_Container] = set()
        self._lock = threading.Lock()
        self._shut_down = False

    def start(self, spec: ContainerSpec) -> _Container | MultiModel:
        """Start a container and wait until it responds to `/ping`.

        Raises:
            ServingFailed: it does not; the message is the endpoint's FailureReason.
        """
        container = _Container(self._context, spec, self._live.discard)
        with self._lock:
            if self._shut_down:
                raise ServingFailed(_INTERNAL_ERROR.format(why="the emulator is shutting down"))
            self._live.add(container)
        try:
            container.prepare()
            container.launch()
            container.wait_until_healthy()
        except BaseException:
            container.kill()
            raise
        if spec.models:
            s3 = self._context.clients.of_role(spec.role, "s3", spec.region)
            return MultiModel(container, s3, spec.models, container.folder)
        return container

    def shutdown(self) -> None:
        """Kill all containers."""
        with self._lock:
            self._shut_down = True
            live = list(self._live)
        for container in live:
            container.kill()


class _Container:
    """One container.

    Args:
        context: the emulator's shared state.
        spec: what to start.
        on_exit: called after the container has ended.
    """

    def __init__(self, context: Context, spec: ContainerSpec, on_exit: Callable[[_Container], None]) -> None:
        self._context = context
        self._spec = spec
        self._on_exit = on_exit
        instance = f"i-{secrets.token_hex(9)[:17]}"
        self._group = spec.log_group or f"/aws/sagemaker/Endpoints/{spec.endpoint}"
        job_stream = f"{spec.endpoint}/{instance}-{int(time.time())}"
        self._stream = job_stream if spec.log_group else f"{spec.variant}/{instance}"
        self._folder = spec.folder / instance
        self._environment: dict[str, str] = {}
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._stopping = False
        self._healthy = False
        self._network: HostNetwork | None = None
        self._host = Host(instance, self._folder, self._on_host_exit)
        self._monitor: InstanceMonitor | None = None

    def prepare(self) -> None:
        """Prepare the disk.

        Raises:
            ServingFailed: the model or its source is not available.
        """
        spec, host = self._spec, self._host
        place_agent(self._context.options.state, self._folder)
        place_entry_point(self._folder)
        s3 = self._context.clients.of_role(spec.role, "s3", spec.region)
        if spec.model_data is not None:
            download_model(s3, spec.model_data, self._folder, host.ml)
        if spec.models:
            (host.ml / "models").mkdir()
        download_additional(s3, spec.additional, self._folder, host.ml)
        own = download_source(s3, spec.environment, self._folder, host.ml)
        options = self._context.options
        self._environment = {
            **base_environment(options, spec.image, host.home, os.environ),
            **options.environment,
            **({_MULTI_MODEL: "true"} if spec.models else {}),
            **region_environment(spec.region),
            "SAGEMAKER_REGION": spec.region,
            **self._credentials(),
            **own,
            "GPUPROOF_SERVE_HOST": f"/opt/ml/{_SOCKET}",
        }

    def launch(self) -> None:
        """Start the server, unless the container is being stopped."""
        with self._lock:
            if self._stopping:
                return
            self._host = Host(self._host.name, self._folder, self._on_host_exit)
            logs = self._context.clients.of_role(self._spec.role, "logs", self._spec.region)
            sink = LogStream(logs, self._group, self._stream).copy
            if self._spec.isolated and self._network is None:
                self._network = _isolated_network(self._host.name)
            entry = None if self._network is None else self._network.entry(self._host.name).to_json()
            self._host.start(command(self._folder), self._environment, sink, Placement(entry))
            self._start_monitor()

    def wait_until_healthy(self) -> None:
        """Wait until the server responds to `/ping`.

        Raises:
            ServingFailed: it exits first, takes too long, or the emulator shuts down.
        """
        deadline = time.monotonic() + self._spec.startup_timeout
        while time.monotonic() < deadline and not self._stopping and self._host.outcome is None:
            if self._is_healthy():
                self._healthy = True
                return
            self._wake.wait(_POLL_S)
        outcome = self._host.outcome
        if self._stopping or (outcome is not None and outcome.internal):
            why = outcome.problem if outcome is not None else "the emulator is shutting down"
            raise ServingFailed(_INTERNAL_ERROR.format(why=why))
        if outcome is not None and outcome.code is None:
            raise ServingFailed(cannot_start(outcome.problem))
        raise ServingFailed(_UNHEALTHY.format(variant=self._spec.variant))

    @property
    def ml(self) -> Path:
        """Its `/opt/ml`."""
        return self._host.ml

    @property
    def folder(self) -> Path:
        """The folder of its instance."""
        return self._folder

    def invoke(self, request: AwsRequest, timeout: float | None = None) -> AwsResponse:
        """Forward an invocation and return the container's response."""
        if not self._is_listening():
            raise AwsError("ServiceUnavailable", "The container is restarting.", 503)
        spec = self._spec
        where = (self._socket, spec.variant, spec.region, self._group, self._stream)
        return forward(request, InvocationTarget(*where, timeout=timeout or RESPONSE_TIMEOUT_S))

    def call(self, method: str, path: str, body: bytes = b"") -> tuple[int, bytes]:
        """Send a request to its server; returns status and body.

        Raises:
            AwsError: it does not respond.
        """
        connection = UnixConnection(self._socket, self._spec.startup_timeout)
        try:
            connection.request(method, path, body, {"Content-Type": "application/json"} if body else {})
            response = connection.getresponse()
            return response.status, response.read()
        except (OSError, http.client.HTTPException) as error:
            raise AwsError("ServiceUnavailable", f"The container does not respond: {error}", 503) from error
        finally:
            connection.close()

    def stop(self) -> None:
        """Let requests in progress complete, then end everything."""
        with self._lock:
            self._stopping = True
        self._wake.clear()
        if self._host.outcome is None:
            self._host.signal(signal.SIGTERM)
            self._wake.wait(min(_STOP_S, self._context.options.stop_grace))
        self.kill()

    def kill(self) -> None:
        """Kill the container with everything in it."""
        with self._lock:
            self._stopping = True
            self._host.kill()
        self._wake.set()
        self._host.join()
        if self._monitor is not None:
            self._monitor.stop()
        if self._network is not None:
            self._network.close()
        shutil.rmtree(self._folder, ignore_errors=True)
        self._on_exit(self)

    def _start_monitor(self) -> None:
        """Publish the utilization of the instance, after a restart that of its new container."""
        spec = self._spec
        if self._monitor is not None:
            self._monitor.stop()
        if not spec.instance_type:
            return
        cloudwatch = self._context.clients.get("cloudwatch", spec.region)
        if spec.log_group:
            series = Series.of_job(cloudwatch, "Transform", spec.endpoint, self._host.name)
            self._monitor = InstanceMonitor(series, self._host, spec.instance_type)
        else:
            series = Series.of_variant(cloudwatch, spec.endpoint, spec.variant)
            disk = volume_bytes(spec.volume_gib, spec.instance_type)
            self._monitor = InstanceMonitor(series, self._host, spec.instance_type, disk)
        self._monitor.start()

    @property
    def _socket(self) -> Path:
        return self._host.ml / _SOCKET

    def _credentials(self) -> dict[str, str]:
        if self._spec.isolated:
            return {}
        if self._spec.role is None:
            return {"AWS_ENDPOINT_URL": self._context.clients.url}
        return role_environment(
            self._context.clients, self._spec.region, self._spec.role, self._spec.endpoint
        )

    def _is_listening(self) -> bool:
        """Whether a server accepts connections."""
        connection = UnixConnection(self._socket, _PING_S)
        try:
            connection.connect()
        except OSError:
            return False
        finally:
            connection.close()
        return True

    def _is_healthy(self) -> bool:
        if not self._is_listening():
            return False
        connection = UnixConnection(self._socket, _PING_S)
        try:
            connection.request("GET", "/ping")
            return connection.getresponse().status == HTTPStatus.OK
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()

    def _on_host_exit(self) -> None:
        self._wake.set()
        with self._lock:
            restart = self._healthy and not self._stopping
        if restart:
            # SageMaker restarts a container that exits.
            timer = threading.Timer(_RESTART_DELAY_S, self.launch)
            timer.daemon = True
            timer.start()


def _isolated_network(name: str) -> HostNetwork:
    try:
        return HostNetwork.create([name])
    except NetworkUnavailable as error:
        why = f"this machine does not allow network isolation: {error}"
        raise ServingFailed(_INTERNAL_ERROR.format(why=why)) from error
