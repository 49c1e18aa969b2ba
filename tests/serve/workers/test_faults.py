"""Faults of handlers and clients, with real processes: others are not affected, and nothing is left behind."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from support.cli_sandbox import gone, until
from support.model_server import ECHO, WAITS, Server, below, model_folder, serving, zombies

pytestmark = pytest.mark.slow


def handler(
    predict: str = "return data", *, load: str = 'return "model"', decode: str = "", encode: str = ""
) -> str:
    """The echoing handler with one function's body replaced."""
    text = ECHO.replace('return "model"', load)
    text = text.replace("    return data", f"    {predict}")
    text = text.replace(
        "    return json.loads(body)", f"    data = json.loads(body)\n    {decode or 'pass'}\n    return data"
    )
    return text.replace("    return json.dumps", f"    {encode or 'pass'}\n    return json.dumps")


HANGS = "time.sleep(60) if data.get('hang') else None"


def in_background(server: Server, data: object) -> threading.Thread:
    thread = threading.Thread(target=lambda: server.predict(data), daemon=True)
    thread.start()
    return thread


@pytest.mark.parametrize("phase", ["decode", "predict", "encode"])
def test_a_predictor_killed_in_any_phase_fails_its_request_at_once_and_is_replaced(
    tmp_path: Path, phase: str
) -> None:
    dies = "os.kill(os.getpid(), signal.SIGKILL) if {}.get('die') else None"
    text = handler(
        (dies.format("data") if phase == "predict" else "pass") + "\n    return data",
        decode=dies.format("data") if phase == "decode" else "",
        encode=dies.format("prediction") if phase == "encode" else "",
    )
    with serving(tmp_path, text) as server:
        answer = server.predict({"die": 1})
        # Had it been waited for, it would be 504, after a minute.
        assert (answer.status, "SIGKILL" in answer.json["error"]) == (500, True)
        assert server.predict({"a": 1}).json == {"a": 1}
        assert server.ping() == 200


def test_a_predictor_killed_while_it_loads_is_started_again(tmp_path: Path) -> None:
    load = (
        "import pathlib; mark = pathlib.Path(model_dir) / 'mark'\n"
        "    if not mark.exists():\n        mark.touch(); os.kill(os.getpid(), signal.SIGKILL)\n    return 'model'"
    )
    with serving(tmp_path, handler(load=load)) as server:
        assert server.predict(1).json == 1


