"""Mutual authentication: each side proves that it has the job's key, by an HMAC over both sides' random challenges.

The key itself is never sent, and no proof is valid for another connection.
"""

from __future__ import annotations

import hmac
import os

MEMBER = "member"
COORDINATOR = "coordinator"


def challenge() -> str:
    """A random challenge of 256 bits, in hexadecimal."""
    return os.urandom(32).hex()


def proof(key: str, role: str, host: str, coordinators: str, members: str) -> str:
    """The proof of one side.

    Args:
        role: the side that proves, so that neither can send the other's proof back.
    """
    text = "\0".join(["gpuproof-cluster-1", role, host, coordinators, members])
    return hmac.new(key.encode(), text.encode(), "sha256").hexdigest()


def is_valid(found: object, expected: str) -> bool:
    """Whether a proof is the expected one; takes the same time whatever it is."""
    return isinstance(found, str) and hmac.compare_digest(found.encode(), expected.encode())
