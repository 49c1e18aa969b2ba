"""The emulator's HTTP server on loopback: start, signals and shutdown."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import io
import os
import shutil
import signal
import threading
from collections.abc import Callable, Generator, Iterable, Mapping
from pathlib import Path
from typing import Any

from gpuproof.errors import GPUproofError
from gpuproof_emulator.auth.token import load_token
from gpuproof_emulator.bootstrap import user_environment
from gpuproof_emulator.faults.fault import Fault
from gpuproof_emulator.options import Options

LOOPBACK = "127.0.0.1"
DEFAULT_PORT = 4599


def serve(
    options: Options,
    announce: Callable[[Mapping[str, str]], None],
    *,
    faults: Iterable[Fault] = (),
    quotas: dict[str, float] | None = None,
    fresh: bool = False,
) -> None:
    """Serve until SIGINT or SIGTERM.

    Args:
        announce: called with the environment variables for its users, once the server accepts requests.
        fresh: whether to delete the existing state first.

    Raises:
        GPUproofError: the port or the state folder is in use, or instances cannot boot here.
    """
    _remove_aws_settings()
    if options.boot_instances:
        _require_instances()
    from werkzeug.serving import make_server  # `gpuproof emulator --help` starts faster without moto

    from gpuproof_emulator.emulator import Emulator
    from gpuproof_emulator.wsgi import Application

    with _lock_state(options.state, fresh=fresh):
        try:
            # The error repeats what werkzeug prints about a port in use.
            with contextlib.redirect_stderr(io.StringIO()):
                server = make_server(
                    LOOPBACK,
                    options.port,
                    _respond_unavailable,
                    threaded=True,
                    request_handler=_quiet_handler(),
                )
        except (OSError, SystemExit) as error:
            raise _port_error(options.port, error) from error
        url = f"http://{LOOPBACK}:{server.server_port}"
        token = load_token(options.state)
        emulator = Emulator(options, url, token, faults, quotas)
        emulator.restore()
        server.app = Application(emulator)
        stop = _install_signal_handlers()
        thread = threading.Thread(target=server.serve_forever, name="server", daemon=True)
        thread.start()
        try:
            emulator.create_roles()
            emulator.endpoints.restore()
            emulator.schedules.start()
            if emulator.instances is not None:
                emulator.instances.terminate_lost()
            announce(user_environment(url, token, options.state))
            stop.wait()
        finally:
            emulator.shutdown()
            server.shutdown()
            server.server_close()


def _require_instances() -> None:
    from gpuproof_emulator.execution.instances.requirements import boot_failure, missing_requirement

    if reason := missing_requirement() or boot_failure():
        raise GPUproofError(
            f"--boot-instances: {reason}.",
            remedy="Without the option, EC2 instances are only recorded.",
        )


def _remove_aws_settings() -> None:
    """Keep the user's AWS account out of the emulator's own clients and out of moto."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        del os.environ[name]
    os.environ["AWS_CONFIG_FILE"] = os.environ["AWS_SHARED_CREDENTIALS_FILE"] = os.devnull
    os.environ["AWS_EC2_METADATA_DISABLED"] = "true"


@contextlib.contextmanager
def _lock_state(folder: Path, *, fresh: bool) -> Generator[None]:
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        # Its token, objects and logs are for the user alone, also in a folder that already existed.
        folder.chmod(0o700)
        lock = (folder / "lock").open("w")
    except OSError as error:
        raise GPUproofError(
            f"Cannot keep the emulator's state in {folder}: {error.strerror}.",
            remedy="gpuproof emulator --state FOLDER",
        ) from error
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise GPUproofError(
                f"Another emulator is using the state folder {folder}.",
                remedy="Use that emulator, stop it, or start this one with another folder: gpuproof emulator --state FOLDER",
            ) from error
        if fresh:
            for path in folder.iterdir():
                if path.is_dir():
                    shutil.rmtree(path)
        yield


def _quiet_handler() -> type[Any]:
    from moto.moto_server.werkzeug_app import MotoRequestHandler  # loads slowly

    class QuietHandler(MotoRequestHandler):
        """Moto's request handler without a log line for every request, and without Nagle's delay."""

        disable_nagle_algorithm = True

        def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
            """Log nothing."""

    return QuietHandler


def _install_signal_handlers() -> threading.Event:
    stop = threading.Event()

    def on_signal(_number: int, _frame: object) -> None:
        stop.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, on_signal)
    return stop


def _respond_unavailable(_environ: object, start_response: Callable[..., object]) -> list[bytes]:
    start_response("503 Service Unavailable", [("Content-Length", "0")])
    return []


def _port_error(port: int, error: BaseException) -> GPUproofError:
    in_use = getattr(error, "errno", errno.EADDRINUSE) == errno.EADDRINUSE
    why = "is already in use" if in_use else f"is unavailable: {error}"
    return GPUproofError(
        f"Port {port} on {LOOPBACK} {why}.",
        remedy="Another emulator may be running. To use a free port: gpuproof emulator --port 0",
    )
