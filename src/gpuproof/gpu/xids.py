"""NVIDIA's Xid events: meaning, severity and what to do about each."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

from gpuproof.findings import Severity
from gpuproof.util.csv_table import read_package_rows


class Xid(NamedTuple):
    """One kind of Xid event.

    Attributes:
        number: the event's number in the kernel log.
        meaning: what it reports.
        severity: of a finding about it.
        action: the kind of remedy: `restart`, `debug`, `watch`, `remap`, `reset`, `reboot`, `gsp` or `replace`.
        remedy: what to do if it explains a failed job; empty if `action` says enough.
        source: key of the source.
    """

    number: int
    meaning: str
    severity: Severity
    action: str
    remedy: str
    source: str


@cache
def known_xids() -> dict[int, Xid]:
    """The known Xid events by number, from `data/xids.csv`."""
    return {
        int(row["xid"]): Xid(
            int(row["xid"]),
            row["meaning"],
            Severity(row["severity"]),
            row["action"],
            row["remedy"],
            row["source"],
        )
        for row in read_package_rows("gpuproof.gpu", "data/xids.csv")
    }
