"""Paths of the metadata service."""

from __future__ import annotations

from gpuproof_emulator.execution.instances.metadata_server import find_text

KNOWN = {"user-data": "#!", "meta-data/instance-id": "i-1", "meta-data/iam/security-credentials/": "role"}


def test_a_path_has_its_text() -> None:
    assert find_text(KNOWN, "meta-data/instance-id") == "i-1"
    assert find_text(KNOWN, "meta-data/iam/security-credentials/") == "role"


def test_a_folder_lists_what_is_below_it() -> None:
    assert find_text(KNOWN, "meta-data/") == "iam/\ninstance-id"
    assert find_text(KNOWN, "meta-data") == "iam/\ninstance-id"
    assert find_text(KNOWN, "") == "meta-data/\nuser-data"


def test_an_unknown_path_has_nothing() -> None:
    assert find_text(KNOWN, "meta-data/spot/instance-action") is None
    assert find_text(KNOWN, "meta-data/instance") is None
