"""`gpuproof cleanup` on a terminal, and interrupted: what exists afterwards."""

from __future__ import annotations

import contextlib
import os
import pty
import select
import signal
import subprocess
import sys

import pytest

from support.cli_sandbox import GPUPROOF, CliSandbox, until
from support.emulated_account import OWN, EmulatedAccount

pytestmark = pytest.mark.slow

_ON_TERMINAL = "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execv(sys.argv[1], sys.argv[1:])"
"""A program that becomes a command whose Ctrl-C and hang-up come from its terminal, as signals."""


class Terminal:
    """`gpuproof` on a terminal."""

    def __init__(self, cli: CliSandbox, *words: str) -> None:
        self.main, child = pty.openpty()
        environment = {
            **os.environ,
            **cli.environment,
            "HOME": str(cli.home),
            "COLUMNS": "250",
            "TERM": "xterm",
        }
        environment.pop("CI", None)
        self.process = subprocess.Popen(
            [sys.executable, "-c", _ON_TERMINAL, *GPUPROOF, *words],
            cwd=cli.project,
            env=environment,
            stdin=child,
            stdout=child,
            stderr=child,
            start_new_session=True,
        )
        os.close(child)
        self.text = ""

    def expect(self, text: str) -> None:
        def read() -> bool:
            if select.select([self.main], [], [], 0.1)[0]:
                self.text += os.read(self.main, 65536).decode(errors="replace")
            return text in self.text

        until(read, f"{text!r} in {self.text!r}")

    def type(self, text: str) -> None:
        os.write(self.main, text.encode())

    def interrupt(self, sent: signal.Signals | str) -> int:
        """Send a signal or the character of Ctrl-C until the command ends, and return its exit code.

        Once is not always enough: Python notes a signal that arrives between the question and the read, and then reads.
        """
        while self.process.poll() is None:
            if isinstance(sent, str):
                self.type(sent)
            else:
                self.process.send_signal(sent)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(timeout=20)
        return self.end()

    def hang_up(self) -> int:
        """Close the terminal, as when its window is closed."""
        os.close(self.main)
        return self.process.wait(timeout=120)

    def end(self) -> int:
        until(lambda: self._drain() or self.process.poll() is not None, "the end of the command")
        self._drain()
        os.close(self.main)
        return self.process.wait(timeout=120)

    def _drain(self) -> None:
        with contextlib.suppress(OSError):  # the terminal of a process that has ended
            while select.select([self.main], [], [], 0.05)[0]:
                if not (chunk := os.read(self.main, 65536)):
                    return
                self.text += chunk.decode(errors="replace")


def test_numbers_select_from_the_list(account: EmulatedAccount, cli: CliSandbox) -> None:
    for name, count in (("a", 3), ("b", 2), ("c", 1)):
        account.endpoint(name, count=count)
    terminal = Terminal(cli, "cleanup", "--delete")
    terminal.expect("Numbers to delete")
    terminal.type("1 3\n")
    terminal.expect("Proceed? [y/N]")
    assert "saves $5.63 an hour" in terminal.text
    terminal.type("y\n")
    terminal.end()
    assert {key for key in account.state() if "/endpoint/" in key} == {"us-east-1/endpoint/b"}


@pytest.mark.parametrize("answer", ["n\n", "\n", "\x04", "\x03"])
def test_anything_but_yes_deletes_nothing(account: EmulatedAccount, cli: CliSandbox, answer: str) -> None:
    account.endpoint("chat")
    before = account.state()
    terminal = Terminal(cli, "cleanup", "chat", "--delete")
    terminal.expect("Proceed? [y/N]")
    if answer == "\x03":
        code = terminal.interrupt(answer)
    else:
        terminal.type(answer)
        code = terminal.end()
    assert "Nothing was deleted" in terminal.text
    assert code == 130 if answer == "\x03" else code in (0, 5)
    assert account.state() == before


_QUESTIONS = [(["endpoint/chat"], "Proceed? [y/N]"), ([], "Numbers to delete")]


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM, "\x03"])
@pytest.mark.parametrize(("names", "question"), _QUESTIONS)
def test_an_interrupt_while_a_question_waits_deletes_nothing(
    account: EmulatedAccount, cli: CliSandbox, names: list[str], question: str, sent: signal.Signals | str
) -> None:
    account.endpoint("chat", tags=OWN)
    account.notebook("nb")
    before = account.state()
    terminal = Terminal(cli, "cleanup", *names, "--delete")
    terminal.expect(question)
    assert terminal.interrupt(sent) == 130
    assert "interrupted. Nothing was deleted" in terminal.text
    assert "Traceback" not in terminal.text
    assert account.state() == before
    assert account.changes() == []


def test_an_interrupt_after_numbers_were_chosen_deletes_nothing(
    account: EmulatedAccount, cli: CliSandbox
) -> None:
    account.endpoint("chat", tags=OWN)
    before = account.state()
    terminal = Terminal(cli, "cleanup", "--delete")
    terminal.expect("Numbers to delete")
    terminal.type("1\n")
    terminal.expect("Proceed? [y/N]")
    terminal.type("y")  # without Enter
    assert terminal.interrupt(signal.SIGTERM) == 130
    assert account.state() == before
    assert account.changes() == []


@pytest.mark.parametrize(("names", "question"), _QUESTIONS)
def test_a_terminal_that_is_closed_while_a_question_waits_deletes_nothing(
    account: EmulatedAccount, cli: CliSandbox, names: list[str], question: str
) -> None:
    account.endpoint("chat", tags=OWN)
    before = account.state()
    terminal = Terminal(cli, "cleanup", *names, "--delete")
    terminal.expect(question)
    assert terminal.hang_up() != 0
    assert account.state() == before
    assert account.changes() == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_while_listing_deletes_nothing(
    account: EmulatedAccount, cli: CliSandbox, number: signal.Signals
) -> None:
    account.endpoint("chat", tags=OWN)
    before = account.state()
    account.fault("slow,service=sagemaker,seconds=30")
    process = cli.start("cleanup", "--gpuproof", "--delete", "--yes")
    until(lambda: account.requests("ListEndpoints"), "the listing")
    process.send_signal(number)
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 130
    assert "Nothing was deleted" in errors
    assert account.state() == before


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_while_deleting_names_what_remains(
    account: EmulatedAccount, cli: CliSandbox, number: signal.Signals
) -> None:
    for name in ("a", "b", "c"):
        account.endpoint(name, tags={"team": "x"})
    account.fault("slow,operation=DeleteEndpoint,name=b,seconds=3")
    process = cli.start("cleanup", "a", "b", "c", "--delete", "--yes")
    until(lambda: account.requests("DeleteEndpoint") == 2, "the second deletion")
    process.send_signal(number)
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 130
    # The request that was made takes effect; no other follows.
    assert "2 of 3 done" in errors
    assert "remains: endpoint/c in us-east-1" in errors
    assert {key for key in account.state() if "/endpoint/" in key} == {"us-east-1/endpoint/c"}
