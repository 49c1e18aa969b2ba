"""The file of plans, runs and comparisons: damaged lines, several writers, its size."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from gpuproof.planning.history.store import COMPARISON, PLAN, RUN, HistoryStore


def plan(key: str = "a", created: float = 1.0, **more: Any) -> dict[str, Any]:
    known = {"key": key, "script": "train.py", "created": created, "framework": "torch", "batch": 8}
    return {**known, "gpus": 1, "estimates": {}, **more}


def run(number: int = 1) -> dict[str, Any]:
    return {"key": "a", "run": f"train-{number}", "backend": "local", "region": None, "created": 2.0}


def test_what_was_appended_is_read(tmp_path: Path) -> None:
    store = HistoryStore(tmp_path / "history.jsonl")
    assert store.read().plans == ()
    store.append(PLAN, plan(created=1.0))
    store.append(PLAN, plan(created=5.0))
    store.append(RUN, run())
    history = store.read()
    assert [plan["created"] for plan in history.plans] == [1.0, 5.0]
    assert history.runs[0]["run"] == "train-1"
    newest, before = history.plan_of("a"), history.plan_of("a", 4.0)
    assert newest is not None
    assert before is not None
    assert (newest["created"], before["created"]) == (5.0, 1.0)
    assert history.plan_of("b") is None


def test_damaged_lines_are_counted_and_the_rest_is_read(tmp_path: Path) -> None:
    store = HistoryStore(tmp_path / "history.jsonl")
    store.append(PLAN, plan())
    with store.path.open("ab") as file:
        file.write(
            b'{"version": 2, "kind": "plan"}\n{"version": 1, "kind": []}\n[]\n\xff\n{"version": 1, "kind": "plan"}\n{"version": 1, "ki'
        )
    store.append(RUN, run())
    history = store.read()
    assert (len(history.plans), len(history.runs), history.damaged) == (1, 1, 6)


WRITER = f"""
import sys
from pathlib import Path
from gpuproof.planning.history.store import RUN, HistoryStore
for number in range(50):
    HistoryStore(Path(sys.argv[1])).append(RUN, {{**{run()!r}, "run": f"{{sys.argv[2]}}-{{number}}"}})
"""


def test_writers_at_the_same_time_lose_nothing(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    writers = [subprocess.Popen([sys.executable, "-c", WRITER, str(path), name]) for name in "abc"]
    assert [writer.wait() for writer in writers] == [0, 0, 0]
    history = HistoryStore(path).read()
    assert (len({run["run"] for run in history.runs}), history.damaged) == (150, 0)


def test_a_file_that_is_too_large_keeps_the_newest(tmp_path: Path) -> None:
    store = HistoryStore(tmp_path / "history.jsonl")
    compared = {"key": "a", "script": "t", "run": "r", "created": 1.0, "gpu": "T4", "tier": "calibrated"}
    store.append(COMPARISON, {**compared, "batch": None})
    large = plan(estimates={"T4": "x" * 20_000})
    lines = [json.dumps({"version": 1, "kind": PLAN, **large, "created": n}) + "\n" for n in range(210)]
    with store.path.open("a") as file:
        file.writelines(lines)
    store.append(PLAN, {**large, "created": 999})
    history = store.read()
    assert store.path.stat().st_size <= 2 << 20
    assert history.plans[-1]["created"] == 999
    assert len(history.comparisons) == 1
