"""A pytest plugin with the fixture `emulator`: an AWS account on this machine that runs SageMaker jobs, empty for each test.

    # conftest.py
    pytest_plugins = ["gpuproof_emulator.testing"]

    # test_pipeline.py
    def test_my_pipeline(emulator):
        bucket = emulator.bucket("data")
        my_pipeline.train(role=emulator.role, bucket=bucket)  # boto3 and the SDKs reach the emulator
        assert "CreateTrainingJob" in emulator.operations("sagemaker")

The environment variables of a test that uses the fixture name the emulator. It is started once for each test session (with
pytest-xdist, for each worker) and reset after each test. To give it options, override the fixture `emulator_options`.
"""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import IO, Any

import pytest

from gpuproof.util.process_tree import die_with_parent

ACCOUNT = "123456789012"
"""The account of an emulator."""
REGION = "us-east-1"
"""The region of an emulator's clients, unless another is named."""

Spawn = Callable[[Sequence[str], Mapping[str, str], IO[bytes]], "subprocess.Popen[str]"]
"""Starts a process of the emulator."""

_STOP_S = 60.0


@dataclass
class Emulator:
    """A running emulator.

    Args:
        environment: the variables with which SDKs use it.
        process: the process of `gpuproof emulator`.
        state: its state folder.
    """

    environment: dict[str, str]
    process: subprocess.Popen[str]
    state: Path
    _clients: dict[tuple[str, str], Any] = field(default_factory=dict[tuple[str, str], Any])

    @property
    def url(self) -> str:
        """Where it listens."""
        return self.environment["AWS_ENDPOINT_URL"]

    @property
    def token(self) -> str:
        """The secret of its access key."""
        return self.environment["AWS_SECRET_ACCESS_KEY"]

    @property
    def credentials(self) -> dict[str, str]:
        """All AWS variables of a process that must only reach the emulator."""
        return {
            **self.environment,
            "AWS_CONFIG_FILE": os.devnull,
            "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
            "AWS_EC2_METADATA_DISABLED": "true",
        }

    @property
    def role(self) -> str:
        """ARN of a role that SageMaker may assume."""
        return f"arn:aws:iam::{ACCOUNT}:role/emulator"

    def session(self, region: str = REGION) -> Any:
        """A boto3 session with the emulator's credentials, without its address."""
        import boto3  # loads slowly

        return boto3.Session(self.environment["AWS_ACCESS_KEY_ID"], self.token, region_name=region)

    def client(self, service: str, region: str = REGION, **options: Any) -> Any:
        """A boto3 client; the same one each time unless options (of `botocore.config.Config`) are given."""
        from botocore.config import Config  # loads slowly

        if not options and (service, region) in self._clients:
            return self._clients[service, region]
        made = self.session(region).client(service, endpoint_url=self.url, config=Config(**options))
        if not options:
            self._clients[service, region] = made
        return made

    def bucket(self, name: str = "data") -> str:
        """Create a bucket in us-east-1; returns its name."""
        self.client("s3").create_bucket(Bucket=name)
        return name

    def faults(self, *faults: str | Mapping[str, Any]) -> None:
        """Replace the injected faults by these, given as `KIND,limit=value,…` or as members; without arguments, remove all."""
        self._call_admin_api("DELETE", "faults")
        for fault in faults:
            self._call_admin_api("POST", "faults", _members(fault) if isinstance(fault, str) else fault)

    def quotas(self, values: Mapping[str, float]) -> None:
        """Set service quotas, by name or code."""
        self._call_admin_api("POST", "quotas", values)

    def interrupt_spot(self, instance: str, seconds: float = 120.0) -> None:
        """Announce to a simulated spot instance (`--boot-instances`) that it is reclaimed in so many seconds."""
        self._call_admin_api("POST", "spot-interruption", {"instance": instance, "seconds": seconds})

    def recommend_rebalance(self, instance: str) -> None:
        """Announce to a simulated spot instance (`--boot-instances`) that it is at elevated risk of interruption; nothing ends."""
        self._call_admin_api("POST", "spot-rebalance", {"instance": instance})

    def set_state(self, state: str, *, endpoint: str = "", instance: str = "") -> None:
        """Show an endpoint or an EC2 instance in a state that AWS documents, as one that hangs in it."""
        named = {"endpoint": endpoint} if endpoint else {"instance": instance}
        self._call_admin_api("POST", "states", {**named, "state": state})

    def run_schedules(self, at: datetime | float | None = None) -> list[dict[str, str]]:
        """Run the schedules of EventBridge Scheduler that are due at a time, as if it had come; each runs once.

        Args:
            at: a time with its zone, or seconds since the epoch; default: now.

        Returns:
            For each schedule that ran: `name`, `group`, `operation`, and `error` (empty if the call succeeded).
        """
        moment = at.timestamp() if isinstance(at, datetime) else at
        return self._call_admin_api("POST", "scheduler/run-due", {} if moment is None else {"time": moment})[
            "runs"
        ]

    @property
    def requests(self) -> list[dict[str, Any]]:
        """The requests so far (service, operation, name, status and so on), without the emulator's own."""
        return self._call_admin_api("GET", "requests")["requests"]

    def operations(self, service: str | None = None) -> list[str]:
        """The requested operations, in order."""
        return [item["operation"] for item in self.requests if service in (None, item["service"])]

    def forget_requests(self) -> None:
        """Clear the recorded requests."""
        self._call_admin_api("DELETE", "requests")

    def reset(self) -> None:
        """End all jobs and endpoints and clear all state, as a fresh start does."""
        self._call_admin_api("POST", "reset")

    def _call_admin_api(self, method: str, path: str, body: Any = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        headers = {"Authorization": f"Bearer {self.token}"}
        url = f"{self.url}/_gpuproof/{path}"
        request = urllib.request.Request(url, data, headers, method=method)  # noqa: S310 - its own address
        # A reset waits for the end of all jobs.
        with urllib.request.urlopen(request, timeout=300) as response:  # noqa: S310
            return json.loads(response.read())


def _spawn(options: Sequence[str], environment: Mapping[str, str], log: IO[bytes]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "gpuproof_emulator", *options],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=log,
        text=True,
        # A test process that is killed runs no fixture's end.
        preexec_fn=die_with_parent,  # noqa: PLW1509 - it calls prctl and nothing else
    )


