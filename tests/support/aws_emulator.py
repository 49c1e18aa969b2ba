"""`gpuproof emulator` for tests: its process, credentials, clients, faults and recorded requests."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from gpuproof.util.process_tree import die_with_parent

ACCOUNT = "123456789012"
REGION = "us-east-1"
_TRUST = {
    "Version": "2012-10-17",
    "Statement": [
        {
            "Effect": "Allow",
            "Principal": {"Service": "sagemaker.amazonaws.com"},
            "Action": "sts:AssumeRole",
        }
    ],
}


@dataclass
class RunningEmulator:
    """A running emulator.

    Args:
        environment: the variables that it prints.
        process: the process of `gpuproof emulator`.
        state: its state folder.
    """

    environment: dict[str, str]
    process: subprocess.Popen[str]
    state: Path
    _clients: dict[tuple[str, str], Any] = field(default_factory=dict)

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

    def client(self, service: str, region: str = REGION, **options: Any) -> Any:
        """A boto3 client; the same one each time unless options (of `botocore.config.Config`) are given."""
        if options or (service, region) not in self._clients:
            made = self._client(service, region, options)
            if options:
                return made
            self._clients[service, region] = made
        return self._clients[service, region]

    def faults(self, *faults: str | Mapping[str, Any]) -> None:
        """Replace the injected faults by these, given as `KIND,limit=value,…` or as members; without arguments, remove all."""
        self._call_admin_api("DELETE", "faults")
        for fault in faults:
            self._call_admin_api("POST", "faults", _members(fault) if isinstance(fault, str) else fault)

    def quotas(self, values: Mapping[str, float]) -> None:
        """Set service quotas, by name or code."""
        self._call_admin_api("POST", "quotas", values)

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

    @cached_property
    def role(self) -> str:
        """ARN of a role that SageMaker may assume, created on first use."""
        return self.new_role("SageMakerRole")

    def new_role(self, name: str) -> str:
        """Create a role that SageMaker may assume; returns its ARN."""
        made = self.client("iam").create_role(RoleName=name, AssumeRolePolicyDocument=json.dumps(_TRUST))
        return made["Role"]["Arn"]

    def bucket(self, name: str = "data") -> str:
        """Create a bucket in us-east-1; returns its name."""
        self.client("s3").create_bucket(Bucket=name)
        return name

    def session(self, region: str = REGION) -> Any:
        """A boto3 session with the emulator's credentials, without its address."""
        import boto3

        key, secret = self.environment["AWS_ACCESS_KEY_ID"], self.token
        return boto3.Session(key, secret, region_name=region)

    def open(
        self,
        method: str,
        path: str,
        body: bytes = b"",
        headers: Mapping[str, str] | None = None,
        *,
        sent: bytes | None = None,
    ) -> Any:
        """Send a signed request that boto3 itself would not send; returns the open response.

        Args:
            body: the signed body.
            sent: the body to send in its place.
            headers: to sign as well.
        """
        url = f"{self.url}{path}"
        request = AWSRequest(method, url, headers or {}, body)
        credentials = Credentials(self.environment["AWS_ACCESS_KEY_ID"], self.token)
        SigV4Auth(credentials, "sagemaker", REGION).add_auth(request)
        content = body if sent is None else sent
        final = urllib.request.Request(url, content or None, dict(request.headers.items()), method=method)
        return urllib.request.urlopen(final, timeout=120)

    def _client(self, service: str, region: str, options: Mapping[str, Any]) -> Any:
        from botocore.config import Config

        return self.session(region).client(service, endpoint_url=self.url, config=Config(**options))

    def _call_admin_api(self, method: str, path: str, body: Any = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        headers = {"Authorization": f"Bearer {self.token}"}
        request = urllib.request.Request(f"{self.url}/_gpuproof/{path}", data, headers, method=method)
        with urllib.request.urlopen(request, timeout=120) as response:
            return json.loads(response.read())


@contextlib.contextmanager
def running_emulator(
    tmp_path: Path,
    *,
    state: Path | None = None,
    stop_grace: float = 5.0,
    hold: float = 0.0,
    python: str | None = None,
    pythons: Mapping[str, str] | None = None,
    environment: Mapping[str, str] | None = None,
    faults: tuple[str, ...] = (),
    role: bool = False,
    words: tuple[str, ...] = (),
) -> Iterator[RunningEmulator]:
    """An emulator on a free port, which is shut down on exit.

    Args:
        tmp_path: contains its state, in a folder `emulator`.
        state: another folder for it.
        stop_grace: seconds between SIGTERM and SIGKILL for jobs that are stopped.
        hold: seconds for which an SDK's Describe request may be held.
        python: the interpreter for containers; by default the one that runs the tests.
        pythons: the same by framework.
        environment: variables for every container.
        faults: injected from the start.
        role: whether the emulator creates its role; tests usually create their own.
        words: more arguments of `gpuproof emulator`.
    """
    emulator = start_emulator(
        state or tmp_path / "emulator",
        "--stop-grace",
        str(stop_grace),
        "--hold",
        str(hold),
        "--python",
        python or sys.executable,
        *(word for name, path in (pythons or {}).items() for word in ("--python", f"{name}={path}")),
        *(word for name, value in (environment or {}).items() for word in ("--env", f"{name}={value}")),
        *(word for fault in faults for word in ("--fault", fault)),
        *(() if role else ("--no-role",)),
        *words,
    )
    try:
        yield emulator
    finally:
        end_emulator(emulator)


def start_emulator(state: Path, *words: str) -> RunningEmulator:
    """Start `gpuproof emulator` and wait until it accepts requests."""
    state.parent.mkdir(parents=True, exist_ok=True)
    log = state.parent / f"{state.name}.log"
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    with log.open("a") as errors:
        process = subprocess.Popen(
            [sys.executable, "-m", "gpuproof", "emulator", "--port", "0", "--state", str(state), *words],
            env={**inherited, "GPUPROOF_STATE_DIR": str(state.parent / "state")},
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            # A worker of the tests that is killed tears no fixture down.
            preexec_fn=die_with_parent,  # noqa: PLW1509 - it calls prctl and nothing else
        )
    assert process.stdout is not None
    environment: dict[str, str] = {}
    while (line := process.stdout.readline()).startswith("export "):
        name, _, value = line.removeprefix("export ").partition("=")
        (environment[name],) = shlex.split(value)
    if not environment:
        process.wait()
        raise AssertionError(f"the emulator did not start: {log.read_text()}")
    return RunningEmulator(environment, process, state)


def end_emulator(emulator: RunningEmulator) -> None:
    """Shut an emulator down as Ctrl-C does, and wait for its end."""
    if emulator.process.poll() is None:
        emulator.process.send_signal(signal.SIGTERM)
    try:
        emulator.process.wait(60)
    except subprocess.TimeoutExpired:
        emulator.process.kill()
        emulator.process.wait()
        raise
    finally:
        if emulator.process.stdout is not None:
            emulator.process.stdout.close()


def _members(text: str) -> dict[str, str]:
    kind, *limits = text.split(",")
    return {"kind": kind, **dict(limit.split("=", 1) for limit in limits)}
