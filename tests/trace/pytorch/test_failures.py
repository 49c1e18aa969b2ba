"""Scripts that cannot be traced: the error names the line, the reason and what to pass instead; and nothing is changed."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.traced_scripts import failure_of, trace_of

pytestmark = pytest.mark.slow


def line_of(script: str, text: str) -> int:
    return script[: script.index(text)].count("\n") + 1


def test_an_exception_has_the_users_line_and_traceback(tmp_path: Path) -> None:
    script = "import torch\n\ndef build():\n    return torch.nn.Linear(2, 3).cuda()(torch.ones(1, 5, device='cuda'))\n\nbuild()\n"
    found = failure_of(tmp_path, script)
    assert found.code == "script-error"
    assert found.file is not None
    assert (Path(found.file).name, found.line) == ("train.py", line_of(script, "return"))
    assert "RuntimeError" in found.message
    assert "gpuproof" not in found.traceback


def test_a_script_without_a_step(tmp_path: Path) -> None:
    assert failure_of(tmp_path, "import torch\nprint(torch.ones(3).sum())\n").code == "no-step"


def test_a_script_that_trains_on_the_cpu(tmp_path: Path) -> None:
    script = """
import torch
model = torch.nn.Linear(2, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(5):
    model(torch.ones(3, 2)).sum().backward()
    optimizer.step()
"""
    found = failure_of(tmp_path, script)
    assert found.code == "not-on-gpu"
    assert "moved no model to the GPU" in found.message


def test_a_script_that_exits_with_an_error(tmp_path: Path) -> None:
    found = failure_of(tmp_path, "import argparse\nargparse.ArgumentParser().parse_args(['--no'])\n")
    assert (found.code, "2" in found.message) == ("script-exit", True)


def test_a_script_that_hangs_names_where(tmp_path: Path) -> None:
    script = "import torch\nimport threading\n\nthreading.Event().wait()\n"
    found = failure_of(tmp_path, script, "--timeout", "5")
    assert (found.code, found.line) == ("timeout", line_of(script, "threading.Event"))
    assert "--timeout" in found.remedy


def test_a_script_that_takes_too_much_memory_is_ended(tmp_path: Path) -> None:
    script = "rows = []\nwhile True:\n    rows.append(bytes(1 << 20) * 8)\n"
    found = failure_of(tmp_path, script, "--max-memory", str(1 << 30))
    assert (found.code, found.file is not None) == ("memory", True)


SAVING = """
import json
import os
from pathlib import Path

import torch

Path("kept.txt").write_text("changed")
os.makedirs("runs/first", exist_ok=True)
with open("runs/first/log.json", "w") as file:
    json.dump({"a": 1}, file)
assert json.load(open("runs/first/log.json")) == {"a": 1}
with open("kept.txt", "a") as file:
    file.write(" again")
assert Path("kept.txt").read_text() == "changed again"
os.remove("other.txt")
model = torch.nn.Linear(4, 4).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(3):
    model(torch.ones(2, 4).cuda()).sum().backward()
    torch.save(model.state_dict(), "model.pt")
    optimizer.step()
"""


def test_what_a_script_writes_and_deletes_is_listed_and_not_done(tmp_path: Path) -> None:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "kept.txt").write_text("content")
    (folder / "other.txt").write_text("content")
    trace = trace_of(folder, SAVING)
    assert (folder / "kept.txt").read_text() == (folder / "other.txt").read_text() == "content"
    assert sorted(path.name for path in folder.iterdir()) == ["kept.txt", "other.txt", "train.py"]
    messages = [note.message for note in trace.side_effects]
    for name in (
        "/kept.txt",
        "/log.json",
        "other.txt)",
        "torch.save",
    ):
        assert any(name in message for message in messages), messages
    assert {note.line for note in trace.side_effects if "other.txt" in note.message} == {
        line_of(SAVING, "os.remove")
    }
