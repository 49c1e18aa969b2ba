"""The program on the machine of a notebook instance: `python -m gpuproof_emulator.execution.notebooks.machine SPEC`.

It runs the lifecycle scripts, then Jupyter, and stays until it is killed; what scripts left in the background runs on. Its
standard output is JSON lines: lines of logs (`log`, `text`), and at last one `event`.
"""

from __future__ import annotations

import json
import os
import secrets
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import IO, Any

_LOCK = threading.Lock()
_PATH = "/sbin:/bin:/usr/sbin:/usr/bin"
"""Source: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_CreateNotebookInstanceLifecycleConfig.html"""


def main(spec_file: str) -> int:
    """Run the machine.

    Args:
        spec_file: a JSON file, which is deleted: it has the token of Jupyter.
    """
    path = Path(spec_file)
    spec = json.loads(path.read_text())
    path.unlink()
    for name, script in spec["hooks"]:
        problem = _run_hook(name, script, spec["hook_seconds"])
        if problem is not None:
            _emit({"event": "failed", "problem": problem})
            return 1
    has_jupyter = spec["jupyter"] is not None and _start_jupyter(spec["jupyter"])
    _emit({"event": "in-service", "jupyter": has_jupyter})
    while True:
        signal.pause()


def _run_hook(name: str, script: str, seconds: float) -> str | None:
    """Run one lifecycle script; why it failed, or None."""
    descriptor, path = tempfile.mkstemp(prefix=f"{name.removeprefix('LifecycleConfig')}_", dir="/tmp")
    with os.fdopen(descriptor, "w") as file:
        file.write(script)
    Path(path).chmod(0o755)
    variables = {**os.environ, "PATH": f"{os.environ['PATH']}:{_PATH}"}
    try:
        process = subprocess.Popen(
            ["/bin/bash", "-c", 'exec "$0"', path],
            cwd="/",
            env=variables,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
    except OSError as error:
        return str(error)
    assert process.stdout is not None
    reader = threading.Thread(target=_copy_log, args=(name, process.stdout), daemon=True)
    reader.start()
    try:
        status = process.wait(seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        return "timeout"
    if status:
        reader.join(1.0)  # what it started in the background may keep the pipe open
        return f"exit status {status}"
    return None


def _start_jupyter(settings: dict[str, Any]) -> bool:
    """Start Jupyter, and wait until it answers; returns whether it does."""
    from gpuproof_emulator.execution.notebooks.jupyter_api import serve_jupyter_api
    from gpuproof_emulator.execution.notebooks.jupyter_relay import Relay, connect_tcp, listen_unix

    process = subprocess.Popen(
        [*settings["command"], f"--ServerApp.port={settings['port']}"],
        cwd=settings["root"],
        env={**os.environ, "JUPYTER_TOKEN": settings["token"], "HOME": str(Path(settings["root"]).parent)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    assert process.stdout is not None
    threading.Thread(target=_copy_log, args=("jupyter.log", process.stdout), daemon=True).start()
    deadline = time.monotonic() + settings["seconds"]
    while process.poll() is None and time.monotonic() < deadline:
        try:
            connect_tcp(settings["port"]).close()
        except OSError:
            time.sleep(0.1)
            continue
        serve_jupyter_api(settings["port"], settings["token"], settings["certificate"])
        Relay(listen_unix(Path(settings["socket"])), lambda: connect_tcp(settings["port"]))
        return True
    process.kill()
    return False


def _copy_log(name: str, source: IO[bytes]) -> None:
    for line in source:
        _emit({"log": name, "text": line.decode(errors="replace").rstrip("\n")})


def _emit(document: dict[str, Any]) -> None:
    line = json.dumps(document).encode() + b"\n"
    with _LOCK:
        view = memoryview(line)
        while view:
            view = view[os.write(1, view) :]


def new_token() -> str:
    """A token for Jupyter."""
    return secrets.token_hex(24)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
