"""`python3 gpuproof-agent.pyz --idle-watch OPTIONS -- COMMAND`: run a command when this machine is idle.

For machines that GPUproof's agent does not run a job on, such as a SageMaker notebook instance, whose lifecycle
configuration starts it in the background. It runs until the machine has had no busy kernel, no kernel or terminal
activity, no GPU work and no shell through Systems Manager for `--idle-timeout`, then prints the reason and runs the
command. A command that fails is repeated after a minute, as long as the machine stays idle: it is usually a request to AWS.

    --idle-timeout SECONDS    required
    --jupyter-url URL         such as https://localhost:8443 on a notebook instance; without it, Jupyter is not asked
    --token-file FILE         the server's token, if it needs one; never an argument, which every process could read
    --state FILE              rewritten at each look, every 20 s at most: {"version": 1, "looks": N, "idle_seconds": S,
                              "reason": TEXT or null, "at": EPOCH}

`{reason}` in an argument of the command is replaced by the reason, such as
`idle for 1h: no kernel was busy and no GPU worked`.

Exit codes: 0 after the command has succeeded, 2 for wrong usage, 143 on SIGTERM. It needs Python 3.9 and nothing else.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from gpuproof.agent.idle.jupyter_activity import JupyterServer, server_at
from gpuproof.agent.idle.watch import IdleWatch
from gpuproof.util.atomic import write_json

_RETRY_S = 60.0


def main(argv: Sequence[str] | None = None) -> int:
    """Watch this machine; see the module."""
    words = list(sys.argv[1:] if argv is None else argv)
    split = words.index("--") if "--" in words else len(words)
    command = words[split + 1 :]
    parser = argparse.ArgumentParser(prog="gpuproof-agent --idle-watch", usage=__doc__, allow_abbrev=False)
    parser.add_argument("--idle-watch", action="store_true")
    parser.add_argument("--idle-timeout", type=float, required=True)
    parser.add_argument("--jupyter-url")
    parser.add_argument("--token-file", type=Path)
    parser.add_argument("--state", type=Path)
    arguments = parser.parse_args(words[:split])
    if not command or arguments.idle_timeout <= 0:
        parser.error("write a positive --idle-timeout, and a command after --")
    try:
        server = _server(arguments.jupyter_url, arguments.token_file)
    except (OSError, ValueError) as error:
        parser.error(str(error))
    return _watch(IdleWatch(arguments.idle_timeout, server), command, arguments.state)


def _server(url: str | None, token_file: Path | None) -> JupyterServer | None:
    if url is None:
        return None
    return server_at(url, token_file.read_text(encoding="utf-8").strip() if token_file else "")


def _watch(watch: IdleWatch, command: Sequence[str], state: Path | None) -> int:
    looks, retry_at = 0, 0.0
    while True:
        reason = watch.poll()
        if state is not None and watch.looks > looks:
            looks = watch.looks
            _write(state, watch, reason)
        if reason and time.monotonic() >= retry_at:
            print(f"gpuproof: {reason}", flush=True)
            words = [word.replace("{reason}", reason) for word in command]
            if subprocess.run(words, check=False).returncode == 0:
                return 0
            retry_at = time.monotonic() + _RETRY_S
        time.sleep(watch.pause)


def _write(state: Path, watch: IdleWatch, reason: str | None) -> None:
    document = {
        "version": 1,
        "looks": watch.looks,
        "idle_seconds": round(watch.idle_seconds, 1),
        "reason": reason,
        "at": time.time(),
    }
    try:
        write_json(state, document)
    except OSError as error:
        print(f"gpuproof: {state} could not be written: {error.strerror}", file=sys.stderr, flush=True)
