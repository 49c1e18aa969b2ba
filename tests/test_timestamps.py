"""Times in JSON output are ISO 8601 in UTC."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from gpuproof.cli.main import main
from gpuproof.timestamps import TIME_KEYS, iso_time, with_iso_times
from gpuproof.util.atomic import write_json

NOW = 1_795_775_400.5
ISO = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"
_EPOCH = (1e9, 4e9)
"""Numbers between 2001 and 2096, in seconds since the epoch."""
COMMANDS = [
    ("ps",),
    ("show",),
    ("wait", "train-1"),
    ("logs", "train-1"),
    ("pull", "train-1", "--to", "pulled"),
    ("plan", "--history"),
    ("explain", "train-1"),
    ("check", "."),
    ("gpus", "T4"),
    ("gpus", "g5.xlarge"),
    ("catalogue", "status"),
    ("rule", "PT101"),
    ("iam", "policy"),
]


def test_a_time_is_in_utc_with_milliseconds() -> None:
    assert iso_time(0) == "1970-01-01T00:00:00.000Z"
    assert iso_time(1_800_000_000.25) == "2027-01-15T08:00:00.250Z"
    assert iso_time(None) is None


def test_times_at_any_depth_are_written_and_nothing_else() -> None:
    document = {
        "created": 0,
        "ended": None,
        "started": True,
        "bytes": 1_800_000_000,
        "hosts": [{"ended": 1.5}],
    }
    assert with_iso_times(document) == {
        "created": "1970-01-01T00:00:00.000Z",
        "ended": None,
        "started": True,
        "bytes": 1_800_000_000,
        "hosts": [{"ended": "1970-01-01T00:00:01.500Z"}],
    }


@pytest.fixture
def output(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., Any]:
    """Runs a command with --json in a folder with one run, and returns its document."""
    monkeypatch.setenv("GPUPROOF_STATE_DIR", str(tmp_path / "state"))
    for name in ("AWS_PROFILE", "AWS_ACCESS_KEY_ID", "AWS_ENDPOINT_URL"):
        monkeypatch.delenv(name, raising=False)
    run = tmp_path / "state" / "runs" / "train-1"
    (run / "logs").mkdir(parents=True)
    (run / "logs" / "algo-1.log").write_text("epoch 1\n")
    times = dict.fromkeys(TIME_KEYS, NOW)
    document = {"id": "train-1", "job_name": "train", "kind": "training", "backend": "local"}
    write_json(run / "run.json", {**document, **times, "status": "Completed"})
    host = {"host": "algo-1", "started": NOW, "ended": NOW}
    write_json(run / "verdict.json", {"version": 99, "outcome": "used", "reason": "x", "hosts": [host]})
    (tmp_path / "train.py").write_text("print(1)\n")
    monkeypatch.chdir(tmp_path)

    def call(*words: str) -> Any:
        main([*words, "--json"])
        return json.loads(capsys.readouterr().out)

    return call


def numbers(document: Any, path: str = "") -> Iterator[tuple[str, float]]:
    """All numbers of a document, with their keys."""
    if isinstance(document, dict):
        for key, value in document.items():
            yield from numbers(value, f"{path}.{key}")
    elif isinstance(document, list):
        for item in document:
            yield from numbers(item, path)
    elif isinstance(document, int | float) and not isinstance(document, bool):
        yield path, document


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_no_command_prints_a_time_as_a_number(output: Callable[..., Any], words: tuple[str, ...]) -> None:
    document = output(*words)
    assert document["version"] == 1
    low, high = _EPOCH
    seconds = [
        (path, number)
        for path, number in numbers(document)
        if low < number < high and not path.endswith(("bytes", "disk", "memory"))
    ]
    assert seconds == []


def test_the_times_of_a_run_are_those_of_its_record(output: Callable[..., Any]) -> None:
    shown = output("show")
    (listed,) = output("ps", "--on", "local")["runs"]
    for times in (shown["run"], listed):
        assert {times[key] for key in TIME_KEYS} == {iso_time(NOW)}
    assert re.fullmatch(ISO, shown["verdict"]["hosts"][0]["ended"])
