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

_asked = threading.Event()
_earlier: list[Any] = []
_listener: list[int] = []


def listen() -> None:
    """Heed SIGTERM from now on; a handler that the script has set is called as well. Only the main thread can."""
    if _earlier or threading.current_thread() is not threading.main_thread():
        return
    _listener[:] = [os.getpid()]
    _earlier.append(signal.signal(signal.SIGTERM, _arrived))


def stop_is_due(step: int, at_epoch_end: bool) -> bool:
    """Whether to save and stop now.

    Several processes must stop at the same step, or those that go on would wait for the others for ever: they agree on
    it every tenth step and at the end of each epoch.

    Args:
        step: steps done in all, the same in every process.
    """
    torch: Any = sys.modules.get("torch.distributed")
    if torch is None or not torch.is_available() or not torch.is_initialized() or torch.get_world_size() == 1:
        return _asked.is_set()
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
    asked = torch.tensor([int(_asked.is_set())], device=device)
    group.all_reduce(asked, op=group.ReduceOp.MAX)
    return bool(asked.item())


def _arrived(number: int, frame: FrameType | None) -> None:
    if os.getpid() not in _listener:
        # A process that was forked from the listener, such as one of a pool, ends as it always would have.
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGTERM)
        return
    _asked.set()
    if callable(_earlier[0]):
        _earlier[0](number, frame)
