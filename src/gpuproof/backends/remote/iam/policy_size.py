"""The sizes that IAM allows for policies, and how to split one that is larger."""

from __future__ import annotations

import json
from typing import Any

LARGEST_MANAGED = 6144
"""Characters of a managed policy, without white space. An inline policy of a user may have 2,048 only.

Source: https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_iam-quotas.html
"""


def size_of(document: dict[str, Any]) -> int:
    """The characters of a policy that IAM counts: all but white space."""
    return len("".join(json.dumps(document).split()))


def split(document: dict[str, Any], largest: int = LARGEST_MANAGED) -> list[dict[str, Any]]:
    """Policies with the same statements that are not larger than IAM allows; the policy itself if it is not.

    A single statement that is larger has a policy of its own.
    """
    parts: list[dict[str, Any]] = []
    for statement in document["Statement"]:
        if parts:
            longer = {**parts[-1], "Statement": [*parts[-1]["Statement"], statement]}
            if size_of(longer) <= largest:
                parts[-1] = longer
                continue
        parts.append({**document, "Statement": [statement]})
    return parts
