"""Follows a machine for interactive work: opens its Jupyter server here, and leaves it running on Ctrl-C."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING

from gpuproof.cli.follow import follow_run
from gpuproof.cli.jobs.sessions.tunnel import Tunnel, local_port
from gpuproof.errors import ExitCode, GPUproofError

if TYPE_CHECKING:
    from gpuproof.backends.agent_job.machine import JupyterServer
    from gpuproof.backends.base import Plan, Run
    from gpuproof.backends.record import RunRecord
    from gpuproof.cli.console import Console
    from gpuproof.jobs.models.machine import MachineJob

_POLL_S = {False: 0.2, True: 3.0}
"""Seconds between two looks for the server, by whether a look is a request to AWS."""

_CONNECT_LIMIT_S = 180.0


def follow_machine(
    run: Run,
    plan: Plan,
    console: Console,
    *,
    first: Callable[[], None],
    end: Callable[[Run, RunRecord, Console], None],
) -> int:
    """Show a machine's output until it has ended, and open its Jupyter server as soon as it answers.

    Ctrl-C ends a machine that runs here. One on EC2 keeps running until it is idle; only the tunnel is closed.

    Args:
        first: called before any output.

    Returns:
        The exit code.
    """
    job = plan.job
    assert job.kind == "machine"
    with ExitStack() as stack:
        if job.jupyter:
            stack.enter_context(_Opener(run, console))
        elif run.is_remote:
            console.label("shell", f"gpuproof shell {run.cli_name}")
        code = follow_run(run, console, first=first, end=end, stop_on_interrupt=not run.is_remote)
    if code == ExitCode.INTERRUPTED and not run.record.has_ended:
        _explain_leaving(run, plan, job, console)
    return code


def jupyter_url(server: JupyterServer, port: int) -> str:
    """The address for a browser on this machine."""
    return f"http://127.0.0.1:{port}/lab?token={server.token}"


class _Opener:
    """Waits for a run's Jupyter server in a thread, opens a tunnel if there has to be one, and prints the address."""

    def __init__(self, run: Run, console: Console) -> None:
        self._run = run
        self._console = console
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._open, name="jupyter", daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._closed.set()
        self._thread.join()

    def _open(self) -> None:
        try:
            server = self._wait()
            if server is None:
                return
            if server.forward is None:
                self._print("jupyter", jupyter_url(server, server.port))
                return
            port = local_port(server.port)
            command = self._command(server.forward, port)
            if command is None:
                return
            with Tunnel(command, port, lambda text: self._print("note", text)):
                self._print("jupyter", jupyter_url(server, port))
                self._closed.wait()
        except GPUproofError as error:
            again = f"gpuproof shell --jupyter {self._run.cli_name}"
            self._print(
                "note", f"{error.message}\n{error.remedy or ''}\nTo try again: {again}".replace("\n\n", "\n")
            )

    def _wait(self) -> JupyterServer | None:
        while not self._closed.is_set():
            if (server := self._run.jupyter()) is not None:
                return server
            self._closed.wait(_POLL_S[self._run.is_remote])
        return None

    def _command(self, forward: Callable[[int], Sequence[str]], port: int) -> Sequence[str] | None:
        """The tunnel's command; None if the machine has ended. Systems Manager may need a minute longer than Jupyter."""
        until = time.monotonic() + _CONNECT_LIMIT_S
        while not self._closed.is_set():
            try:
                return forward(port)
            except GPUproofError:
                if time.monotonic() > until:
                    raise
            self._closed.wait(_POLL_S[True])
        return None

    def _print(self, label: str, text: str) -> None:
        self._console.end_progress()
        self._console.label(label, text)


def _explain_leaving(run: Run, plan: Plan, job: MachineJob, console: Console) -> None:
    price = "" if plan.offer is None else f" ({plan.offer.instance_type}, {plan.offer.price_text})"
    again = "gpuproof shell --jupyter" if job.jupyter else "gpuproof shell"
    console.print(
        f"gpuproof: {run.id} keeps running{price} until it is idle for {job.idle_timeout}, "
        f"at most {job.max_duration}"
    )
    console.label("", f"use it again: {again} {run.cli_name}\nstop it now: gpuproof stop {run.cli_name}")
