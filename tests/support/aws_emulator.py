"""`gpuproof emulator` for tests: the shipped test tools, with roles of a test's own and requests that boto3 would not send."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import urllib.request
from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from gpuproof_emulator.testing import ACCOUNT, REGION, Emulator, start
from gpuproof_emulator.testing import stop as end_emulator
from support.python_processes import spawn_emulator, suits_command

__all__ = ["ACCOUNT", "REGION", "RunningEmulator", "end_emulator", "running_emulator", "start_emulator"]

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


class RunningEmulator(Emulator):
    """A running emulator."""

    @cached_property
    def role(self) -> str:
        """ARN of a role that SageMaker may assume, created on first use."""
        return self.new_role("SageMakerRole")

    def new_role(self, name: str) -> str:
        """Create a role that SageMaker may assume; returns its ARN."""
        made = self.client("iam").create_role(RoleName=name, AssumeRolePolicyDocument=json.dumps(_TRUST))
        return made["Role"]["Arn"]

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


def documented_values(service: str, shape: str) -> list[str]:
    """The values that AWS's model of a service documents for a type, such as the states of an endpoint."""
    import botocore.session  # loads slowly

    found: Any = botocore.session.get_session().get_service_model(service).shape_for(shape)
    return list(found.enum)


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
    forked = {"spawn": spawn_emulator} if suits_command(os.environ) else {}
    started = start(state, *words, **forked)
    return RunningEmulator(started.environment, started.process, started.state)
