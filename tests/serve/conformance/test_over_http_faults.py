"""What handlers do to the process that runs them: the next request is answered, and SIGTERM still ends it all.

Deaths in each phase, hanging and forking handlers are in tests/serve/workers/test_faults.py.
"""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from support.cli_sandbox import until
from support.model_server import ECHO, Server
from support.raw_connections import as_folder, served

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("serve-faults")]

HOOKS = {"input_fn": "return json.loads(body)", "predict_fn": "return data", "output_fn": "return json.dumps"}


def in_hook(hook: str, does: str, *, once: bool = False) -> str:
    """The echo handler; one of its functions runs a fault when the request is `bad`."""
    argument = {"input_fn": "json.loads(body)", "predict_fn": "data", "output_fn": "prediction"}[hook]
    guard = f"    if {argument} == 'bad':\n        {does}\n    {HOOKS[hook]}"
    return ECHO.replace(f"    {HOOKS[hook]}", guard)


def the_next_is_answered(server: Server) -> None:
    assert server.predict("good").json == "good"
    assert server.ping() == 200


@pytest.mark.parametrize("hook", HOOKS)
@pytest.mark.parametrize("code", ["sys.exit()", "sys.exit(3)", "raise SystemExit('bye')", "exit()"])
def test_sys_exit_in_a_function_fails_its_request_and_keeps_the_process(
    tmp_path: Path, hook: str, code: str
) -> None:
    with served(tmp_path, in_hook(hook, code)) as server:
        before = server.workers
        answer = server.predict("bad")
        assert (answer.status, answer.json["error"]) == (500, "the handler called sys.exit")
        the_next_is_answered(server)
        assert server.workers == before


@pytest.mark.parametrize("place", ["import", "model_fn"])
def test_sys_exit_while_loading_is_reported_and_never_healthy(tmp_path: Path, place: str) -> None:
    text = "import sys; sys.exit(4)\n" if place == "import" else ECHO.replace('return "model"', "sys.exit(4)")
    with served(tmp_path, text, healthy=False) as server:
        until(lambda: "worker is lost" in server.ask("GET", "/ping").json["reason"], "the load to fail")
        assert "SystemExit" in server.log_text
        assert server.predict(1).status == 503


@pytest.mark.parametrize(
    ("does", "status"),
    [
        ("import ctypes; ctypes.string_at(0)", 500),
        ("os.abort()", 500),
        ("os.closerange(0, 256); return data", 500),
        ("os._exit(0)", 500),
    ],
)
def test_a_process_that_is_ruined_fails_its_request_and_is_replaced(
    tmp_path: Path, does: str, status: int
) -> None:
    with served(tmp_path, in_hook("predict_fn", does)) as server:
        before = server.workers
        assert server.predict("bad").status == status
        the_next_is_answered(server)
        assert server.workers != before


@pytest.mark.parametrize(
    ("does", "status"),
    [
        ("def down(): return down()\n        down()", 500),
        ("os.environ.clear(); return data", 200),
        ("sys.path.clear(); return data", 200),
        ("os.chdir('/'); return data", 200),
        ("sys.stdout = sys.stderr = None; return data", 200),
        ("import logging; logging.shutdown(); return data", 200),
        ("import warnings; warnings.simplefilter('error'); return data", 200),
        ("import locale; locale.setlocale(locale.LC_ALL, 'C'); return data", 200),
        ("import threading; threading.Thread(target=time.sleep, args=(99,)).start(); return data", 200),
        ("import gc; gc.disable(); return data", 200),
        ("import builtins; builtins.print = None; return data", 200),
        ("import socket; socket.setdefaulttimeout(0.001); return data", 200),
        ("import asyncio; asyncio.new_event_loop().run_until_complete(asyncio.sleep(0)); return data", 200),
        (
            "import multiprocessing as m; m.get_context('fork').Process(target=print).start(); return data",
            200,
        ),
        ("import atexit; atexit.register(time.sleep, 99); return data", 200),
        ("raise BaseException('outside of Exception')", 500),
        ("raise GeneratorExit", 500),
        ("raise StopIteration", 500),
        ("raise type('Odd', (Exception,), {'__str__': lambda self: 1 / 0})()", 500),
        ("raise ValueError('\\ud800 no text')", 500),
    ],
)
def test_a_handler_may_do_this_to_its_process(tmp_path: Path, does: str, status: int) -> None:
    with served(tmp_path, in_hook("predict_fn", does)) as server:
        before = server.workers
        assert server.predict("bad").status == status
        the_next_is_answered(server)
        assert set(before) <= set(server.workers)


