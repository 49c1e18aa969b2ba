"""Starts a command on a pseudo-terminal, below whose output a line shows its GPUs."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Callable

from gpuproof.terminal.live import progress_text
from gpuproof.watch.prefix.leader import TerminalLaunch
from gpuproof.watch.prefix.live import LiveLine
from gpuproof.watch.prefix.relay import Relay, own_terminal
from gpuproof.watch.signals import SignalQueue


@dataclass(frozen=True)
class TerminalCommand:
    """A command that will run on a pseudo-terminal.

    Args:
        show: receives a summary of each sample; any thread may call it.
    """

    launch: TerminalLaunch
    relay: Relay
    show: Callable[[Mapping[str, Any]], None]


def start_on_terminal(
    command: Sequence[str], environment: Mapping[str, str], signals: SignalQueue
) -> TerminalCommand | None:
    """The command with its relay; `None` where no line can be shown."""
    if os.environ.get("TERM", "dumb") == "dumb" or "CI" in os.environ:
        return None
    terminal = own_terminal()
    if terminal is None:
        return None
    line = LiveLine(has_colour="NO_COLOR" not in os.environ)
    try:
        relay = Relay(terminal, line)
    except OSError:
        # All pseudo-terminals are in use, or there is no /dev/pts.
        os.close(terminal)
        return None
    launch = TerminalLaunch(command, environment, signals, relay.terminal, relay.master, relay.slave)
    return TerminalCommand(launch, relay, lambda sample: line.set_text(progress_text(None, sample)))
