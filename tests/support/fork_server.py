"""Starts Python programs as forks of an interpreter that has imported a framework already.

Importing PyTorch takes one to three seconds of a core and TensorFlow two to eight; a fork of a process that has done so takes a hundredth.
What runs in the fork has its own arguments, folder, environment, standard streams, session and exit code, as in a new process.
Variables that a framework may read when it is imported cannot differ from those of the tests: see `suits`.

One server for each framework serves all workers of a run of tests. It ends with the last connection.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import importlib
import io
import json
import os
import runpy
import selectors
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import IO

_MAX_MESSAGE = 1 << 20
_STARTED_BY_ANOTHER = 3
_PR_SET_PDEATHSIG = 1
_RUN = os.environ.get("PYTEST_XDIST_TESTRUNUID", str(os.getpid()))
_FREE = ("GPUPROOF_", "PYTEST_", "AWS_", "SM_", "SAGEMAKER_", "TF_CLI_")  # the last ones are Terraform's
_SET_BY_FRAMEWORKS = {
    *("ENABLE_RUNTIME_UPTIME_TELEMETRY", "HDF5_PLUGIN_PATH", "KMP_DUPLICATE_LIB_OK", "KMP_INIT_AT_FORK"),
    *("TF2_BEHAVIOR", "TPU_ML_PLATFORM", "TPU_ML_PLATFORM_VERSION", "TORCHINDUCTOR_CACHE_DIR"),
}
"""A process that imports or compiles with a framework, as some tests do, sets these for itself."""
_FREE_NAMES = _SET_BY_FRAMEWORKS | {
    *("HOME", "PWD", "OLDPWD", "TMPDIR", "PYTHONUNBUFFERED", "PYTHONDONTWRITEBYTECODE"),
    *("TRAINING_JOB_NAME", "CURRENT_HOST", "TF_CONFIG", "WORLD_SIZE", "RANK", "LOCAL_RANK"),
    "TF_CPP_MIN_LOG_LEVEL",  # decides what TensorFlow prints, and the server starts with the least
}
ORIGINAL_ENVIRONMENT = dict(os.environ)
"""What the server's process is started with; what tests in the same process set later is a change."""


def suits(python: str, environment: Mapping[str, str]) -> bool:
    """Whether a process with this environment can be a fork: it differs only in what no framework reads when imported."""
    changed = {
        name
        for name in environment.keys() | ORIGINAL_ENVIRONMENT.keys()
        if environment.get(name) != ORIGINAL_ENVIRONMENT.get(name)
        and name not in _FREE_NAMES
        and not name.startswith(_FREE)
    }
    return python == sys.executable and hasattr(os, "pidfd_open") and not changed


class ForkedProcess:
    """A process that the server has started; the part of `subprocess.Popen` that tests need."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self.pid: int = self._receive()["pid"]
        self.returncode: int | None = None
        self.stdout: IO[str] | None = None

    def wait(self, timeout: float | None = None) -> int:
        """The exit code, negative for a signal, when the process has ended; raises `subprocess.TimeoutExpired`."""
        if self.returncode is None:
            self._connection.settimeout(timeout)
            try:
                self.returncode = self._receive()["code"]
            except (TimeoutError, BlockingIOError):
                raise subprocess.TimeoutExpired("python", timeout or 0) from None
            self._connection.close()
        return self.returncode

    def poll(self) -> int | None:
        """The exit code if the process has ended, else None."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self.wait(0.0)
        return None

    def send_signal(self, number: int) -> None:
        """Send a signal unless the process has been waited for."""
        if self.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def kill(self) -> None:
        """Send SIGKILL unless the process has been waited for."""
        self.send_signal(signal.SIGKILL)

    def _receive(self) -> dict[str, int]:
        line = self._connection.recv(_MAX_MESSAGE)
        if not line:
            raise EOFError("the fork server has ended")
        return json.loads(line)


class ForkServer:
    """The server for modules of which some are imported in advance.

    Args:
        name: of the server.
        modules: imported before anything is run; one that ends with `.py` is a file that is executed.
    """

    def __init__(self, name: str, *modules: str) -> None:
        self._address = f"\0gpuproof-tests-{os.getuid()}-{_RUN}-{name}"
        self._modules = modules
        self._process: subprocess.Popen[bytes] | None = None
        self._lifeline = self._connect_or_start()

    def popen(
        self,
        arguments: Sequence[str],
        *,
        cwd: str | Path,
        env: Mapping[str, str],
        streams: tuple[int, int, int],
    ) -> ForkedProcess:
        """Start `python ARGUMENTS…` in a session of its own.

        Args:
            arguments: `-m`, a module and its arguments, or a file and its arguments.
            streams: descriptors of its standard input, output and error.
        """
        connection = self._connect()
        request = {"arguments": list(arguments), "cwd": str(cwd), "environment": dict(env)}
        socket.send_fds(connection, [json.dumps(request).encode()], streams)
        return ForkedProcess(connection)

    def close(self) -> None:
        """Let the server end, unless others use it."""
        self._lifeline.close()

    def _connect_or_start(self) -> socket.socket:
        while True:
            with contextlib.suppress(ConnectionRefusedError):
                return self._connect()
            if self._process is None or self._process.poll() == _STARTED_BY_ANOTHER:
                self._process = subprocess.Popen(
                    [sys.executable, __file__, self._address[1:], *self._modules],
                    # Processes with several threads should not fork.
                    env={**ORIGINAL_ENVIRONMENT, "OPENBLAS_NUM_THREADS": "1", "TF_CPP_MIN_LOG_LEVEL": "3"},
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    start_new_session=True,
                )
            assert self._process.poll() in (None, _STARTED_BY_ANOTHER)
            time.sleep(0.02)

    def _connect(self) -> socket.socket:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            connection.connect(self._address)
        except BaseException:
            connection.close()
            raise
        return connection