def test_a_predictor_killed_while_idle_is_replaced(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        (before,) = server.workers
        os.kill(before, signal.SIGKILL)
        assert gone(before)
        assert server.predict(1).json == 1
        assert server.workers != [before]


def test_what_merely_waited_for_a_predictor_that_died_is_answered_by_the_next(tmp_path: Path) -> None:
    go = tmp_path / "go"
    waits = "while not os.path.exists(data['die']):\n            time.sleep(0.01)"
    text = handler(f"if data.get('die'):\n        {waits}\n        os._exit(7)\n    return data")
    with serving(tmp_path, text) as server, ThreadPoolExecutor(4) as pool:
        dying = pool.submit(server.predict, {"die": str(go)})
        server.wait_for_requests(1)
        others = [pool.submit(server.predict, {"n": n}) for n in range(3)]
        server.wait_for_requests(4)
        go.touch()
        assert dying.result().status == 500
        assert [other.result().json for other in others] == [{"n": 0}, {"n": 1}, {"n": 2}]


def test_requests_that_kill_their_predictor_one_after_another_do_not_end_the_service(tmp_path: Path) -> None:
    with serving(tmp_path, handler("os._exit(9) if data == 'poison' else None\n    return data")) as server:
        reasons: list[str] = []
        for _ in range(7):
            assert server.predict("poison").status == 500
            answer = server.ask("GET", "/ping")
            reasons += [answer.json["reason"]] if answer.status == 503 else []
        assert any("in a row ended without a response (exit code 9)" in reason for reason in reasons)
        # It waits for the next worker, which comes; and an answer makes all forgotten.
        assert server.predict("good").json == "good"
        server.until_healthy()
        assert server.predict("poison").status == 500
        assert server.ping() == 200


def test_a_predictor_that_cannot_be_loaded_again_is_abandoned_and_ping_reports_it(tmp_path: Path) -> None:
    once = f"if os.path.exists({str(tmp_path / 'loaded')!r}): os._exit(1)\n"
    once += f"    open({str(tmp_path / 'loaded')!r}, 'w').close()\n    return 1"
    with serving(tmp_path, handler("os._exit(9)", load=once)) as server:
        assert server.predict(1).status == 500
        until(lambda: "worker is lost" in server.ask("GET", "/ping").body.decode(), "the loss")
        assert server.log_text.count("is ready again") == 0
        assert server.log_text.count("ended (exit code 1); restarting it in") == 4
        assert server.predict(1).status == 503


def test_ping_is_503_and_the_port_open_after_a_load_that_failed(tmp_path: Path) -> None:
    with serving(tmp_path, handler(load="raise ValueError('no weights')"), healthy=False) as server:
        until(lambda: "worker is lost" in server.ask("GET", "/ping").json["reason"], "the load to fail")
        assert server.ping() == 503
        assert "no weights" in server.log_text
        assert "no weights" not in server.predict(1).body.decode()


def test_a_model_that_takes_too_long_to_load_is_abandoned_and_ping_reports_it(tmp_path: Path) -> None:
    hangs = handler(load="time.sleep(600)")
    with serving(tmp_path, hangs, healthy=False, SAGEMAKER_STARTUP_TIMEOUT="1.5") as server:
        until(lambda: "longer than 1.5 s" in server.ask("GET", "/ping").json["reason"], "the loss")
        assert server.predict(1).status == 503


def test_ping_is_503_until_the_model_is_loaded_and_answers_meanwhile(tmp_path: Path) -> None:
    go = tmp_path / "go"
    load = f"while not os.path.exists({str(go)!r}): time.sleep(0.01)\n    return 1"
    with serving(tmp_path, handler(load=load), healthy=False) as server:
        assert server.ping() == 503
        assert server.predict(1).status == 503
        go.touch()
        server.until_healthy()


def test_a_handler_that_sleeps_too_long_is_interrupted_and_its_process_kept(tmp_path: Path) -> None:
    with serving(tmp_path, handler(f"{HANGS}\n    return data"), "--timeout", "1") as server:
        before = server.workers
        assert server.predict({"hang": 1}).status == 504
        # On a slow machine a second may be too little for any answer.
        until(lambda: server.predict({"a": 1}).status == 200, "the next answer")
        assert server.workers == before


def test_a_handler_that_cannot_be_interrupted_is_killed_and_replaced(tmp_path: Path) -> None:
    # Swallows everything and continues.
    hangs = "while data.get('hang'):\n        try:\n            time.sleep(60)\n        except BaseException:\n            pass\n    return data"
    with serving(tmp_path, handler(hangs), "--timeout", "1") as server:
        (before,) = server.workers
        assert server.predict({"hang": 1}).status == 504
        assert gone(before)
        # A second may be too little for the next one to load.
        until(lambda: server.predict({"a": 1}).status == 200, "the new worker")
        assert 'inference.py", line' in server.log_text.partition("its stack:")[2]


@pytest.mark.parametrize(
    ("what", "status"),
    [
        ("sys.exit(3)", 500),
        ("raise KeyboardInterrupt", 500),
        ("raise ValueError('secret /path')", 500),
        ("sys.stdout.buffer.write(bytes(range(256)) * 100); sys.stdout.flush(); return data", 200),
        ("os.write(1, b'\\xff\\x00' * 9999); os.write(2, b'\\xff' * 99); return data", 200),
        ("[signal.signal(n, lambda *_: None) for n in (2, 10, 12, 15)]; return data", 200),
        ("sys.stdout.close(); sys.stderr.close(); return data", 200),
        ("os.fork(); return data", 200),
        ("os.fork() or os._exit(0); return data", 200),
        ("import ctypes; ctypes.CDLL(None).fork(); return data", 200),
        ("sys.setrecursionlimit(100); return data", 200),
    ],
)
def test_a_handler_may_do_this_and_the_next_request_is_answered(
    tmp_path: Path, what: str, status: int
) -> None:
    text = handler(f"if data.get('bad'):\n        {what}\n    return data")
    with serving(tmp_path, text) as server:
        assert server.predict({"bad": 1}).status == status
        assert server.predict({"a": 1}).json == {"a": 1}
        assert server.ping() == 200


def test_what_a_handler_forked_ends_with_its_predictor(tmp_path: Path) -> None:
    text = handler(
        "import subprocess\n    if data.get('pid'):\n"
        "        return subprocess.Popen(['sleep', '1000'], start_new_session=True).pid\n    os._exit(1)"
    )
    with serving(tmp_path, text) as server:
        child = server.predict({"pid": 1}).json
        assert server.predict({}).status == 500
        assert gone(child)


def test_a_killed_spawner_takes_the_server_with_it(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        everything = below(server.process.pid)
        os.kill(everything[0], signal.SIGKILL)
        assert server.process.wait(300) == 1
        assert all(gone(pid) for pid in everything)
        assert "process that starts the workers was killed" in server.log_text


def test_sigterm_lets_what_runs_end_and_takes_nothing_more(tmp_path: Path) -> None:
    go = tmp_path / "go"
    with serving(tmp_path, WAITS) as server, ThreadPoolExecutor(1) as pool:
        running = pool.submit(server.predict, str(go))
        server.wait_for_requests(1)
        server.process.send_signal(signal.SIGTERM)
        until(lambda: _refused(server.port), "the port to close")
        go.touch()
        assert running.result().json == str(go)
        assert server.process.wait(300) == 0


def test_sigterm_does_not_wait_for_idle_connections(tmp_path: Path) -> None:
    with serving(tmp_path, GPUPROOF_SERVE_DRAIN="600") as server, server.connect() as idle:
        idle.sendall(b"GET /ping HTTP/1.1\r\nHost: x\r\n\r\n")
        assert b"200" in idle.recv(100)
        server.process.send_signal(signal.SIGTERM)
        # An idle connection is closed after 75 s.
        assert server.process.wait(300) == 0


def test_draining_ends_after_its_time(tmp_path: Path) -> None:
    with (
        serving(tmp_path, WAITS, "--timeout", "600", GPUPROOF_SERVE_DRAIN="1") as server,
        ThreadPoolExecutor(1) as pool,
    ):
        running = pool.submit(server.predict, "/nowhere")
        server.wait_for_requests(1)
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(300) == 0
        assert running.result().status == 503


def test_a_port_in_use_is_reported_without_a_traceback(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        folder = model_folder(tmp_path / "model", ECHO)
        done = subprocess.run(
            [
                sys.executable,
                "-m",
                "gpuproof.serve",
                "serve",
                "--model-dir",
                str(folder),
                "--host",
                "127.0.0.1",
            ],
            env={**os.environ, "SAGEMAKER_BIND_TO_PORT": str(port)},
            capture_output=True,
            text=True,
            timeout=300,
        )
    assert done.returncode == 2
    assert f"port {port}" in done.stderr
    assert "Traceback" not in done.stderr


def test_an_address_that_is_not_this_machines_is_not_taken_for_another_server(tmp_path: Path) -> None:
    folder = model_folder(tmp_path / "model", ECHO)
    done = subprocess.run(
        # RFC 5737: an address reserved for documentation.
        [sys.executable, "-m", "gpuproof.serve", "serve", "--model-dir", str(folder), "--host", "192.0.2.1"],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 2
    assert "Another server" not in done.stderr
    assert "--host" in done.stderr


def test_a_client_that_leaves_frees_its_place_in_the_queue(tmp_path: Path) -> None:
    go, never = tmp_path / "go", b'"/nowhere"'
    head = b"POST /invocations HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(never)
    with serving(tmp_path, WAITS) as server:
        busy = in_background(server, str(go))
        server.wait_for_requests(1)
        for _ in range(5):
            with server.connect() as client:
                client.sendall(head + never)
        server.wait_for_requests(6)
        until(lambda: server.metric("gpuproof_queue_depth", model="model") == 0, "their places to be free")
        go.touch()
        # Behind any of theirs it would be 504, after a minute.
        assert server.predict(0).json == 0
        busy.join()


def test_a_handler_that_runs_out_of_memory_fails_its_request_alone(tmp_path: Path) -> None:
    leaks = "import resource; resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30)); data['x'] = bytes(2 << 30)"
    with serving(tmp_path, handler(f"if data.get('leak'):\n        {leaks}\n    return data")) as server:
        failed = server.predict({"leak": 1})
        assert (failed.status, "device" in failed.json["error"], "RAM" in failed.json["error"]) == (
            500,
            False,
            True,
        )
        assert server.predict({"a": 1}).json == {"a": 1}


def test_a_full_disk_under_the_logs_stops_nothing(tmp_path: Path) -> None:
    folder = model_folder(tmp_path / "model", handler("print('x' * 100, flush=True)\n    return data"))
    readable, writable = os.pipe()
    with open("/dev/full", "wb") as full:
        process = subprocess.Popen(
            [
                *(sys.executable, "-m", "gpuproof.serve", "serve", "--model-dir", str(folder)),
                *("--host", "127.0.0.1", "--port", "0", "--ready-fd", str(writable)),
            ],
            stdout=full,
            stderr=full,
            pass_fds=[writable],
        )
    os.close(writable)
    with open(readable) as ready:
        server = Server(process, int(ready.readline()), tmp_path / "none", tmp_path / "none")
    try:
        until(lambda: server.ping() == 200, "healthy")
        # The handler's own print fails, which its client sees; the server's does not.
        assert server.predict({}).status == 500
        assert server.ping() == 200
    finally:
        process.terminate()
        assert process.wait(300) == 0


def test_many_requests_leave_memory_and_descriptors_flat(tmp_path: Path) -> None:
    with serving(tmp_path, ECHO, "--no-access-log") as server, ThreadPoolExecutor(8) as pool:
        idle = _descriptors(server)
        list(pool.map(lambda n: server.predict({"n": n}), range(1000)))
        before = _resident(server)
        list(pool.map(lambda n: server.predict({"n": n}), range(3000)))
        assert _resident(server) - before < 4 << 20
        until(lambda: _descriptors(server) <= idle + 2, "the connections to be closed")


def _resident(server: Server) -> int:
    pages = Path(f"/proc/{server.process.pid}/statm").read_text().split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


def _descriptors(server: Server) -> int:
    return len(os.listdir(f"/proc/{server.process.pid}/fd"))


def _refused(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return True
    return False


def test_as_the_first_process_of_a_container_it_ends_on_sigterm_and_reaps_orphans(tmp_path: Path) -> None:
    text = handler(
        "import subprocess\n    subprocess.run(['sh', '-c', 'sleep 0.1 & true'])\n    return os.getpid()"
    )
    folder = model_folder(tmp_path / "model", text)
    unshare = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"]
    if subprocess.run([*unshare, "true"], capture_output=True).returncode:
        pytest.skip("no process namespaces here")
    readable, writable = os.pipe()
    process = subprocess.Popen(
        [
            *unshare,
            *(sys.executable, "-m", "gpuproof.serve", "serve", "--model-dir", str(folder)),
            *("--host", "127.0.0.1", "--port", "0", "--ready-fd", str(writable)),
        ],
        pass_fds=[writable],
        stdout=subprocess.DEVNULL,
    )
    os.close(writable)
    with open(readable) as ready:
        server = Server(process, int(ready.readline()), tmp_path / "none", tmp_path / "none")
    try:
        until(lambda: server.ping() == 200, "healthy")
        assert server.predict(1).json < 100
        first = below(process.pid)[0]
        assert Path(f"/proc/{first}/status").read_text().split("NSpid:")[1].split()[1] == "1"
        until(lambda: not zombies(first), "the orphans to be collected")
        os.kill(first, signal.SIGTERM)
        assert process.wait(300) == 0
    finally:
        process.kill()
        process.wait()
