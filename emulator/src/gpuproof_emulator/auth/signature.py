"""Verifies the signatures of requests with botocore's own signers: AWS Signature Version 4 in headers and in presigned
addresses, and Version 2 for S3, which boto3 still uses for presigned addresses.

Source: https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html
"""

from __future__ import annotations

import hashlib
import hmac
import re
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from botocore.auth import HmacV1Auth, S3SigV4Auth, SigV4Auth
from botocore.awsrequest import AWSRequest, HTTPHeaders
from botocore.credentials import Credentials

from gpuproof_emulator.auth.failures import AuthFailure, Rejected
from gpuproof_emulator.auth.key_ring import KeyRing
from gpuproof_emulator.protocol import AwsRequest

MAX_SKEW_S = 15 * 60
"""Seconds by which the time of a request may differ: https://docs.aws.amazon.com/AmazonS3/latest/API/ErrorResponses.html"""

_MAX_EXPIRES_S = 7 * 86_400
_S3_SERVICES = ("s3", "s3express", "s3-outposts", "s3-object-lambda")
_REGION = re.compile(r"[a-z0-9-]{1,32}")
_HASH = re.compile(r"[0-9a-f]{64}")
_UNVERIFIED_BODIES = ("UNSIGNED-PAYLOAD", "STREAMING-")
_V4 = "AWS4-HMAC-SHA256"
_CHUNK = 1 << 20


@dataclass(frozen=True)
class _Claim:
    """What a request claims about its signature.

    Args:
        key, date, region, service: of the credential scope.
        signed_headers: names, in lower case.
        timestamp: `YYYYMMDDTHHMMSSZ`.
        expires: seconds for which it is valid; None for a signature in a header.
    """

    key: str
    date: str
    region: str
    service: str
    signed_headers: tuple[str, ...]
    signature: str
    timestamp: str
    expires: int | None = None


