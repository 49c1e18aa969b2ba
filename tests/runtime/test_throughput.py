"""`log_throughput` in scripts: cheap, silent, and never an error."""

import itertools
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import gpuproof.runtime as rt
from gpuproof.runtime import throughput


def script(code: str, folder: Path | None, **variables: str) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "RANK"}
    environment.update(variables, **({"GPUPROOF_THROUGHPUT": str(folder)} if folder else {}))
    subprocess.run(
        [sys.executable, "-c", f"import gpuproof.runtime as rt\n{code}"],
        env=environment,
        check=True,
        timeout=120,
    )


def test_each_process_counts_for_itself_and_writes_the_last_step(tmp_path: Path):
    script(
        "import os\nfor _ in range(100): rt.log_throughput(32)\nos.fork()\nrt.log_throughput(1)",
        tmp_path,
        RANK="3",
    )
    found = sorted(
        (json.loads(path.read_text()) for path in tmp_path.glob("*.json")),
        key=lambda report: report["examples"],
    )
    assert [(report["rank"], report["examples"], report["first_examples"]) for report in found] == [
        (3, 1, 1),
        (3, 3201, 32),
    ]
    assert found[1]["last"] >= found[1]["first"]


def test_the_file_is_written_once_a_second_and_not_each_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    now = 1000.0
    monkeypatch.setenv("GPUPROOF_THROUGHPUT", str(tmp_path / "counts"))
    monkeypatch.setattr(throughput, "_counters", {})
    monkeypatch.setattr("gpuproof.runtime.throughput.time.monotonic", lambda: now)
    path = tmp_path / "counts" / f"{os.getpid()}.json"
    written: list[int] = []
    for _ in range(30):
        rt.log_throughput(10)
        written.append(json.loads(path.read_text())["examples"])
        now += 0.1
    assert len(set(written)) == 3


@pytest.mark.parametrize("examples", [None, "many", object()])
def test_nothing_raises(examples: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("GPUPROOF_THROUGHPUT", str(tmp_path / "file"))
    monkeypatch.setattr(throughput, "_counters", {})
    rt.log_throughput(examples)  # type: ignore[arg-type]
    rt.log_throughput(8)


def test_outside_of_a_job_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("GPUPROOF_THROUGHPUT", raising=False)
    monkeypatch.setattr(throughput, "_counters", {})
    monkeypatch.chdir(tmp_path)
    rt.log_throughput(8)
    assert not list(tmp_path.iterdir())


def counted(monkeypatch: pytest.MonkeyPatch, folder: Path, calls: list[tuple[float, dict[str, object]]]):
    """The last file after calls at these times."""
    now = 0.0
    monkeypatch.setenv("GPUPROOF_THROUGHPUT", str(folder))
    monkeypatch.setattr(throughput, "_counters", {})
    monkeypatch.setattr("gpuproof.runtime.throughput.time.monotonic", lambda: now)
    for time, arguments in calls:
        now = time
        rt.log_throughput(10, **arguments)  # type: ignore[arg-type]
    return json.loads((folder / f"{os.getpid()}.json").read_text())


def test_flops_are_those_after_the_first_call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    calls = [(float(second), {"flops": 100.0, "precision": "bfloat16"}) for second in range(4)]
    found = counted(monkeypatch, tmp_path, calls)
    assert (found["flops"], found["calls"], found["precision"]) == (300, 4, "bfloat16")


@pytest.mark.parametrize("without", [0, 2])
def test_a_call_without_flops_leaves_none(without: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    calls = [(float(second), {} if second == without else {"flops": 100.0}) for second in range(4)]
    assert counted(monkeypatch, tmp_path, calls)["flops"] is None


def test_windows_become_longer_and_not_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    found = counted(monkeypatch, tmp_path, [(second / 2, {}) for second in range(2001)])["windows"]
    assert 64 <= len(found) <= 128
    lengths = {after[0] - before[0] for before, after in itertools.pairwise(found)}
    rates = [(after[1] - before[1]) / (after[0] - before[0]) for before, after in itertools.pairwise(found)]
    assert lengths == {8.0}
    assert set(rates) == {20.0}
