"""Notifications of a job in SageMaker's container, from the agent to a webhook on loopback."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from support.cli_sandbox import until
from support.http_receiver import Receiver

if TYPE_CHECKING:
    from conftest import Container

pytestmark = pytest.mark.slow

WAITS = """
import time
from pathlib import Path
while not Path("/opt/ml/output/go").exists():
    time.sleep(0.05)
"""


@pytest.fixture
def receiver(container: Container) -> Iterator[Receiver]:
    with Receiver(200) as receiver:
        container.environment["CHAT_URL"] = f"{receiver.url}/secret"
        container.sagemaker()
        yield receiver


def notify(**more: Any) -> dict[str, Any]:
    return {"notify": {"webhook_variable": "CHAT_URL", **more}}


def events(receiver: Receiver) -> list[str]:
    return [request.json()["event"] for request in receiver.requests]


def test_a_script_that_fails_is_reported_and_never_sees_the_address(
    container: Container, receiver: Receiver
) -> None:
    script = "import os\nraise SystemExit('seen' if 'CHAT_URL' in os.environ else 'no data')"
    container.send({"train.py": script}, **notify())
    ended = container.carry_out()
    assert ended.code == 1
    assert "seen" not in ended.stderr
    (request,) = receiver.requests
    document = request.json()
    assert (document["event"], document["job"]) == ("failed", "digits")
    assert document["reason"] == container.run["failure_reason"]
    assert receiver.url not in ended.stdout.decode() + ended.stderr


def test_a_script_that_succeeds_without_a_gpu_to_use_is_not(container: Container, receiver: Receiver) -> None:
    container.send({"train.py": "print('done')"}, **notify(cost_usd=1e6, usd_per_hour=1.0))
    assert container.carry_out().code == 0
    assert receiver.requests == []


def test_costs_are_reported_while_the_script_runs(container: Container, receiver: Receiver) -> None:
    container.send({"train.py": WAITS}, **notify(cost_usd=1e-9, usd_per_hour=3.06))
    process = container.start()
    until(lambda: receiver.requests, "a message about the costs")
    (container.ml / "output" / "go").touch()
    assert container.end(process).code == 0
    assert events(receiver) == ["cost"]
    assert receiver.requests[0].json()["usd_per_hour"] == 3.06


def test_a_script_that_hangs_is_one_event(container: Container, receiver: Receiver) -> None:
    container.send({"train.py": "import time\ntime.sleep(600)"}, stall_timeout=0.5, **notify())
    assert container.carry_out().code != 0
    assert events(receiver) == ["stalled"]


def test_a_job_that_cannot_start_is_reported(container: Container, receiver: Receiver) -> None:
    container.send({"train.py": ""}, entry_point="gone.py", **notify())
    assert container.carry_out().code == 1
    assert events(receiver) == ["failed"]


def test_a_message_that_is_not_accepted_leaves_code_and_status(container: Container) -> None:
    with Receiver(500) as receiver:
        container.environment["CHAT_URL"] = f"{receiver.url}/secret"
        container.sagemaker()
        container.send({"train.py": WAITS}, **notify(cost_usd=1e-9, usd_per_hour=1.0))
        process = container.start()
        until(lambda: receiver.requests, "a message about the costs")
        (container.ml / "output" / "go").touch()
        ended = container.end(process)
    assert ended.code == 0
    assert container.run["status"] == "Completed"
    assert container.run["notes"][-1] == "notification by webhook: the server responded with status 500"