@pytest.mark.parametrize("hook", HOOKS)
def test_binary_printed_in_any_function_reaches_no_client(tmp_path: Path, hook: str) -> None:
    prints = in_hook(
        hook, "sys.stdout.buffer.write(bytes(range(256)) * 500); os.write(1, b'\\xff\\0' * 5000)"
    )
    with served(tmp_path, prints) as server:
        assert server.predict("bad").json == "bad"
        the_next_is_answered(server)


def test_a_handler_that_takes_all_signals_is_still_ended_by_sigterm(tmp_path: Path) -> None:
    takes = ECHO.replace(
        'return "model"',
        "[signal.signal(n, lambda *_: None) for n in range(1, 65) if n not in (9, 19, 32, 33)]; return 1",
    )
    with served(tmp_path, takes) as server:
        assert server.predict(1).json == 1
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(300) == 0


def test_a_handler_that_takes_all_signals_and_hangs_is_killed_and_replaced(tmp_path: Path) -> None:
    takes = in_hook(
        "predict_fn",
        "[signal.signal(n, lambda *_: None) for n in range(1, 65) if n not in (9, 19, 32, 33)]; time.sleep(99)",
    )
    with served(tmp_path, takes, "--timeout", "1") as server:
        assert server.predict("bad").status == 504
        until(lambda: server.predict("good").status == 200, "the replacement")


def test_a_loop_in_c_that_no_signal_stops_is_killed_and_replaced(tmp_path: Path) -> None:
    # Python's own loops in C look for signals; OpenSSL's do not.
    spins = in_hook("predict_fn", "import hashlib; hashlib.pbkdf2_hmac('sha256', b'x', b'y', 2**31 - 1)")
    with served(tmp_path, spins, "--timeout", "1") as server:
        assert server.predict("bad").status == 504
        until(lambda: server.predict("good").status == 200, "the replacement")
        output = server.log_text.partition("hangs and is killed; its stack:")[2]
        assert re.search(r'inference\.py", line \d+ in predict_fn', output), server.log_text


def test_a_leak_is_seen_to_end_with_its_process_and_no_other(tmp_path: Path) -> None:
    leaks = ECHO.replace(
        "    return data", "    sys.modules.setdefault('leak', []).append(b'x' * 10_000_000)\n    return data"
    )
    leaks = leaks.replace(
        'return "model"',
        "import resource; resource.setrlimit(resource.RLIMIT_AS, (600 << 20, 600 << 20)); return 1",
    )
    with served(tmp_path, leaks) as server:
        statuses = {server.predict(1).status for _ in range(80)}
        assert statuses == {200, 500}
        assert server.ping() == 200


def test_logs_on_a_full_disk_stop_nothing(tmp_path: Path) -> None:
    if shutil.which("unshare") is None or subprocess.run(["unshare", "--mount", "true"]).returncode != 0:
        pytest.skip("mount namespaces are not allowed here")
    (tmp_path / "disk").mkdir()
    logs = (
        f"mount -t tmpfs -o size=16k tmpfs {tmp_path}/disk && cd {tmp_path}/disk && head -c 12k /dev/zero > filled; "
        'exec "$@" > out 2> err'
    )
    talks = in_hook("predict_fn", "raise ValueError('x' * 5000)")
    with served(tmp_path, talks, under=("unshare", "--mount", "sh", "-c", logs, "sh")) as server:
        for _ in range(20):
            assert server.predict("bad").status == 500
        the_next_is_answered(server)
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(300) == 0


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("def model_fn(: pass", "SyntaxError"),
        ("import nothing_like_it", "nothing_like_it"),
        ("def predict_fn(data): pass\ndef model_fn(model_dir): return 1", "predict_fn(data)"),
        ("def model_fn(model_dir): pass", "returned None"),
        ("x = 1", "model_fn"),
    ],
)
def test_a_handler_that_cannot_serve_is_named_in_the_log_and_on_ping_without_a_restart_loop(
    tmp_path: Path, text: str, expected: str
) -> None:
    with served(tmp_path, as_folder(tmp_path, text), healthy=False) as server:
        until(lambda: "worker is lost" in server.ask("GET", "/ping").json["reason"], "the load to fail")
        assert expected in server.log_text
        assert server.workers == []