def start(state: Path, *options: str, spawn: Spawn = _spawn) -> Emulator:
    """Start `gpuproof emulator` on a free port, and wait until it accepts requests.

    Args:
        state: its state folder; its log is written beside it.
        options: further options of `gpuproof emulator`.
        spawn: starts a process with these options, environment variables and standard error.

    Raises:
        RuntimeError: it does not start; the message has its output.
    """
    state.parent.mkdir(parents=True, exist_ok=True)
    log = state.parent / f"{state.name}.log"
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    variables = {**inherited, "GPUPROOF_STATE_DIR": str(state.parent / "state")}
    with log.open("ab") as errors:
        process = spawn(["--port", "0", "--state", str(state), *options], variables, errors)
    assert process.stdout is not None
    environment: dict[str, str] = {}
    while (line := process.stdout.readline()).startswith("export "):
        name, _, value = line.removeprefix("export ").partition("=")
        (environment[name],) = shlex.split(value)
    if not environment:
        process.wait()
        process.stdout.close()
        raise RuntimeError(f"The emulator did not start: {log.read_text()}")
    return Emulator(environment, process, state)


def stop(emulator: Emulator) -> None:
    """End an emulator with all of its jobs, as Ctrl-C does.

    Raises:
        subprocess.TimeoutExpired: it did not end, and was killed.
    """
    process = emulator.process
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
    try:
        process.wait(_STOP_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        raise
    finally:
        if process.stdout is not None:
            process.stdout.close()


@contextlib.contextmanager
def running(state: Path, *options: str) -> Generator[Emulator]:
    """An emulator that is stopped on exit; arguments as of `start`."""
    emulator = start(state, *options)
    try:
        yield emulator
    finally:
        stop(emulator)


@pytest.fixture(scope="session")
def emulator_options() -> Sequence[str]:
    """Options of `gpuproof emulator`; override it to change them."""
    return ("--stop-grace", "5")


@pytest.fixture(scope="session")
def emulator_of_session(
    tmp_path_factory: pytest.TempPathFactory, emulator_options: Sequence[str]
) -> Generator[Emulator]:
    """The emulator of all tests of a session."""
    with running(tmp_path_factory.mktemp("emulator") / "state", *emulator_options) as emulator:
        yield emulator


@pytest.fixture
def emulator(emulator_of_session: Emulator, monkeypatch: pytest.MonkeyPatch) -> Generator[Emulator]:
    """An empty emulated AWS account, to which the test's environment variables lead."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    for name, value in emulator_of_session.credentials.items():
        monkeypatch.setenv(name, value)
    yield emulator_of_session
    emulator_of_session.reset()


def _members(text: str) -> dict[str, str]:
    kind, *limits = text.split(",")
    pairs = (limit.partition("=") for limit in limits)
    return {"kind": kind, **{name: value for name, _, value in pairs}}
