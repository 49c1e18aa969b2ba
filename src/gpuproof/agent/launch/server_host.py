"""`--parameter-server CONFIG COMMAND…`: runs a command next to a TensorFlow parameter server.

The same as in SageMaker's TensorFlow toolkit: the server uses no GPU, and all hosts but the first wait until the master
has ended, because it may still use their servers.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

from gpuproof.runtime.distribution.parameter_server import wait_until_gone
from gpuproof.runtime.imported_frameworks import TENSORFLOW, load_module
from gpuproof.util.log import log
from gpuproof.util.process_tree import die_by_signal, die_with_parent
from gpuproof.util.tf_config import MASTER, PARAMETER_SERVER

_AGENT = Path(__file__).parents[3]
_FORWARDED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
_GRACE_SECONDS = 10.0
_NO_GPU = "-1"


def run_with_server(config: str, command: Sequence[str]) -> int:
    """Run a command with a parameter server next to it; return its exit code.

    If a signal kills the command, it kills this process, too. If the server ends first, the command is stopped.

    Args:
        config: `TF_CONFIG` of the server, as JSON.
    """
    cluster, task = (json.loads(config)[name] for name in ("cluster", "task"))
    server = subprocess.Popen([sys.executable, str(_AGENT), "--serve-parameters", config])
    script = subprocess.Popen(command)

    def forward(number: int, _: FrameType | None) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(script.pid, number)

    for number in _FORWARDED:
        signal.signal(number, forward)
    ended, status = os.wait()
    if ended == server.pid:
        log(f"the parameter server of this host {_describe(status)} before the script: the script is stopped")
        _stop(script)
        return 1
    for number in _FORWARDED:
        signal.signal(number, signal.SIG_DFL)
    if status == 0 and task["index"] > 0:
        wait_until_gone(cluster[MASTER][0])
    server.kill()
    if os.WIFSIGNALED(status):
        die_by_signal(os.WTERMSIG(status))
    return os.WEXITSTATUS(status)


def serve_parameters(config: str) -> int:
    """Run the server until it is killed; return 1 if it cannot be started.

    Args:
        config: `TF_CONFIG` of the server, as JSON.
    """
    die_with_parent()
    for number in _FORWARDED:
        signal.signal(number, signal.SIG_IGN)
    cluster, task = (json.loads(config)[name] for name in ("cluster", "task"))
    os.environ["CUDA_VISIBLE_DEVICES"] = _NO_GPU
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    try:
        tensorflow = load_module(TENSORFLOW)
    except ImportError as error:
        log(f"'distribution: parameter_server' starts TensorFlow's server: {error}")
        return 1
    port = int(cluster[PARAMETER_SERVER][task["index"]].rpartition(":")[2])
    if problem := _port_problem(port):
        log(f"the parameter server cannot listen on port {port}: {problem}")
        return 1
    without_gpu = tensorflow.compat.v1.ConfigProto(device_count={"GPU": 0})
    tensorflow.distribute.Server(
        tensorflow.train.ClusterSpec(cluster),
        job_name=PARAMETER_SERVER,
        task_index=task["index"],
        config=without_gpu,
    ).join()
    return 0


def _port_problem(port: int) -> str | None:
    """Why a port is not free; TensorFlow does not report it."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("", port))
        except OSError as error:
            return error.strerror or str(error)
    return None


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(_GRACE_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _describe(status: int) -> str:
    if os.WIFSIGNALED(status):
        return f"was killed by {signal.Signals(os.WTERMSIG(status)).name}"
    return f"exited with code {os.WEXITSTATUS(status)}"
