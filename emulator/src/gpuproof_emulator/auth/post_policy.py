"""Verifies S3's uploads by HTML form (`generate_presigned_post`), whose signature is in the form itself.

Source: https://docs.aws.amazon.com/AmazonS3/latest/API/sigv4-authentication-HTTPPOST.html
"""

from __future__ import annotations

import base64
import binascii
import hmac
import json
from collections.abc import Mapping
from datetime import datetime

from botocore.auth import HmacV1Auth, S3SigV4Auth
from botocore.awsrequest import AWSRequest

from gpuproof_emulator.auth.failures import AuthFailure, Rejected
from gpuproof_emulator.auth.signature import SignatureVerifier
from gpuproof_emulator.protocol import AwsRequest


def is_form_upload(request: AwsRequest) -> bool:
    """Whether a request is an upload by HTML form."""
    kind = request.environ.get("CONTENT_TYPE", "")
    return request.method == "POST" and kind.startswith("multipart/form-data") and not request.query


def verify_form(request: AwsRequest, verifier: SignatureVerifier, now: float) -> None:
    """Verify the signature and the expiration of an upload's policy; its conditions are not checked.

    Raises:
        Rejected: it is not signed with valid credentials, or has expired.
    """
    fields = _fields(request)
    policy, token = fields.get("policy", ""), fields.get("x-amz-security-token", "")
    if not policy:
        raise Rejected(AuthFailure.MISSING)
    scope = fields.get("x-amz-credential", "").rsplit("/", 4)
    if len(scope) == 5:
        key, date, region, service, _ = scope
        signer = S3SigV4Auth(verifier.credentials(key, token), service, region)
        signed = AWSRequest()
        signed.context["timestamp"] = date
        own, given = str(signer.signature(policy, signed)), fields.get("x-amz-signature", "")
    else:
        credentials = verifier.credentials(fields.get("awsaccesskeyid", ""), token)
        own, given = HmacV1Auth(credentials).sign_string(policy), fields.get("signature", "")
    if not hmac.compare_digest(own.encode(), given.encode()):
        raise Rejected(AuthFailure.MISMATCH)
    if _expiration(policy) < now:
        raise Rejected(AuthFailure.EXPIRED)


def _fields(request: AwsRequest) -> Mapping[str, str]:
    from werkzeug.formparser import parse_form_data  # installed with the extra

    request.body.seek(0)
    _, form, _ = parse_form_data(request.environ)
    request.body.seek(0)
    return {name.lower(): value for name, value in form.items()}


def _expiration(policy: str) -> float:
    try:
        text = json.loads(base64.b64decode(policy, validate=True))["expiration"]
        return datetime.fromisoformat(text).timestamp()
    except (binascii.Error, ValueError, LookupError, TypeError) as error:
        raise Rejected(AuthFailure.MALFORMED) from error
