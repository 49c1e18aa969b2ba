"""A process that `support.fork_server` forks is like one that `python -m` starts."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.fork_server import ORIGINAL_ENVIRONMENT, ForkServer, suits

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="needs Linux's pidfd_open"),
]

_PROGRAM = """
import atexit, json, os, sys, threading

atexit.register(print, "atexit")
seen = {
    "arguments": sys.argv[1:],
    "file": os.path.basename(sys.argv[0]),
    "name": __name__,
    "folder": os.getcwd(),
    "path": sys.path[0],
    "environment": dict(os.environ),
    "input": sys.stdin.read(),
    "leader": os.getsid(0) == os.getpid() == os.getpgrp(),
    "descriptors": sorted(os.listdir("/proc/self/fd")),
    "threads": threading.active_count(),
    "bytecode": sys.dont_write_bytecode,
}
print(json.dumps(seen))
print("problem", file=sys.stderr)
{end}
"""


@pytest.fixture(scope="module")
def server() -> Iterator[ForkServer]:
    started = ForkServer("probe", "decimal")
    yield started
    started.close()


def _run(server: ForkServer | None, folder: Path, environment: dict[str, str]) -> tuple[int, str, str]:
    """Exit code, output and errors of the program, by the server or as a new process."""
    with (folder / "in").open() as data, (folder / "out").open("w") as out, (folder / "err").open("w") as err:
        words = ["-m", "probe", "--flag", "two words"]
        if server is None:
            process = subprocess.Popen(
                [sys.executable, *words],
                cwd=folder,
                env=environment,
                stdin=data,
                stdout=out,
                stderr=err,
                start_new_session=True,
            )
        else:
            streams = (data.fileno(), out.fileno(), err.fileno())
            process = server.popen(words, cwd=folder, env=environment, streams=streams)
        code = process.wait(600)
    return code, (folder / "out").read_text(), (folder / "err").read_text()


@pytest.mark.parametrize(
    "end", ["", "sys.exit(7)", "sys.exit('message')", "os.kill(os.getpid(), 9)", "os._exit(3)"]
)
def test_it_sees_and_returns_what_a_new_process_does(server: ForkServer, tmp_path: Path, end: str) -> None:
    (tmp_path / "probe.py").write_text(_PROGRAM.replace("{end}", end))
    (tmp_path / "in").write_text("hello")
    environment = {**os.environ, "AWS_PROFILE": "mine", "PYTHONUNBUFFERED": "1"}
    forked = _run(server, tmp_path, environment)
    assert forked == _run(None, tmp_path, environment)
    assert json.loads(forked[1].splitlines()[0])["input"] == "hello"


def test_an_exception_is_printed_and_the_exit_code_is_1(server: ForkServer, tmp_path: Path) -> None:
    (tmp_path / "probe.py").write_text("raise ValueError('broken')")
    (tmp_path / "in").touch()
    code, _, errors = _run(server, tmp_path, dict(os.environ))
    assert (code, errors.splitlines()[-1]) == (1, "ValueError: broken")


def test_it_has_the_imported_modules_and_its_own_state(server: ForkServer, tmp_path: Path) -> None:
    program = "import sys\nm = sys.modules['decimal']\nprint(hasattr(m, 'mark'))\nm.mark = 1\n"
    (tmp_path / "probe.py").write_text(program)
    (tmp_path / "in").touch()
    assert [_run(server, tmp_path, dict(os.environ))[1] for _ in range(2)] == ["False\n"] * 2


def test_waiting_has_a_limit_and_a_killed_process_its_signal(server: ForkServer, tmp_path: Path) -> None:
    (tmp_path / "probe.py").write_text("import signal\nsignal.pause()\n")
    with open(os.devnull, "r+") as nothing:
        streams = (nothing.fileno(),) * 3
        process = server.popen(["-m", "probe"], cwd=tmp_path, env=os.environ, streams=streams)
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(0.01)
    process.kill()
    assert process.wait(600) == -signal.SIGKILL


def test_the_server_ends_with_its_last_user() -> None:
    first, second = ForkServer("ending"), ForkServer("ending")
    assert (first._process is None, second._process is None) == (False, True)
    first.close()
    second.close()
    assert first._process is not None
    assert first._process.wait(600) == 0


def test_variables_that_a_framework_reads_need_a_new_process() -> None:
    assert suits(sys.executable, {**ORIGINAL_ENVIRONMENT, "GPUPROOF_STATE_DIR": "/x"})
    assert not suits(sys.executable, {**ORIGINAL_ENVIRONMENT, "OMP_NUM_THREADS": "3"})
    assert not suits("/usr/bin/another", ORIGINAL_ENVIRONMENT)
