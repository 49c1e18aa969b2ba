"""Twenty thousand requests of all kinds with faults among them: every answer is right, and memory stays flat."""

from __future__ import annotations

import http.client
import json
import os
import socket
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from support.cli_sandbox import until
from support.model_server import Server, below
from support.raw_connections import served

# By itself: what else runs would take its processor time.
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("alone")]

COUNT = 20_000
WARM_UP = 4_000
CLIENTS = 8
MIB = 1 << 20
OWN_FAILURES = {("raises", 500), ("exits", 500)}

HANDLER = """
import json, os, sys, time

def model_fn(model_dir):
    return "model"

def input_fn(body, content_type):
    return json.loads(body)

def predict_fn(data, model):
    kind = data["kind"]
    if kind == "raises":
        raise ValueError("x" * 1000)
    if kind == "exits":
        sys.exit(1)
    if kind == "dies":
        os._exit(1)
    if kind == "hangs":
        time.sleep(60)
    if kind == "streams":
        return (str(n) * 100 + "\\n" for n in range(20))
    if kind == "large":
        return {"text": "y" * 100_000}
    return data

def output_fn(prediction, accept):
    return json.dumps(prediction) if isinstance(prediction, dict) else (prediction, "text/plain")
"""


@dataclass
class Load:
    """Clients that ask, each on a connection of its own that it keeps while the server does."""

    server: Server
    wrong: list[str] = field(default_factory=list)
    answers: Counter[str] = field(default_factory=Counter)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def ask(self, numbers: range) -> None:
        """So many requests, shared out among the clients."""
        with ThreadPoolExecutor(CLIENTS) as pool:
            list(pool.map(lambda client: self._ask(numbers[client::CLIENTS]), range(CLIENTS)))

    def _ask(self, numbers: range) -> None:
        connection = self._connect()
        seen: Counter[str] = Counter()
        for number in numbers:
            kind = kind_of(number)
            if kind == "leaves":
                self._leave()
                continue
            try:
                connection.request("POST", "/invocations", body_of(kind, number), packed_headers(number))
                answer = connection.getresponse()
                body = answer.read()
            except http.client.IncompleteRead:
                # A stream whose process died beside it: begun with 200, and visibly cut short.
                seen[f"{kind} cut"] += 1
                connection = self._connect()
                continue
            except (http.client.HTTPException, OSError) as error:
                self.wrong.append(f"{kind}: {error!r}")
                connection = self._connect()
                continue
            seen[f"{kind} {answer.status}"] += 1
            if not is_right(kind, number, answer.status, body):
                self.wrong.append(f"{kind}: {answer.status} {body[:200]!r}")
        connection.close()
        with self._lock:
            self.answers += seen

    def _connect(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=300)

    def _leave(self) -> None:
        with socket.create_connection(("127.0.0.1", self.server.port)) as client:
            client.sendall(b"POST /invocations HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{")


def kind_of(number: int) -> str:
    """Each kind comes in its own rhythm; faults are rare and certain."""
    for every, kind in ((6_007, "dies"), (4_999, "hangs"), (97, "raises"), (89, "exits"), (83, "broken")):
        if number % every == every - 1:
            return kind
    for every, kind in ((53, "leaves"), (47, "streams"), (41, "large")):
        if number % every == every - 1:
            return kind
    return "plain"


def body_of(kind: str, number: int) -> str:
    return "{broken" if kind == "broken" else json.dumps({"kind": kind, "number": number, "text": "x" * 500})


def packed_headers(number: int) -> dict[str, str]:
    # Another id each time: nothing may remember them.
    return {"Content-Type": "application/json", "X-Amzn-SageMaker-Inference-Id": f"request-{number}"}


def is_right(kind: str, number: int, status: int, body: bytes) -> bool:
    """Whether an answer is the one that this request gets, or the one of a neighbour of a fault."""
    if is_neighbour(kind, status):
        return True
    if kind == "plain":
        return status == 200 and json.loads(body)["number"] == number
    if kind == "streams":
        return status == 200 and body.count(b"\n") == 20
    expected = {"raises": 500, "exits": 500, "dies": 500, "hangs": 504, "broken": 400, "large": 200}
    return status == expected[kind]


def is_neighbour(kind: str, status: int) -> bool:
    """What a dying or hanging process takes with it; how many that may be is a claim of its own."""
    return kind not in ("dies", "hangs") and status in (500, 504) and (kind, status) not in OWN_FAILURES


def memory(server: Server) -> tuple[int, int]:
    """Bytes of the frontend's own memory, and of all that is below it."""
    return private(server.process.pid), sum(map(private, below(server.process.pid)))


def private(pid: int) -> int:
    try:
        rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
    except OSError:
        return 0
    return next(int(line.split()[1]) * 1024 for line in rollup.splitlines() if line.startswith("Pss:"))


def descriptors(server: Server) -> int:
    return len(os.listdir(f"/proc/{server.process.pid}/fd"))


@pytest.fixture(scope="module")
def soaked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Load, dict[str, tuple[int, int]]]]:
    """A server after its requests, what was answered, and what was used before and after."""
    with served(tmp_path_factory.mktemp("soak"), HANDLER, "--workers", "2", "--timeout", "2") as server:
        load = Load(server)
        load.ask(range(WARM_UP))
        used = {
            "memory before": memory(server),
            "others before": (descriptors(server), len(below(server.process.pid))),
        }
        load.ask(range(WARM_UP, COUNT))
        until(lambda: server.metric("gpuproof_predictors", model="model") == 2, "both workers")
        used["memory after"] = memory(server)
        used["others after"] = (descriptors(server), len(below(server.process.pid)))
        yield load, used


Soaked = tuple[Load, dict[str, tuple[int, int]]]


def test_every_one_of_twenty_thousand_answers_is_right(soaked: Soaked) -> None:
    load, _ = soaked
    assert load.wrong == []
    assert sum(load.answers.values()) + sum(kind_of(n) == "leaves" for n in range(COUNT)) == COUNT


def test_faults_take_no_more_than_a_handful_of_neighbours_with_them(soaked: Soaked) -> None:
    load, _ = soaked
    crashes = sum(kind_of(n) in ("dies", "hangs") for n in range(COUNT))
    neighbours = sum(
        count
        for kind, status, count in ((*what.split(), count) for what, count in load.answers.items())
        if status == "cut" or is_neighbour(kind, int(status))
    )
    assert neighbours <= crashes * CLIENTS


def test_the_fronts_memory_is_flat(soaked: Soaked) -> None:
    _, used = soaked
    assert used["memory after"][0] - used["memory before"][0] < 6 * MIB


def test_the_predictors_memory_is_flat(soaked: Soaked) -> None:
    _, used = soaked
    assert used["memory after"][1] - used["memory before"][1] < 10 * MIB


def test_descriptors_and_processes_are_as_many_as_before(soaked: Soaked) -> None:
    _, used = soaked
    assert used["others after"][0] <= used["others before"][0] + 4
    assert used["others after"][1] == used["others before"][1]


def test_the_metrics_have_counted_every_answer(soaked: Soaked) -> None:
    load, _ = soaked
    for status in ("200", "400", "500", "504"):
        ends = (status, "cut") if status == "200" else status
        answered = sum(count for what, count in load.answers.items() if what.endswith(ends))
        counted = load.server.metric(
            "gpuproof_requests_total", method="POST", path="/invocations", status=status
        )
        assert counted == answered, status


def test_the_server_is_as_healthy_as_before(soaked: Soaked) -> None:
    load, _ = soaked
    assert load.server.ping() == 200
    assert load.server.predict({"kind": "plain"}).json == {"kind": "plain"}
