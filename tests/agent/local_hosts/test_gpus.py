"""The GPUs of this machine are divided among its hosts."""

from __future__ import annotations

import pytest

from gpuproof.agent.local_hosts.gpus import distribute_gpus, distribution_note, visible_gpus

HOSTS = ("algo-1", "algo-2", "algo-3")


@pytest.mark.parametrize(
    ("count", "setting", "visible"),
    [(0, None, ()), (2, None, ("0", "1")), (4, "3, 1", ("3", "1")), (4, "", ()), (0, "0,1", ())],
)
def test_only_visible_gpus_are_used(count: int, setting: str | None, visible: tuple[str, ...]) -> None:
    assert visible_gpus(count, setting) == visible


@pytest.mark.parametrize(
    ("gpus", "shares", "note"),
    [
        ("", [(), (), ()], None),
        ("012345", [("0", "1"), ("2", "3"), ("4", "5")], None),
        ("0123", [("0",), ("1",), ("2",)], "1 of them is not used"),
        ("01", [("0",), ("1",), ("0",)], "hosts share GPUs"),
    ],
)
def test_each_host_has_the_same_number(gpus: str, shares: list[tuple[str, ...]], note: str | None) -> None:
    assert list(distribute_gpus(tuple(gpus), HOSTS).values()) == shares
    found = distribution_note(tuple(gpus), HOSTS)
    assert found is None if note is None else note in str(found)
