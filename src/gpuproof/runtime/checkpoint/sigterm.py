"""Handles SIGTERM so that training can save and stop between two steps, which all processes do at the same one."""

from __future__ import annotations

import os
import signal
import sys
import threading
from types import FrameType
from typing import Any, NamedTuple

from gpuproof.runtime.contract import tf_config

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


class Decision(NamedTuple):
    """What all processes do after a step."""

    stop: bool
    save: bool


def decide(step: int, at_epoch_end: bool, save_requested: bool) -> Decision:
    """Whether to save and stop now, or to save, because at least one process has received SIGTERM or a request to save.

    Several processes must do so at the same step, or the remaining ones would wait forever: they agree every tenth step and at
    the end of each epoch. TensorFlow's workers, which read variables together, cannot agree: they ignore requests to save.

    Args:
        step: total steps done, the same in every process.
        save_requested: whether this process was asked to save.
    """
    torch: Any = sys.modules.get("torch.distributed")
    if torch is None or not torch.is_available() or not torch.is_initialized() or torch.get_world_size() == 1:
        together = len(tf_config().get("cluster", {}).get("worker", ())) > 1
        return Decision(bool(_received), save_requested and not together)
    if step % _AGREE_EVERY_STEPS and not at_epoch_end:
        return Decision(stop=False, save=False)
    return _decide_together(torch, save_requested)


def wait_for_all_processes() -> None:
    """Wait until every process of the group has reached this point."""
    torch: Any = sys.modules.get("torch.distributed")
    if torch is not None and torch.is_available() and torch.is_initialized():
        torch.barrier()


def _decide_together(group: Any, save_requested: bool) -> Decision:
    torch: Any = sys.modules["torch"]
    device = "cuda" if group.get_backend() == "nccl" else "cpu"
    wanted = torch.tensor([int(bool(_received)), int(save_requested)], device=device)
    group.all_reduce(wanted, op=group.ReduceOp.MAX)
    stop, save = wanted.tolist()
    return Decision(bool(stop), bool(save))


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
