"""Handles SIGTERM so that training can save and stop between two steps."""

from __future__ import annotations

import os
import signal
import sys
import threading
from types import FrameType
from typing import Any

EXIT_CODE = 128 + signal.SIGTERM
"""Exit code of a script that stopped after SIGTERM."""
_AGREE_EVERY_STEPS = 10

# A plain list, since a signal handler must not take a lock, which an Event has.
_received: list[bool] = []
_previous_handler: list[Any] = []
_fork = threading.local()


def handle_sigterm() -> None:
    """Install the SIGTERM handler, which also calls the script's own; no effect outside the main thread."""
    if _previous_handler or threading.current_thread() is not threading.main_thread():
        return
    _previous_handler.append(signal.signal(signal.SIGTERM, _on_sigterm))
    os.register_at_fork(
        before=_block_sigterm, after_in_parent=_unblock_sigterm, after_in_child=_reset_in_child
    )


def should_stop(step: int, at_epoch_end: bool) -> bool:
    """Whether to save and stop now.

    Several processes must stop at the same step, or the remaining ones would wait forever: they agree every tenth step and at
    the end of each epoch.

    Args:
        step: total steps done, the same in every process.
    """
    torch: Any = sys.modules.get("torch.distributed")
    if torch is None or not torch.is_available() or not torch.is_initialized() or torch.get_world_size() == 1:
        return bool(_received)
    if step % _AGREE_EVERY_STEPS and not at_epoch_end:
        return False
    return _any_process_received(torch)


def wait_for_all_processes() -> None:
    """Wait until every process of the group has reached this point."""
    torch: Any = sys.modules.get("torch.distributed")
    if torch is not None and torch.is_available() and torch.is_initialized():
        torch.barrier()


def _any_process_received(group: Any) -> bool:
    torch: Any = sys.modules["torch"]
    device = "cuda" if group.get_backend() == "nccl" else "cpu"
    received = torch.tensor([int(bool(_received))], device=device)
    group.all_reduce(received, op=group.ReduceOp.MAX)
    return bool(received.item())


def _on_sigterm(number: int, frame: FrameType | None) -> None:
    _received.append(True)
    if callable(_previous_handler[0]):
        _previous_handler[0](number, frame)


# A forked process, such as a pool worker, must end on SIGTERM as without this handler. Python drops a signal that
# arrives between the fork and the child's first step, so the signal is blocked meanwhile.
def _block_sigterm() -> None:
    _fork.mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})


def _unblock_sigterm() -> None:
    signal.pthread_sigmask(signal.SIG_SETMASK, _fork.mask)


def _reset_in_child() -> None:
    signal.signal(signal.SIGTERM, _previous_handler[0] or signal.SIG_DFL)
    _received.clear()
    _unblock_sigterm()
