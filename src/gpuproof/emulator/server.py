"""The emulator as a server on loopback, from the first byte to the last child."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import io
import os
import shutil
import signal
import threading
from collections.abc import Callable, Generator, Iterable
from pathlib import Path

from gpuproof.emulator.bootstrap import make_first_role
from gpuproof.emulator.faults.fault import Fault
from gpuproof.emulator.options import Options
from gpuproof.emulator.protocol import DEFAULT_REGION
from gpuproof.errors import GPUproofError

LOOPBACK = "127.0.0.1"
DEFAULT_PORT = 4599

CREDENTIALS = {"AWS_ACCESS_KEY_ID": "emulator", "AWS_SECRET_ACCESS_KEY": "emulator"}
"""Anything will do; these make it plain to whom they belong."""


def serve(
    options: Options,
    announce: Callable[[str], None],
    *,
    faults: Iterable[Fault] = (),
    quotas: dict[str, float] | None = None,
    fresh: bool = False,
    role: bool = True,
) -> None:
    """Serve until SIGINT or SIGTERM.

    Args:
        announce: gets the URL when requests are answered.
        fresh: whether what was there before is forgotten first.
        role: whether an emulator that begins empty gets a role that SageMaker may assume.

    Raises:
        GPUproofError: the port or the folder is taken, or moto is not installed.
    """
    _forget_own_aws()
    try:
        from werkzeug.serving import make_server  # comes with the extra

        from gpuproof.emulator.emulator import Emulator
        from gpuproof.emulator.handler import Handler
        from gpuproof.emulator.wsgi import Application
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("gpuproof"):
            raise
        raise GPUproofError(
            f"The emulator needs the Python package {error.name}, which is not installed.",
            remedy="pip install 'gpuproof[emulator]'",
        ) from error
    with _own_folder(options.state, fresh=fresh):
        try:
            # What werkzeug prints of a port that is taken, the error says.
            with contextlib.redirect_stderr(io.StringIO()):
                server = make_server(LOOPBACK, options.port, _not_yet, threaded=True, request_handler=Handler)
        except (OSError, SystemExit) as error:
            raise _taken(options.port, error) from error
        url = f"http://{LOOPBACK}:{server.server_port}"
        emulator = Emulator(options, url, faults, quotas)
        is_old = emulator.restore()
        server.app = Application(emulator)
        ended = _on_signals()
        thread = threading.Thread(target=server.serve_forever, name="server", daemon=True)
        thread.start()
        try:
            if role and not is_old:
                make_first_role(emulator.clients.get("iam", DEFAULT_REGION))
            emulator.endpoints.restore()
            announce(url)
            ended.wait()
        finally:
            emulator.shutdown()
            server.shutdown()
            server.server_close()


def _forget_own_aws() -> None:
    """Nothing of the user's own account may reach the emulator's clients, nor moto."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        del os.environ[name]
    os.environ["AWS_CONFIG_FILE"] = os.environ["AWS_SHARED_CREDENTIALS_FILE"] = os.devnull
    os.environ["AWS_EC2_METADATA_DISABLED"] = "true"


@contextlib.contextmanager
def _own_folder(folder: Path, *, fresh: bool) -> Generator[None]:
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        lock = (folder / "lock").open("w")
    except OSError as error:
        raise GPUproofError(
            f"{folder} is no folder for the emulator's state: {error.strerror}.",
            remedy="gpuproof emulator --state FOLDER",
        ) from error
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise GPUproofError(
                f"Another emulator keeps its state in {folder}.",
                remedy="Use that one, end it, or give this one a folder of its own: gpuproof emulator --state FOLDER",
            ) from error
        if fresh:
            for path in folder.iterdir():
                if path.is_dir():
                    shutil.rmtree(path)
        yield


def _on_signals() -> threading.Event:
    ended = threading.Event()

    def end(_number: int, _frame: object) -> None:
        ended.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, end)
    return ended


def _not_yet(_environ: object, start_response: Callable[..., object]) -> list[bytes]:
    start_response("503 Service Unavailable", [("Content-Length", "0")])
    return []


def _taken(port: int, error: BaseException) -> GPUproofError:
    why = (
        "is taken"
        if getattr(error, "errno", errno.EADDRINUSE) == errno.EADDRINUSE
        else f"cannot be had: {error}"
    )
    return GPUproofError(
        f"Port {port} on {LOOPBACK} {why}.",
        remedy="gpuproof emulator --port 0 takes a free one; another emulator may be running already.",
    )
