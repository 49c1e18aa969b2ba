"""SIGTERM, turned into something that training can heed between two steps."""

from __future__ import annotations

import os
import signal
import sys
import threading
from types import FrameType
from typing import Any

STOPPED = 128 + signal.SIGTERM
"""The exit code of a script that stopped because it was asked to."""
_AGREE_EVERY = 10

# A plain list: a lock, as an Event has one, is nothing to take in a signal's handler.
_asked: list[bool] = []
_earlier: list[Any] = []
_fork = threading.local()


def listen() -> None:
    """Heed SIGTERM from now on; a handler that the script has set is called as well. Only the main thread can."""
    if _earlier or threading.current_thread() is not threading.main_thread():
        return
    _earlier.append(signal.signal(signal.SIGTERM, _arrived))
    os.register_at_fork(before=_hold, after_in_parent=_release, after_in_child=_forget)


def stop_is_due(step: int, at_epoch_end: bool) -> bool:
    """Whether to save and stop now.

    Several processes must stop at the same step, or those that go on would wait for the others for ever: they agree on
    it every tenth step and at the end of each epoch.

    Args:
        step: steps done in all, the same in every process.
    """
    torch: Any = sys.modules.get("torch.distributed")
    if torch is None or not torch.is_available() or not torch.is_initialized() or torch.get_world_size() == 1:
        return bool(_asked)
    if step % _AGREE_EVERY and not at_epoch_end:
        return False
    return _anybody_was_asked(torch)


def wait_for_all() -> None:
    """Wait until every process of the group is here."""
    torch: Any = sys.modules.get("torch.distributed")
    if torch is not None and torch.is_available() and torch.is_initialized():
        torch.barrier()


def _anybody_was_asked(group: Any) -> bool:
    torch: Any = sys.modules["torch"]
    device = "cuda" if group.get_backend() == "nccl" else "cpu"
    asked = torch.tensor([int(bool(_asked))], device=device)
    group.all_reduce(asked, op=group.ReduceOp.MAX)
    return bool(asked.item())


def _arrived(number: int, frame: FrameType | None) -> None:
    _asked.append(True)
    if callable(_earlier[0]):
        _earlier[0](number, frame)


# A forked process, such as one of a pool, ends on SIGTERM as it always would have. Python drops a signal that comes
# between the fork and the child's first step, so it is held back meanwhile.
def _hold() -> None:
    _fork.mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})


def _release() -> None:
    signal.pthread_sigmask(signal.SIG_SETMASK, _fork.mask)


def _forget() -> None:
    signal.signal(signal.SIGTERM, _earlier[0] or signal.SIG_DFL)
    _asked.clear()
    _release()
