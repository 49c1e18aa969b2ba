"""A boto3 session with a signal that arrives when AWS has carried out a request, and the command does not know it yet."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any


def interrupted_after(session: Callable[[], Any], operation: str, number: int) -> Callable[[], Any]:
    """Create sessions that send a signal to this process at the end of the first request for an operation.

    Args:
        operation: AWS's name, such as `CreateModel`.
        number: of the signal.
    """
    sent: list[str] = []

    def after_call(model: Any, **_: Any) -> None:
        if model.name == operation and not sent:
            sent.append(operation)
            os.kill(os.getpid(), number)

    def create() -> Any:
        created = session()
        created.events.register("after-call", after_call)
        return created

    return create