class SignatureVerifier:
    """Verifies requests.

    Args:
        keys: all valid credentials.
        clock: returns seconds since the epoch.
    """

    def __init__(self, keys: KeyRing, clock: Callable[[], float] = time.time) -> None:
        self._keys = keys
        self._clock = clock

    def verify(self, request: AwsRequest) -> None:
        """Verify a request.

        Raises:
            Rejected: it is not signed, or not with valid credentials.
        """
        query = dict(parse_qsl(request.query, keep_blank_values=True))
        header = request.header("authorization")
        if header.startswith("AWS "):
            self._verify_v2(request, *_split_v2(header), query, None)
        elif header:
            self._verify_v4(request, _parse_header(request, header), request.header("x-amz-security-token"))
        elif "X-Amz-Signature" in query:
            self._verify_v4(request, _parse_query(query), query.get("X-Amz-Security-Token", ""))
        elif "Signature" in query and "AWSAccessKeyId" in query:
            self._verify_v2(request, query["AWSAccessKeyId"], query["Signature"], query, query.get("Expires"))
        else:
            raise Rejected(AuthFailure.MISSING)

    def credentials(self, key: str, session_token: str) -> Credentials:
        """The credentials with an access key id.

        Raises:
            Rejected: there are none, or the session token is not theirs.
        """
        found = self._keys.find(key)
        if found is None:
            raise Rejected(AuthFailure.UNKNOWN_KEY)
        if not self._keys.accepts_session_token(found, session_token):
            raise Rejected(AuthFailure.INVALID_TOKEN)
        return found

    def _verify_v4(self, request: AwsRequest, claim: _Claim, session_token: str) -> None:
        if not _REGION.fullmatch(claim.region) or not claim.timestamp.startswith(claim.date):
            raise Rejected(AuthFailure.MALFORMED)
        self._check_time(claim)
        credentials = self.credentials(claim.key, session_token)
        kind = _S3Signer if claim.service in _S3_SERVICES else _Signer
        signer = kind(credentials, claim.service, claim.region)
        signed = AWSRequest(
            request.method, _url(request, drop="X-Amz-Signature"), _headers(request, claim.signed_headers)
        )
        signed.context["timestamp"] = claim.timestamp
        body = _body_hash(request, unsigned=claim.expires is not None and kind is _S3Signer)
        text = signer.string_to_sign(signed, signer.canonical_request_with(signed, body))
        if not hmac.compare_digest(str(signer.signature(text, signed)).encode(), claim.signature.encode()):
            raise Rejected(AuthFailure.MISMATCH)

    def _check_time(self, claim: _Claim) -> None:
        try:
            moment = datetime.strptime(claim.timestamp, "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC).timestamp()
        except ValueError as error:
            raise Rejected(AuthFailure.MALFORMED) from error
        passed = self._clock() - moment
        if claim.expires is None:
            if abs(passed) > MAX_SKEW_S:
                raise Rejected(AuthFailure.SKEWED)
        elif not -MAX_SKEW_S <= passed <= claim.expires or not 0 < claim.expires <= _MAX_EXPIRES_S:
            raise Rejected(AuthFailure.EXPIRED)

    def _verify_v2(
        self, request: AwsRequest, key: str, signature: str, query: Mapping[str, str], expires: str | None
    ) -> None:
        parameters = {name.lower(): value for name, value in query.items()}
        headers = {
            **{
                name: value
                for name, value in parameters.items()
                if expires is not None and _is_signed_v2(name)
            },
            **{name: value for name, value in _all_headers(request) if _is_signed_v2(name)},
        }
        if expires is not None:
            if not expires.isdecimal() or int(expires) < self._clock():
                raise Rejected(AuthFailure.EXPIRED)
            moment = expires
        else:
            moment = request.header("date")
            self._check_http_date(moment or request.header("x-amz-date"))
            moment = "" if "x-amz-date" in headers else moment
        credentials = self.credentials(key, headers.get("x-amz-security-token", ""))
        signer = _V2Signer(credentials, moment)
        url = _url(request)
        own = signer.get_signature(
            request.method, urlsplit(url), _as_headers(headers.items()), auth_path=_auth_path(request)
        )
        if not hmac.compare_digest(own.encode(), signature.encode()):
            raise Rejected(AuthFailure.MISMATCH)

    def _check_http_date(self, text: str) -> None:
        try:
            moment = parsedate_to_datetime(text).timestamp()
        except ValueError as error:
            raise Rejected(AuthFailure.MISSING) from error
        if abs(self._clock() - moment) > MAX_SKEW_S:
            raise Rejected(AuthFailure.SKEWED)


def may_be_signed(environ: Mapping[str, Any]) -> bool:
    """Whether a request has a signature in its headers or address, or may have one in a form."""
    query = environ.get("QUERY_STRING", "")
    return (
        bool(environ.get("HTTP_AUTHORIZATION"))
        or "Signature=" in query
        or environ.get("CONTENT_TYPE", "").startswith("multipart/form-data")
    )


class _Signer(SigV4Auth):
    """Signs exactly the headers that a request names as signed."""

    def headers_to_sign(self, request: Any) -> Any:
        return request.headers

    def canonical_request_with(self, request: Any, body_hash: str) -> str:
        """The canonical request, whose last line is the hash of the body."""
        *lines, _ = self.canonical_request(request).split("\n")
        return "\n".join([*lines, body_hash])


class _S3Signer(_Signer, S3SigV4Auth):
    """The same for S3, which does not normalize paths."""


class _V2Signer(HmacV1Auth):
    """Signs with the date of the request."""

    def __init__(self, credentials: Credentials, moment: str) -> None:
        super().__init__(credentials)
        self._moment = moment

    def _get_date(self) -> str:
        return self._moment


def _parse_header(request: AwsRequest, header: str) -> _Claim:
    algorithm, _, rest = header.partition(" ")
    parts = (part.strip().partition("=") for part in rest.split(","))
    members = {name: value for name, _, value in parts}
    timestamp = request.header("x-amz-date")
    if not timestamp and (date := request.header("date")):
        try:
            timestamp = parsedate_to_datetime(date).astimezone(UTC).strftime("%Y%m%dT%H%M%SZ")
        except ValueError:
            timestamp = date
    return _claim(algorithm, members, "Credential", "SignedHeaders", "Signature", timestamp, None)


def _parse_query(query: Mapping[str, str]) -> _Claim:
    expires = query.get("X-Amz-Expires", "")
    return _claim(
        query.get("X-Amz-Algorithm", ""),
        query,
        "X-Amz-Credential",
        "X-Amz-SignedHeaders",
        "X-Amz-Signature",
        query.get("X-Amz-Date", ""),
        # A presigned address of another service than S3 may name no time; AWS accepts it for 15 minutes.
        int(expires) if expires.isdecimal() else 0 if expires else MAX_SKEW_S,
    )


def _claim(
    algorithm: str,
    members: Mapping[str, str],
    credential: str,
    signed_headers: str,
    signature: str,
    timestamp: str,
    expires: int | None,
) -> _Claim:
    scope = members.get(credential, "").rsplit("/", 4)
    if algorithm != _V4 or len(scope) != 5 or scope[4] != "aws4_request":
        raise Rejected(AuthFailure.MALFORMED)
    names = tuple(name for name in members.get(signed_headers, "").lower().split(";") if name)
    if "host" not in names or not scope[1]:
        raise Rejected(AuthFailure.MALFORMED)
    key, date, region, service, _ = scope
    return _Claim(key, date, region, service, names, members.get(signature, ""), timestamp, expires)


def _split_v2(header: str) -> tuple[str, str]:
    key, _, signature = header.removeprefix("AWS ").strip().partition(":")
    return key, signature


def _is_signed_v2(name: str) -> bool:
    return name.startswith("x-amz-") or name in ("content-md5", "content-type")


def _url(request: AwsRequest, drop: str = "") -> str:
    """The address as the client sent it, without one parameter."""
    target = request.environ.get("RAW_URI") or request.path
    if "://" in target.partition("?")[0]:
        target = "/" + target.partition("://")[2].partition("/")[2]
    path, _, query = target.partition("?")
    kept = [part for part in query.split("&") if part and part.partition("=")[0] != drop] if drop else [query]
    return f"http://{request.header('host')}{path}?{'&'.join(kept)}"


def _auth_path(request: AwsRequest) -> str:
    """The path with the bucket, which may be in the host name."""
    path = urlsplit(_url(request)).path
    bucket, dot, domain = request.header("host").partition(":")[0].partition(".")
    return f"/{bucket}{path}" if dot and domain == "localhost" else path


def _headers(request: AwsRequest, names: Iterable[str]) -> HTTPHeaders:
    present = dict(_all_headers(request))
    return _as_headers((name, present.get(name, "")) for name in names)


def _as_headers(items: Iterable[tuple[str, str]]) -> HTTPHeaders:
    headers = HTTPHeaders()
    for name, value in items:
        headers[name] = value
    return headers


def _all_headers(request: AwsRequest) -> Iterable[tuple[str, str]]:
    for name, value in request.environ.items():
        if name.startswith("HTTP_"):
            yield name.removeprefix("HTTP_").lower().replace("_", "-"), _decode(value)
        elif name in ("CONTENT_TYPE", "CONTENT_LENGTH") and value:
            yield name.lower().replace("_", "-"), _decode(value)
    # Metadata whose name has an underscore, as moto's request handler keeps it.
    for key, name in (request.environ.get("moto.preserved_header_names") or {}).items():
        yield name.lower(), _decode(request.environ.get(key, ""))


def _decode(value: str) -> str:
    # WSGI decodes headers as Latin-1: PEP 3333.
    try:
        return value.encode("latin-1").decode()
    except UnicodeError:
        return value


def _body_hash(request: AwsRequest, *, unsigned: bool) -> str:
    declared = request.header("x-amz-content-sha256")
    if declared.startswith(_UNVERIFIED_BODIES):
        # The parts of a streamed body have signatures of their own, which are not verified.
        return declared
    if unsigned and not declared:
        return "UNSIGNED-PAYLOAD"
    actual = _hash(request)
    if _HASH.fullmatch(declared) and declared != actual:
        raise Rejected(AuthFailure.BODY_MISMATCH)
    return actual


def _hash(request: AwsRequest) -> str:
    digest = hashlib.sha256()
    request.body.seek(0)
    while part := request.body.read(_CHUNK):
        digest.update(part)
    request.body.seek(0)
    return digest.hexdigest()
