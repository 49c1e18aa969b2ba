"""`rt.watch()` as a context manager and a decorator."""

from __future__ import annotations

import json
from pathlib import Path

from support.watch_machine import WatchMachine

IMPORT = "import os, sys\nimport gpuproof.runtime as rt\n"
UNUSED = "No process of the job opened a GPU."


def indented(code: str) -> str:
    """Code as the body of a block."""
    return "\n".join(f"    {line}" for line in code.splitlines())


def test_a_block_that_uses_its_gpu_is_reported_at_its_end(machine: WatchMachine, tmp_path: Path):
    report = tmp_path / "report.json"
    script = f"""{IMPORT}
with rt.watch(report={str(report)!r}) as watch:
{indented(machine.works)}
print(os.path.exists({str(report)!r}), flush=True)
"""
    ended = machine.run(script)
    assert (ended.returncode, ended.stdout) == (0, "True\n"), ended.stderr
    assert ended.stderr.count("A10G") == 1
    document = json.loads(report.read_text())
    assert (document["verdict"]["outcome"], document["exit_code"]) == ("used", None)


def test_a_block_without_work_raises_at_its_end_only(machine: WatchMachine):
    script = f"""{IMPORT}
try:
    with rt.watch():
        print("inside")
except rt.GpuUnused as error:
    print(error)
with rt.watch(require_gpu=False):
    print("not required")
"""
    ended = machine.run(script)
    assert ended.returncode == 0, ended.stderr
    inside, reason, last = ended.stdout.splitlines()
    assert (inside, last) == ("inside", "not required")
    assert reason.startswith(UNUSED)


def test_the_error_of_a_block_is_not_replaced(machine: WatchMachine):
    script = f"{IMPORT}try:\n    with rt.watch():\n        1 / 0\nexcept ZeroDivisionError:\n    print('own')"
    ended = machine.run(script)
    assert (ended.returncode, ended.stdout) == (0, "own\n"), ended.stderr
    assert UNUSED in ended.stderr


def test_a_block_in_a_watched_process_has_a_verdict_of_its_own(machine: WatchMachine):
    script = f"""{IMPORT}
rt.watch()
try:
    with rt.watch():
        pass
except rt.GpuUnused:
    print("block")
{machine.works}
"""
    ended = machine.run(script)
    assert (ended.returncode, ended.stdout) == (0, "block\n"), ended.stderr
    assert ended.stderr.count(UNUSED) == 1
    assert ended.stderr.count("verdict ") == 2


def test_a_function_is_watched_at_each_call(machine: WatchMachine):
    script = f"""{IMPORT}
@rt.watch(gpus=1)
def idle(value, *, again=0):
    "Documented."
    return value + again

@rt.watch
def work():
{indented(machine.works)}
    return "worked"

print(idle.__name__, idle.__doc__)
for again in (1, 2):
    try:
        idle(1, again=again)
    except rt.GpuUnused:
        print("unused")
print(work())
"""
    ended = machine.run(script)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.splitlines() == ["idle Documented.", "unused", "unused", "worked"]
    assert ended.stderr.count("verdict ") == 3


def test_a_decorated_function_that_is_never_called_reports_nothing(machine: WatchMachine):
    ended = machine.run(f"{IMPORT}@rt.watch()\ndef train(): pass")
    assert (ended.returncode, ended.stderr) == (0, "")


def test_the_interpreter_is_as_before_after_a_block(machine: WatchMachine):
    script = f"{IMPORT}before = sys.exit\nwith rt.watch(require_gpu=False): pass\nassert sys.exit is before"
    assert machine.run(script).returncode == 0
