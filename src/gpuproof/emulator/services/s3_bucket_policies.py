"""Bucket policies, as far as moto misunderstands them.

Moto heeds a policy's statements but none of their conditions, so the usual "deny what comes without TLS" would deny
everything. The emulator stands for an AWS that is asked over TLS: statements that hold without it alone are set aside
before moto sees them. The policy as it was put travels along in the one that moto keeps, and is what is told.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from typing import Any

from gpuproof.emulator.emulator import Emulator
from gpuproof.emulator.protocol import Answer, AwsRequest

OPERATIONS = ("PutBucketPolicy", "GetBucketPolicy")

_ORIGINAL = "AsItWasPut"
_TRUTH_OPERATORS = ("bool", "boolifexists")
_SECURE = "aws:securetransport"
# They are about the body as it was sent; the signature, which covers it too, is checked by nobody here.
_ABOUT_THE_BODY = ("HTTP_CONTENT_MD5", "HTTP_X_AMZ_CONTENT_SHA256", "HTTP_X_AMZ_SDK_CHECKSUM_ALGORITHM")
_CHECKSUMS = "HTTP_X_AMZ_CHECKSUM_"


def answer(emulator: Emulator, request: AwsRequest) -> Answer:
    """`PutBucketPolicy` and `GetBucketPolicy`."""
    if request.method == "PUT":
        return emulator.journal.answer(_for_moto(request), only_reads=False)
    return _as_it_was_put(emulator.journal.answer(request, only_reads=True))


def holds_without_tls_alone(statement: Mapping[str, Any]) -> bool:
    """Whether a statement never holds for a request that comes over TLS; a statement's conditions all have to hold."""
    condition = statement.get("Condition")
    if not isinstance(condition, dict):
        return False
    return any(
        operator.lower() in _TRUTH_OPERATORS and isinstance(keys, dict) and _wants_no_tls(keys)
        for operator, keys in condition.items()
    )


def _wants_no_tls(keys: Mapping[str, Any]) -> bool:
    for name, wanted in keys.items():
        if name.lower() == _SECURE:
            values = wanted if isinstance(wanted, list) else [wanted]
            return all(str(value).lower() == "false" for value in values)
    return False


def _for_moto(request: AwsRequest) -> AwsRequest:
    try:
        text = request.content().decode()
        policy = json.loads(text)
        statements = policy["Statement"]
    except (ValueError, LookupError, TypeError):
        return request  # moto says what is wrong with it
    statements = statements if isinstance(statements, list) else [statements]
    kept = [one for one in statements if not (isinstance(one, dict) and holds_without_tls_alone(one))]
    if len(kept) == len(statements):
        return request
    body = json.dumps({**policy, "Statement": kept, _ORIGINAL: text}).encode()
    environ = {
        name: value
        for name, value in request.environ.items()
        if name not in _ABOUT_THE_BODY and not name.startswith(_CHECKSUMS)
    }
    return dataclasses.replace(request, environ=environ).with_body(body)


def _as_it_was_put(told: Answer) -> Answer:
    body = b"".join(told.body)
    try:
        original = json.loads(body)[_ORIGINAL].encode()
    except (ValueError, LookupError, TypeError):
        return dataclasses.replace(told, body=[body])
    headers = tuple((name, value) for name, value in told.headers if name.lower() != "content-length")
    return Answer(told.status, (*headers, ("Content-Length", str(len(original)))), [original])
