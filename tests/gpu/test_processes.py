"""What a process tree uses, from the real /proc and from one made up."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpuproof.gpu.processes import (
    ProcessReading,
    ProcessTree,
    TreeReading,
    cpu_between,
    dev_shm,
)

needs_proc = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="there is no /proc here")
PAGE = os.sysconf("SC_PAGE_SIZE")
TICKS = os.sysconf("SC_CLK_TCK")


class FakeProc:
    """A /proc of processes that never were."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def process(
        self,
        pid: int,
        parent: int,
        *,
        name: str = "python",
        state: str = "S",
        ticks: tuple[int, int, int, int] = (0, 0, 0, 0),
        pages: int = 0,
        io: tuple[int, int] | None = (0, 0),
    ) -> None:
        folder = self.root / str(pid)
        folder.mkdir(exist_ok=True)
        before = f"{pid} ({name}) {state} {parent} 1 1 0 -1 4194560 0 0 0 0"
        (folder / "stat").write_text(f"{before} {' '.join(map(str, ticks))} 20 0 1 0 100 9999 {pages} 1\n")
        if io is not None:
            (folder / "io").write_text(f"rchar: 5\nread_bytes: {io[0]}\nwrite_bytes: {io[1]}\n")

    def gone(self, pid: int) -> None:
        for file in (self.root / str(pid)).iterdir():
            file.unlink()
        (self.root / str(pid)).rmdir()

    def tree(self, root_pid: int) -> ProcessTree:
        return ProcessTree(root_pid, str(self.root))


@pytest.fixture
def proc(tmp_path: Path) -> Iterator[FakeProc]:
    fake = FakeProc(tmp_path)
    fake.process(1, 0, name="init")
    return fake


def test_a_tree_is_the_root_and_everything_below_it(proc: FakeProc):
    proc.process(10, 1)
    proc.process(11, 10)
    proc.process(12, 11)
    proc.process(20, 1, name="another process")
    reading = ProcessTree(10, str(proc.root)).read()
    assert reading is not None
    assert reading.pids == {10, 11, 12}


def test_the_numbers_of_a_tree_add_up(proc: FakeProc):
    proc.process(10, 1, ticks=(TICKS, TICKS, 3 * TICKS, 0), pages=10, io=(1000, 1))
    proc.process(11, 10, name="worker", ticks=(5 * TICKS, 0, 0, 0), pages=5, io=(500, 2))
    reading = ProcessTree(10, str(proc.root)).read()
    assert reading is not None
    assert reading.cpu_seconds == 10
    assert reading.rss == 15 * PAGE
    assert (reading.read_bytes, reading.written_bytes) == (1500, 3)
    assert reading.busiest == ProcessReading(11, "worker", 5)


def test_a_name_with_brackets_and_blanks_is_read(proc: FakeProc):
    proc.process(10, 1, name="a) S 1 (b")
    reading = ProcessTree(10, str(proc.root)).read()
    assert reading is not None
    assert reading.processes[0].name == "a) S 1 (b"


def test_io_that_may_not_be_seen_is_none(proc: FakeProc):
    proc.process(10, 1, io=None)
    reading = ProcessTree(10, str(proc.root)).read()
    assert reading is not None
    assert (reading.read_bytes, reading.written_bytes) == (None, None)


def test_a_process_in_uninterruptible_sleep_waits_for_a_disk(proc: FakeProc):
    proc.process(10, 1, state="D")
    reading = ProcessTree(10, str(proc.root)).read()
    assert reading is not None
    assert reading.processes[0].waits_for_disk


def test_a_process_that_vanishes_while_it_is_read_is_passed_over(proc: FakeProc):
    proc.process(10, 1)
    (proc.root / "11").mkdir()
    (proc.root / "12").mkdir()
    (proc.root / "12" / "stat").write_text("12 (half")
    reading = ProcessTree(10, str(proc.root)).read()
    assert reading is not None
    assert reading.pids == {10}


def test_a_child_whose_parent_vanishes_at_that_moment_comes_back_with_its_new_parent(proc: FakeProc):
    proc.process(10, 1)
    proc.process(12, 11)  # 11 has just ended, 12 is not adopted yet
    tree = proc.tree(10)
    first = tree.read()
    proc.process(12, 10)
    second = tree.read()
    assert first is not None
    assert first.pids == {10}
    assert second is not None
    assert second.pids == {10, 12}


def test_new_processes_are_found_and_ended_ones_forgotten(proc: FakeProc):
    proc.process(10, 1)
    proc.process(11, 10)
    tree = proc.tree(10)
    tree.read()
    proc.gone(11)
    proc.process(12, 10)
    reading = tree.read()
    assert reading is not None
    assert reading.pids == {10, 12}


def test_a_process_id_that_is_used_again_in_the_tree_is_found(proc: FakeProc):
    proc.process(10, 1)
    proc.process(20, 1)
    tree = proc.tree(10)
    tree.read()
    proc.gone(20)
    tree.read()
    proc.process(20, 10)
    reading = tree.read()
    assert reading is not None
    assert 20 in reading.pids


def test_processes_outside_the_tree_are_not_read_again(proc: FakeProc):
    proc.process(10, 1)
    proc.process(20, 1)
    tree = proc.tree(10)
    tree.read()
    proc.process(20, 10)  # impossible: no process moves into a tree from outside
    reading = tree.read()
    assert reading is not None
    assert reading.pids == {10}


def test_an_ended_root_or_a_machine_without_proc_has_no_tree(proc: FakeProc, tmp_path: Path):
    assert ProcessTree(10, str(proc.root)).read() is None
    assert ProcessTree(10, str(tmp_path / "none")).read() is None


@needs_proc
def test_a_real_tree_has_its_children_and_their_cpu_time():
    program = "import time; end = time.process_time() + 0.05\nwhile time.process_time() < end: pass\ninput()"
    with subprocess.Popen(
        [sys.executable, "-c", f"{program.replace('input()', 'print(1, flush=True)')}\ninput()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as child:
        assert child.stdout is not None
        child.stdout.readline()
        reading = ProcessTree(os.getpid()).read()
        only = ProcessTree(child.pid).read()
        child.communicate(b"\n")
    assert reading is not None
    assert {os.getpid(), child.pid} <= reading.pids
    assert only is not None
    assert only.cpu_seconds >= 0.04
    assert only.rss > 1024 * 1024


def _tree(total: float, **cpu: float) -> TreeReading:
    processes = tuple(ProcessReading(int(pid[1:]), "python", seconds) for pid, seconds in cpu.items())
    return TreeReading(processes, total, 0, None, None)


def test_the_busiest_process_is_the_one_that_ran_most_in_between():
    use = cpu_between(_tree(101, p1=100, p2=1), _tree(103, p1=100.1, p2=2.9), 2)
    assert use is not None
    assert use.busiest is not None
    assert (use.busiest.pid, use.busiest.cores) == (2, pytest.approx(0.95))
    assert (use.cores, use.saturated) == (1, 1)


def test_a_tree_that_lost_processes_has_used_nothing_rather_than_less_than_nothing():
    use = cpu_between(_tree(100, p1=50, p2=50), _tree(50, p1=50), 1)
    assert use is not None
    assert use.cores == 0


def test_cpu_usage_over_no_time_is_none():
    assert cpu_between(_tree(1), _tree(1), 0) is None


def test_shared_memory_is_measured_where_it_exists(tmp_path: Path):
    here = dev_shm(str(tmp_path))
    assert here is not None
    assert 0 <= here.used <= here.total
    assert dev_shm(str(tmp_path / "none")) is None
