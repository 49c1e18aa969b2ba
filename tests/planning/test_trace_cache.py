"""A second plan of a script that has not changed traces nothing; whatever could change its trace makes it trace again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from gpuproof.planning import trace_cache
from gpuproof.planning.trace_cache import traced_or_cached
from gpuproof.planning.tracing import TracedSizes, TraceRequest, trace_two_batch_sizes
from gpuproof.trace.document import Memory, Reads, Trace

SCRIPT = """
import json
import sys
from pathlib import Path

import torch

import network

size = json.loads(Path("config.json").read_text())["size"]
classes = len(list(Path("data").iterdir()))
model = network.build(size).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(10):
    model(torch.ones(8, size).cuda()).sum().backward()
    optimizer.step()
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GPUPROOF_CACHE_DIR", str(tmp_path / "cache"))
    folder = tmp_path / "project"
    (folder / "data" / "cat").mkdir(parents=True)
    (folder / "train.py").write_text(SCRIPT)
    (folder / "network.py").write_text(
        "import torch\n\ndef build(size):\n    return torch.nn.Linear(size, 4)\n"
    )
    (folder / "config.json").write_text('{"size": 16}')
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def tracings(project: Path, monkeypatch: pytest.MonkeyPatch) -> list[TraceRequest]:
    """The requests that were traced and not answered from the cache."""
    made: list[TraceRequest] = []

    def trace(request: TraceRequest) -> TracedSizes:
        made.append(request)
        return trace_two_batch_sizes(request)

    monkeypatch.setattr(trace_cache, "trace_two_batch_sizes", trace)
    return made


@pytest.mark.slow
def test_an_unchanged_script_is_traced_once_and_each_change_traces_it_again(
    project: Path, tracings: list[TraceRequest], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    request = TraceRequest(Path("train.py"), timeout=200.0)
    first = traced_or_cached(request)
    assert not first.cached
    second = traced_or_cached(request)
    assert second.cached
    assert replace(second, cached=False) == replace(first, trace=replace(first.trace, reads=None))
    assert len(tracings) == 1
    entry = next((tmp_path / "cache" / "traces").iterdir())
    kept = entry.read_text()

    def is_traced(change: Callable[[], object], request: TraceRequest = request) -> bool:
        entry.write_text(kept)  # the state before the change
        change()
        before = len(tracings)
        with pytest.MonkeyPatch.context() as patched:
            # Whether it would be traced: the trace itself is the same as the first one.
            patched.setattr(trace_cache, "trace_two_batch_sizes", lambda made: tracings.append(made) or first)
            traced_or_cached(request)
        return len(tracings) > before

    def write(name: str, text: str) -> Callable[[], object]:
        return lambda: (project / name).write_text(text)

    assert not is_traced(lambda: None)
    assert not is_traced((project / "config.json").touch), "a new time is no new content"
    assert not is_traced(lambda: monkeypatch.setenv("TERM", "dumb"))
    assert not is_traced(lambda: (project / "__pycache__").mkdir(exist_ok=True))
    assert is_traced(lambda: entry.write_text(kept[:100])), "a corrupt entry"
    assert is_traced(lambda: entry.write_text('{"first": 3}')), "an entry without what it needs"
    network = (project / "network.py").read_text()
    assert is_traced(write("network.py", network.replace("4", "5"))), "an imported module"
    write("network.py", network)()
    assert not is_traced(lambda: None)
    assert is_traced(write("config.json", '{"size": 32}')), "a file that it read"
    write("config.json", '{"size": 16}')()
    assert is_traced((project / "data" / "dog").mkdir), "a folder that it listed"
    (project / "data" / "dog").rmdir()
    assert is_traced(lambda: None, replace(request, arguments=("--epochs", "3"))), "its arguments"
    assert is_traced(lambda: None, replace(request, gpus=2)), "what it is told of the GPU"
    assert is_traced(lambda: monkeypatch.setenv("MODEL_SIZE", "large")), "its environment"
    monkeypatch.delenv("MODEL_SIZE")
    assert not is_traced(lambda: None)
    assert is_traced(write("train.py", SCRIPT + "\n")), "the script"


def a_trace(steps: int = 3) -> Trace:
    return Trace("torch", "2.9.0", "training", steps, [], Memory(), 0, 0, 0, 0, reads=Reads([], []))


def test_no_cache_traces_and_replaces_the_entry(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    request = TraceRequest(Path("train.py"))
    for steps in (3, 4):
        monkeypatch.setattr(
            trace_cache,
            "trace_two_batch_sizes",
            lambda _, steps=steps: TracedSizes(a_trace(steps), None, "why"),
        )
        assert not traced_or_cached(request, use_cache=False).cached
    found = traced_or_cached(request)
    assert (found.cached, found.trace.steps, found.reason) == (True, 4, "why")


def test_data_in_a_folder_that_an_argument_names_is_compared(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trace_cache, "trace_two_batch_sizes", lambda _: TracedSizes(a_trace(), None, "why"))
    request = TraceRequest(Path("train.py"), ("--data=data",))
    assert not traced_or_cached(request).cached
    assert traced_or_cached(request).cached
    (project / "data" / "cat" / "1.jpg").write_bytes(b"x")
    assert not traced_or_cached(request).cached


def test_a_trace_whose_reads_are_not_known_is_not_stored(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    unknown = TracedSizes(replace(a_trace(), reads=None), None)
    monkeypatch.setattr(trace_cache, "trace_two_batch_sizes", lambda _: unknown)
    request = TraceRequest(Path("train.py"))
    assert not traced_or_cached(request).cached
    assert not traced_or_cached(request).cached


def test_old_entries_make_room(project: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(trace_cache, "trace_two_batch_sizes", lambda _: TracedSizes(a_trace(), None, "why"))
    monkeypatch.setattr(trace_cache, "_MOST_ENTRIES", 2)
    for number in range(4):
        traced_or_cached(TraceRequest(Path("train.py"), (str(number),)))
    assert len(list((tmp_path / "cache" / "traces").iterdir())) == 2
