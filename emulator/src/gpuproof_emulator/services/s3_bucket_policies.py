"""Bucket policies, for which moto ignores conditions.

Moto applies a policy's statements without their conditions, so the usual "deny requests without TLS" would deny
everything. The emulator treats every request as sent over TLS: statements that apply only without TLS are removed before
moto sees them. The original policy is stored inside the one that moto keeps, and `GetBucketPolicy` returns it.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from typing import Any

from gpuproof_emulator.context import Context
from gpuproof_emulator.moto_journal import Journal
from gpuproof_emulator.protocol import AwsRequest, AwsResponse

OPERATIONS = ("PutBucketPolicy", "GetBucketPolicy")

_ORIGINAL = "AsItWasPut"
_TRUTH_OPERATORS = ("bool", "boolifexists")
_SECURE = "aws:securetransport"
# Checksums of the original body. The signature also covers it, but the emulator does not verify signatures.
_BODY_CHECKSUMS = ("HTTP_CONTENT_MD5", "HTTP_X_AMZ_CONTENT_SHA256", "HTTP_X_AMZ_SDK_CHECKSUM_ALGORITHM")
_CHECKSUMS = "HTTP_X_AMZ_CHECKSUM_"


def handle(_: Context, journal: Journal, request: AwsRequest) -> AwsResponse:
    """Handle `PutBucketPolicy` and `GetBucketPolicy`."""
    if request.method == "PUT":
        return journal.handle(_for_moto(request), read_only=False)
    return _restore_original(journal.handle(request, read_only=True))


def applies_only_without_tls(statement: Mapping[str, Any]) -> bool:
    """Whether a statement never applies to a request over TLS: all of its conditions would have to hold."""
    condition = statement.get("Condition")
    if not isinstance(condition, dict):
        return False
    return any(
        operator.lower() in _TRUTH_OPERATORS and isinstance(keys, dict) and _requires_no_tls(keys)
        for operator, keys in condition.items()
    )


def _requires_no_tls(keys: Mapping[str, Any]) -> bool:
    for name, value in keys.items():
        if name.lower() == _SECURE:
            values = value if isinstance(value, list) else [value]
            return all(str(value).lower() == "false" for value in values)
    return False


def _for_moto(request: AwsRequest) -> AwsRequest:
    try:
        text = request.content().decode()
        policy = json.loads(text)
        statements = policy["Statement"]
    except (ValueError, LookupError, TypeError):
        return request  # moto reports what is wrong with it
    statements = statements if isinstance(statements, list) else [statements]
    kept = [
        statement
        for statement in statements
        if not (isinstance(statement, dict) and applies_only_without_tls(statement))
    ]
    if len(kept) == len(statements):
        return request
    body = json.dumps({**policy, "Statement": kept, _ORIGINAL: text}).encode()
    environ = {
        name: value
        for name, value in request.environ.items()
        if name not in _BODY_CHECKSUMS and not name.startswith(_CHECKSUMS)
    }
    return dataclasses.replace(request, environ=environ).with_body(body)


def _restore_original(response: AwsResponse) -> AwsResponse:
    body = b"".join(response.body)
    try:
        original = json.loads(body)[_ORIGINAL].encode()
    except (ValueError, LookupError, TypeError):
        return dataclasses.replace(response, body=[body])
    headers = tuple((name, value) for name, value in response.headers if name.lower() != "content-length")
    return AwsResponse(response.status, (*headers, ("Content-Length", str(len(original)))), [original])