def _listen(address: str) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        listener.bind(f"\0{address}")
    except OSError:
        sys.exit(_STARTED_BY_ANOTHER)
    listener.listen(64)
    return listener


def _serve(listener: socket.socket) -> None:
    """Fork for each request; returns in each fork, and ends the server when all connections are closed."""
    selector = selectors.DefaultSelector()
    selector.register(listener, selectors.EVENT_READ)
    connections: set[socket.socket] = set()
    children: dict[int, tuple[int, socket.socket]] = {}
    while True:
        for key, _ in selector.select():
            if key.fileobj is listener:
                connection, _ = listener.accept()
                connections.add(connection)
                selector.register(connection, selectors.EVENT_READ)
            elif isinstance(key.fileobj, int):
                pid, connection = children.pop(key.fileobj)
                selector.unregister(key.fileobj)
                os.close(key.fileobj)
                code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
                with contextlib.suppress(OSError):  # the client has not waited
                    connection.send(json.dumps({"code": code}).encode())
            else:
                connection = key.fileobj
                assert isinstance(connection, socket.socket)
                message, descriptors, _, _ = socket.recv_fds(connection, _MAX_MESSAGE, 3)
                if not message:
                    connections.discard(connection)
                    selector.unregister(connection)
                    connection.close()
                    continue
                pid = os.fork()
                if pid == 0:
                    selector.close()
                    _leave(listener, *connections, *children)
                    _become(json.loads(message), descriptors)
                    return
                _leave(*descriptors)
                connection.send(json.dumps({"pid": pid}).encode())
                children[child := os.pidfd_open(pid)] = (pid, connection)
                selector.register(child, selectors.EVENT_READ)
        if not connections:
            sys.exit()


def _leave(*files: socket.socket | int) -> None:
    for file in files:
        if isinstance(file, int):
            os.close(file)
        else:
            file.close()


def _keep_everything() -> None:
    """Prevent forks from freeing or garbage-collecting what was imported before.

    Either would write to shared memory, so that the kernel copies it, just before a short process ends.
    """
    gc.collect()
    for kept in gc.get_objects():
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(kept))
    gc.freeze()


def _become(request: dict[str, object], streams: Iterable[int]) -> None:
    """Give this process the session, streams, folder, environment and arguments of the request."""
    os.setsid()
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)  # the server ends after all tests
    for number, descriptor in enumerate(streams):
        os.dup2(descriptor, number)
        os.close(descriptor)
    os.chdir(str(request["cwd"]))
    environment = request["environment"]
    assert isinstance(environment, dict)
    os.environ.clear()
    os.environ.update(environment)
    arguments = request["arguments"]
    assert isinstance(arguments, list)
    sys.argv = arguments
    if arguments[0] != "-m":
        sys.path.insert(0, os.path.dirname(os.path.abspath(arguments[0])))
    else:
        del arguments[0]
        sys.path.insert(0, os.getcwd())
    sys.dont_write_bytecode = bool(environment.get("PYTHONDONTWRITEBYTECODE"))
    _open_streams(unbuffered=bool(environment.get("PYTHONUNBUFFERED")))


def _open_streams(*, unbuffered: bool) -> None:
    """Make the objects of the standard streams anew, which remember what kind of files the server's are."""
    encoding, errors = sys.stdout.encoding, sys.stdout.errors
    sys.stdin = open(0, encoding=encoding, errors=errors, closefd=False)  # noqa: SIM115
    sys.stdout, sys.stderr = (
        io.TextIOWrapper(
            open(number, "wb", buffering=0 if unbuffered else -1, closefd=False),  # noqa: SIM115
            encoding=encoding,
            errors=errors if number == 1 else "backslashreplace",
            line_buffering=number == 2 or os.isatty(number),
            write_through=unbuffered,
        )
        for number in (1, 2)
    )
    sys.__stdin__, sys.__stdout__, sys.__stderr__ = sys.stdin, sys.stdout, sys.stderr  # type: ignore[misc]


if __name__ == "__main__":
    socket_ = _listen(sys.argv[1])
    sys.path.pop(0)
    for module in sys.argv[2:]:
        if module.endswith(".py"):
            runpy.run_path(module)
        else:
            importlib.import_module(module)
    _keep_everything()
    _serve(socket_)
    if sys.argv[0].endswith(".py"):
        main = sys.modules["__main__"] = ModuleType("__main__")
        main.__file__ = sys.argv[0]
        exec(compile(Path(sys.argv[0]).read_bytes(), sys.argv[0], "exec"), main.__dict__)
    else:
        runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
