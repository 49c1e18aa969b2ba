"""Signed requests to AWS without the SDK, which an image may lack: Signature Version 4 with the credentials of the host's role.

Sources: https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html,
https://docs.aws.amazon.com/sdkref/latest/guide/feature-container-credentials.html,
https://docs.aws.amazon.com/STS/latest/APIReference/API_AssumeRoleWithWebIdentity.html,
https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/instance-metadata-security-credentials.html
"""

from __future__ import annotations

import configparser
import hashlib
import hmac
import json
import time
import urllib.request
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable
from urllib.parse import urlencode, urlsplit

from gpuproof.agent.ec2_host.metadata import Metadata

_TIMEOUT_S = 5.0
_CONTAINERS = "http://169.254.170.2"
_ROLE = "meta-data/iam/security-credentials/"


@dataclass(frozen=True)
class Credentials:
    """An access key; `token` is that of a role's session."""

    key: str
    secret: str
    token: str | None = None


def find_credentials(environ: Mapping[str, str]) -> Credentials | None:
    """The first credentials that there are.

    Those of variables, a Kubernetes service account's role, the container's role, a profile with a key of its own, the
    instance's role.
    """
    for source in (_from_variables, _from_web_identity, _from_container, _from_file, _from_instance):
        for found in source(environ):
            return found
    return None


def signed_headers(
    credentials: Credentials,
    service: str,
    region: str,
    url: str,
    body: bytes,
    headers: Mapping[str, str],
    clock: Callable[[], float] = time.time,
    method: str = "POST",
) -> dict[str, str]:
    """The headers of a signed request.

    Args:
        url: with a path and a query that are percent-encoded as they are sent.
        headers: to be signed and sent, too.
    """
    now = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(clock()))
    parts = urlsplit(url)
    values = {**headers, "Host": parts.netloc, "X-Amz-Date": now}
    if credentials.token:
        values["X-Amz-Security-Token"] = credentials.token
    digest = hashlib.sha256(body).hexdigest()
    if service == "s3":
        values["X-Amz-Content-SHA256"] = digest
    ordered = sorted((name.lower(), " ".join(value.split())) for name, value in values.items())
    names = ";".join(name for name, _ in ordered)
    lines = "".join(f"{name}:{value}\n" for name, value in ordered)
    query = "&".join(sorted(parts.query.split("&"))) if parts.query else ""
    request = "\n".join([method, parts.path or "/", query, lines, names, digest])
    scope = f"{now[:8]}/{region}/{service}/aws4_request"
    text = "\n".join(["AWS4-HMAC-SHA256", now, scope, hashlib.sha256(request.encode()).hexdigest()])
    key = f"AWS4{credentials.secret}".encode()
    for part in scope.split("/"):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    signature = hmac.new(key, text.encode(), hashlib.sha256).hexdigest()
    values["Authorization"] = (
        f"AWS4-HMAC-SHA256 Credential={credentials.key}/{scope}, SignedHeaders={names}, Signature={signature}"
    )
    return values


def _from_variables(environ: Mapping[str, str]) -> Iterator[Credentials]:
    key, secret = environ.get("AWS_ACCESS_KEY_ID"), environ.get("AWS_SECRET_ACCESS_KEY")
    if key and secret:
        yield Credentials(key, secret, environ.get("AWS_SESSION_TOKEN"))


def _from_web_identity(environ: Mapping[str, str]) -> Iterator[Credentials]:
    """IAM roles for service accounts: EKS puts a token into a file, and STS takes it without a signature."""
    role, file = environ.get("AWS_ROLE_ARN"), environ.get("AWS_WEB_IDENTITY_TOKEN_FILE")
    if not role or not file:
        return
    region = environ.get("AWS_REGION") or environ.get("AWS_DEFAULT_REGION") or "us-east-1"
    suffix = "amazonaws.com.cn" if role.startswith("arn:aws-cn:") else "amazonaws.com"
    url = (
        environ.get("AWS_ENDPOINT_URL_STS")
        or environ.get("AWS_ENDPOINT_URL")
        or f"https://sts.{region}.{suffix}"
    )
    if not url.startswith(("http://", "https://")):
        return
    try:
        token = Path(file).read_text(encoding="utf-8").strip()
        body = urlencode(
            {
                "Action": "AssumeRoleWithWebIdentity",
                "Version": "2011-06-15",
                "RoleArn": role,
                "RoleSessionName": environ.get("AWS_ROLE_SESSION_NAME") or "gpuproof",
                "WebIdentityToken": token,
            }
        )
        with urllib.request.urlopen(f"{url.rstrip('/')}/", body.encode(), timeout=_TIMEOUT_S) as response:  # noqa: S310
            answer = ElementTree.fromstring(response.read())  # noqa: S314 - of STS
    except (OSError, ValueError, ElementTree.ParseError):
        return
    found = {element.tag.partition("}")[2]: element.text or "" for element in answer.iter()}
    if found.get("AccessKeyId") and found.get("SecretAccessKey"):
        yield Credentials(found["AccessKeyId"], found["SecretAccessKey"], found.get("SessionToken"))


def _from_container(environ: Mapping[str, str]) -> Iterator[Credentials]:
    path = environ.get("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI")
    url = f"{_CONTAINERS}{path}" if path else environ.get("AWS_CONTAINER_CREDENTIALS_FULL_URI")
    if not url or not url.startswith(("http://", "https://")):
        return
    token = environ.get("AWS_CONTAINER_AUTHORIZATION_TOKEN")
    try:
        if file := environ.get("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"):
            token = Path(file).read_text(encoding="utf-8").strip()
        request = urllib.request.Request(url, headers={"Authorization": token} if token else {})  # noqa: S310 - checked
        # Never through a proxy: the address is the host's own.
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(request, timeout=_TIMEOUT_S) as response:
            yield from _session(json.loads(response.read()))
    except (OSError, ValueError):
        return


def _from_file(environ: Mapping[str, str]) -> Iterator[Credentials]:
    path = environ.get("AWS_SHARED_CREDENTIALS_FILE") or str(Path.home() / ".aws" / "credentials")
    profiles = configparser.RawConfigParser()
    try:
        profiles.read(path, encoding="utf-8")
        profile = profiles[environ.get("AWS_PROFILE") or "default"]
        yield Credentials(
            profile["aws_access_key_id"], profile["aws_secret_access_key"], profile.get("aws_session_token")
        )
    except (OSError, KeyError, ValueError, configparser.Error):
        return


def _from_instance(environ: Mapping[str, str]) -> Iterator[Credentials]:
    if environ.get("AWS_EC2_METADATA_DISABLED", "").lower() == "true":
        return
    endpoint = urlsplit(environ.get("AWS_EC2_METADATA_SERVICE_ENDPOINT", "")).netloc
    service = Metadata(endpoint) if endpoint else Metadata()
    role = service.get(_ROLE)
    if role:
        yield from _session(service.get_object(f"{_ROLE}{role.split()[0]}") or {})


def _session(document: Mapping[str, Any]) -> Iterator[Credentials]:
    if document.get("AccessKeyId") and document.get("SecretAccessKey"):
        yield Credentials(document["AccessKeyId"], document["SecretAccessKey"], document.get("Token"))
