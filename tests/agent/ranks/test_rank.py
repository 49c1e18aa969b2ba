"""The rank program is held against Python itself: the same script, with and without it, in processes of their own."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from gpuproof.agent.ranks.report import read_reports

pytestmark = pytest.mark.slow

STATE = """
import sys
print(sys.argv, sys.path[0], sorted(set(globals()) - {"__builtins__"}), __name__, __file__, __spec__, __package__)
print([name for name in sys.modules if name.startswith("gpuproof")], sys.modules["__main__"].__dict__ is globals())
"""
FAILURES = {
    "an-exception": "def f():\n    raise ValueError('bad \\x01 \\udc80 \"ü\"')\ntry:\n    1 / 0\nexcept ArithmeticError:\n    f()",
    "an-exit-code": "import sys; sys.exit(3)",
    "a-message": "raise SystemExit('message')",
    "an-interrupt": "raise KeyboardInterrupt",
    "a-signal": "import os; os.kill(os.getpid(), 9)",
    "a-syntax-error": "x = (",
    "a-hook": "import sys; sys.excepthook = lambda *about: print(about[2].tb_frame.f_code.co_filename); {}['x']",
    "own-class": "class Fault(Exception):\n    def __str__(self):\n        raise TypeError\nraise Fault",
}
SPAWN = """
import atexit, multiprocessing, pickle, threading, time
class Value: pass
def answer(value): return type(value).__module__
if __name__ == "__main__":
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        print(pool.map(answer, [Value()]))
    atexit.register(lambda: print("at exit", type(pickle.loads(pickle.dumps(Value()))).__module__))
    threading.Thread(target=lambda: (time.sleep(0.1), pickle.dumps(Value()), print("thread"))).start()
"""


class Rank:
    """Starts scripts plainly and as a rank."""

    def __init__(self, folder: Path, agent: Path, option: str = "--rank") -> None:
        self.folder, self.agent, self.reports = folder, agent, folder / "reports"
        self.option = option

    def __call__(self, *words: str, plain: bool = False) -> subprocess.CompletedProcess[str]:
        program = [] if plain else [str(self.agent), self.option]
        variables = {
            "GPUPROOF_RANK_REPORTS": str(self.reports),
            "RANK": "3",
            "LOCAL_RANK": "1",
            "SM_CURRENT_HOST": "algo-2",
        }
        return subprocess.run(
            [sys.executable, *program, *words],
            cwd=self.folder,
            env={**os.environ, **({} if plain else variables)},
            capture_output=True,
            text=True,
            errors="surrogateescape",
            timeout=120,
        )

    def same(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Its result, which must be the same as Python's own."""
        plain, rank = self(*words, plain=True), self(*words)
        assert (plain.returncode, plain.stdout) == (rank.returncode, rank.stdout)
        # Python's own `-m` shows its frames.
        assert re.sub(r'  File "<frozen runpy>.*\n', "", plain.stderr) == rank.stderr
        return rank


@pytest.fixture
def rank(tmp_path: Path, agent_file: Path) -> Rank:
    return Rank(tmp_path, agent_file)


@pytest.fixture(params=["--rank", "--watched-rank"])
def either(tmp_path: Path, agent_file: Path, request: pytest.FixtureRequest) -> Rank:
    return Rank(tmp_path, agent_file, request.param)


def test_the_script_finds_everything_as_python_provides_it(either: Rank) -> None:
    (either.folder / "code").mkdir()
    (either.folder / "code" / "train.py").write_text(STATE)
    (either.folder / "link.py").symlink_to("code/train.py")
    either.same("code/train.py", "--lr", "a b")
    either.same("link.py")


def test_a_module_is_run_as_by_python_m(rank: Rank) -> None:
    package = rank.folder / "package"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "train.py").write_text(
        STATE.replace(", __spec__", ", __spec__.name") + "from . import other\nother.fail()"
    )
    (package / "other.py").write_text("def fail():\n    raise ValueError('in a module')")
    (package / "__main__.py").write_text(STATE.replace(", __spec__", ", __spec__.name"))
    assert "in a module" in rank.same("-m", "package.train", "x").stderr
    rank.same("-m", "package")
    rank.same("-m", "no_such")


@pytest.mark.parametrize("name", FAILURES)
def test_a_failing_script_ends_as_without_the_program(either: Rank, name: str) -> None:
    (either.folder / "train.py").write_text(FAILURES[name])
    either.same("train.py")


def test_pickles_threads_and_spawned_processes_find_the_scripts_classes(either: Rank) -> None:
    (either.folder / "train.py").write_text(SPAWN)
    assert either.same("train.py").stdout.splitlines() == ["['__mp_main__']", "thread", "at exit __main__"]


def test_an_exception_is_reported_with_host_rank_and_traceback(rank: Rank) -> None:
    (rank.folder / "train.py").write_text(FAILURES["an-exception"])
    stderr = rank("train.py").stderr
    (report,) = read_reports(rank.reports)
    assert (report.host, report.rank, report.local_rank, report.code) == ("algo-2", 3, 1, 1)
    assert report.type == "ValueError"
    assert report.message == 'bad \x01 \udc80 "ü"'
    assert report.traceback.splitlines()[:3] == stderr.splitlines()[:3]
    assert report.time is not None
    assert report.started <= report.time


def test_a_rank_that_was_killed_differs_from_one_that_reached_its_end(rank: Rank) -> None:
    (rank.folder / "train.py").write_text("import os, sys\nif sys.argv[1:]: os.kill(os.getpid(), 9)")
    rank("train.py")
    (report,) = read_reports(rank.reports)
    assert (report.failed, report.vanished) == (False, False)
    rank("train.py", "x")
    (report,) = read_reports(rank.reports)
    assert (report.failed, report.vanished) == (False, True)


def test_processes_that_the_script_forks_write_no_report(rank: Rank) -> None:
    (rank.folder / "train.py").write_text("import os\nif os.fork() == 0:\n    raise KeyError\nos.wait()")
    rank("train.py")
    (report,) = read_reports(rank.reports)
    assert not report.failed


def test_torchs_error_file_is_written_unless_the_script_did(
    rank: Rank, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = rank.folder / "error.json"
    monkeypatch.setenv("TORCHELASTIC_ERROR_FILE", str(file))
    (rank.folder / "train.py").write_text("raise ValueError('x')")
    rank("train.py")
    message = json.loads(file.read_text())["message"]
    assert message["message"] == "ValueError: x"
    assert message["extraInfo"]["py_callstack"].startswith("Traceback (most recent call last):\n")
    assert int(message["extraInfo"]["timestamp"]) > 0
    file.write_text("the script's own")
    rank("train.py")
    assert file.read_text() == "the script's own"
