"""Notifications of a host by webhook: what is sent, once, and what a server that misbehaves does to a run: nothing."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import pytest

from gpuproof.agent.job import AgentJob, NotifySettings
from gpuproof.agent.notify.events import COST, FAILED, STALLED, UNUSED
from gpuproof.agent.notify.notifier import Notifier
from support.http_receiver import Receiver

LIMIT_S = 300.0
"""It only ends a test that fails."""
SECRET = "/services/T0/B0/secret"


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver(200) as receiver:
        yield receiver


def job(url: str | None, host: str = "algo-1", hosts: tuple[str, ...] = ("algo-1",)) -> AgentJob:
    return AgentJob(
        run_id="cats-1",
        job_name="cats",
        kind="training",
        entry_point="train.py",
        python=sys.executable,
        checkpoints="",
        instance_type="ml.g5.xlarge",
        environment={} if url is None else {"CHAT_URL": f"{url}{SECRET}"},
        hosts=hosts,
        current_host=host,
        notify=NotifySettings(webhook_variable="CHAT_URL"),
    )


def notifier(url: str | None, **more: Any) -> Notifier:
    described = job(url, **more)
    assert described.notify is not None
    return Notifier.of(described, described.notify)


def test_a_message_has_a_line_for_people_and_the_fields_of_the_event(receiver: Receiver) -> None:
    sender = notifier(receiver.url)
    sender.send(STALLED, "no progress on any GPU\nor in any log for 20 min")
    assert sender.close(LIMIT_S) == []
    (request,) = receiver.requests
    assert (request.method, request.path) == ("POST", SECRET)
    assert request.headers["content-type"] == "application/json"
    document = request.json()
    assert document["text"] == (
        "cats (cats-1) on ml.g5.xlarge: stalled: no progress on any GPU or in any log for 20 min"
    )
    assert (document["event"], document["run"], document["version"]) == ("stalled", "cats-1", 1)


def test_each_event_is_sent_once(receiver: Receiver) -> None:
    sender = notifier(receiver.url)
    sender.send(COST, "about $5.00 so far", cost_usd=5.0)
    sender.send(COST, "about $5.00 so far", cost_usd=5.0)
    sender.send(FAILED, "train.py exited with code 1")
    assert sender.close(LIMIT_S) == []
    assert sorted(request.json()["event"] for request in receiver.requests) == ["cost", "failed"]


def test_only_the_first_host_reports_what_concerns_all(receiver: Receiver) -> None:
    sender = notifier(receiver.url, host="algo-2", hosts=("algo-1", "algo-2"))
    sender.send(FAILED, "train.py exited with code 1")
    sender.send(UNUSED, "GPU 0 did no work")
    assert sender.close(LIMIT_S) == []
    (request,) = receiver.requests
    assert (request.json()["event"], request.json()["host"]) == ("gpu-unused", "algo-2")


@pytest.mark.parametrize("outcome", ["idle", "cpu-only", "occupied", "partly used"])
def test_a_verdict_without_full_use_is_an_event(receiver: Receiver, outcome: str) -> None:
    sender = notifier(receiver.url)
    sender.send_verdict(outcome, "GPU 0 did no work")
    assert sender.close(LIMIT_S) == []
    document = receiver.requests[0].json()
    assert (document["event"], document["outcome"]) == ("gpu-unused", outcome)


@pytest.mark.parametrize("outcome", ["used", "no-gpu-expected", "unknown"])
def test_no_other_verdict_is(receiver: Receiver, outcome: str) -> None:
    sender = notifier(receiver.url)
    sender.send_verdict(outcome, "")
    assert sender.close(LIMIT_S) == []
    assert receiver.requests == []


def test_a_run_that_failed_because_it_stalled_is_one_event(receiver: Receiver) -> None:
    sender = notifier(receiver.url)
    sender.send(STALLED, "no progress")
    assert sender.end("Failed", "no progress", None) == []
    assert [request.json()["event"] for request in receiver.requests] == ["stalled"]


def test_a_run_that_was_stopped_by_its_user_is_none(receiver: Receiver) -> None:
    assert notifier(receiver.url).end("Stopped", "stopped on request", None) == []
    assert receiver.requests == []


@pytest.mark.parametrize("status", [400, 404, 500, 503])
def test_a_rejected_message_is_a_note_without_the_address(status: int) -> None:
    with Receiver(status) as receiver:
        sender = notifier(receiver.url)
        sender.send(FAILED, "train.py exited with code 1")
        assert sender.close(LIMIT_S) == [
            f"notification by webhook: the server responded with status {status}"
        ]


def test_a_redirect_is_not_followed() -> None:
    with Receiver(200) as other, Receiver(307, location=f"{other.url}/elsewhere") as receiver:
        sender = notifier(receiver.url)
        sender.send(FAILED, "train.py exited with code 1")
        assert sender.close(LIMIT_S) == ["notification by webhook: the server responded with status 307"]
        assert other.requests == []


def test_a_server_that_never_responds_delays_the_end_by_the_limit_only() -> None:
    with Receiver() as receiver:
        sender = notifier(receiver.url)
        sender.send(FAILED, "train.py exited with code 1")
        assert sender.close(0.1) == ["notification by webhook: it was not sent within 0.1 s"]


def test_a_server_that_does_not_exist_is_a_note_without_the_address() -> None:
    receiver = Receiver(200)
    receiver.close()
    sender = notifier(receiver.url)
    sender.send(FAILED, "train.py exited with code 1")
    (note,) = sender.close(LIMIT_S)
    assert note == "notification by webhook: the server could not be reached: Connection refused"


@pytest.mark.parametrize(
    ("url", "why"),
    [
        (None, "the variable CHAT_URL is not set on the host"),
        ("ftp://host", "the variable CHAT_URL does not contain an http or https address"),
        ("http://host:port", "the variable CHAT_URL does not contain an http or https address"),
    ],
)
def test_a_variable_without_an_address_is_a_note_that_names_it(url: str | None, why: str) -> None:
    sender = notifier(url)
    sender.send(FAILED, "train.py exited with code 1")
    assert sender.close(LIMIT_S) == [f"notification by webhook: {why}"]
