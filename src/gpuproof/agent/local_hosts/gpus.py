"""Distributes the GPUs of this machine over its hosts."""

from __future__ import annotations

from collections.abc import Sequence


def visible_gpus(count: int, setting: str | None) -> tuple[str, ...]:
    """The GPUs that a script may use, as entries of `CUDA_VISIBLE_DEVICES`.

    Args:
        setting: the value of `CUDA_VISIBLE_DEVICES`; `None` if it is not set.
    """
    if count == 0:
        return ()
    if setting is None:
        return tuple(str(index) for index in range(count))
    return tuple(entry.strip() for entry in setting.split(",") if entry.strip())


def distribute_gpus(gpus: Sequence[str], hosts: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """The GPUs of each host: the same number for all of them, neighbours together.

    With fewer GPUs than hosts, several hosts share a GPU.
    """
    if not gpus:
        return dict.fromkeys(hosts, ())
    each = len(gpus) // len(hosts)
    if each == 0:
        return {host: (gpus[number % len(gpus)],) for number, host in enumerate(hosts)}
    return {host: tuple(gpus[number * each : (number + 1) * each]) for number, host in enumerate(hosts)}


def distribution_note(gpus: Sequence[str], hosts: Sequence[str]) -> str | None:
    """What the user should know about the distribution; `None` if each host has an equal share of all GPUs."""
    if not gpus:
        return None
    if len(gpus) < len(hosts):
        some = "1 GPU" if len(gpus) == 1 else f"{len(gpus)} GPUs"
        return f"this machine has {some} for {len(hosts)} hosts: hosts share GPUs, and each counts one"
    rest = len(gpus) % len(hosts)
    if rest:
        return f"{len(gpus)} GPUs cannot be divided equally among {len(hosts)} hosts: {rest} of them {'is' if rest == 1 else 'are'} not used"
    return None
