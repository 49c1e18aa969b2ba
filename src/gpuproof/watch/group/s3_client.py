"""Reads, writes and lists objects in S3 without the SDK, which an image may lack.

Source: https://docs.aws.amazon.com/AmazonS3/latest/API/API_Operations_Amazon_Simple_Storage_Service.html
"""

from __future__ import annotations

import http.client
import time
import urllib.error
import urllib.request
import xml.etree.ElementTree as ElementTree
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Callable
from urllib.parse import quote, urlencode

from gpuproof.agent.notify.aws_request import Credentials, find_credentials, signed_headers

_TIMEOUT_S = 5.0
_PAUSES_S = (0.2, 1.0)
"""Between attempts. A scheduler may kill the job 30 s after it has asked it to end."""
_RETRIED = frozenset({429, 500, 502, 503, 504})
_DENIED = frozenset({"AccessDenied", "AllAccessDisabled", "InvalidAccessKeyId", "SignatureDoesNotMatch"})
_EXPIRED = frozenset({"ExpiredToken", "InvalidToken", "RequestExpired"})
_UNREACHABLE, _NO_CREDENTIALS = "unreachable", "no credentials"


@dataclass(frozen=True)
class Answer:
    """What S3 has answered.

    Args:
        code: of the error, such as `AccessDenied`; `None` if the request succeeded.
        text: why S3 could not be reached.
    """

    status: int = 0
    body: bytes = b""
    code: str | None = None
    region: str | None = None
    text: str = ""

    def problem(self, what: str, permission: str) -> str:
        """The failure in words.

        Args:
            what: was to be done, such as `write s3://bucket/name`.
            permission: that the request needs.
        """
        if self.code == _NO_CREDENTIALS:
            return f"cannot {what}: this host has no AWS credentials"
        if self.code == _UNREACHABLE:
            return f"cannot {what}: S3 could not be reached: {self.text}"
        if self.code in _DENIED:
            return f"cannot {what}: S3 answered {self.code}; the credentials need {permission}"
        if self.code in _EXPIRED:
            return f"cannot {what}: S3 answered {self.code}; the credentials have expired"
        return f"cannot {what}: S3 answered {self.code}"


class S3Client:
    """A client for a few small objects.

    Args:
        environ: has `AWS_REGION` or `AWS_DEFAULT_REGION`, and `AWS_ENDPOINT_URL_S3` or `AWS_ENDPOINT_URL`, if S3 is elsewhere.
        credentials: `None` finds those of the variables, the container, a profile, or the instance.
        sleep: waits before another attempt.
    """

    def __init__(
        self,
        environ: Mapping[str, str],
        credentials: Credentials | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._environ = environ
        self._credentials = credentials
        self._endpoint = environ.get("AWS_ENDPOINT_URL_S3") or environ.get("AWS_ENDPOINT_URL")
        self._region = environ.get("AWS_REGION") or environ.get("AWS_DEFAULT_REGION") or "us-east-1"
        self._sleep = sleep

    def request(
        self,
        method: str,
        bucket: str,
        key: str = "",
        query: Mapping[str, str] | None = None,
        body: bytes = b"",
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """Send a request; a bucket of another region and a server that is busy are tried again."""
        self._credentials = self._credentials or find_credentials(self._environ)
        if self._credentials is None:
            return Answer(code=_NO_CREDENTIALS)
        answer = Answer()
        for pause in (*_PAUSES_S, None):
            answer = self._send(self._credentials, method, self._url(bucket, key, query), body, headers or {})
            if answer.region and answer.region != self._region and answer.code is not None:
                self._region = answer.region
                answer = self._send(
                    self._credentials, method, self._url(bucket, key, query), body, headers or {}
                )
            is_temporary = answer.code == _UNREACHABLE or answer.status in _RETRIED
            if not is_temporary or pause is None:
                break
            self._sleep(pause)
        return answer

    def list(self, bucket: str, prefix: str) -> tuple[list[str], Answer]:
        """The keys of all objects with a prefix, and the last answer."""
        keys: list[str] = []
        query = {"list-type": "2", "prefix": prefix}
        while True:
            answer = self.request("GET", bucket, query=query)
            if answer.code is not None:
                return keys, answer
            try:
                root = ElementTree.fromstring(answer.body)  # noqa: S314 - of the service that has the reports
            except ElementTree.ParseError:
                return keys, Answer(answer.status, code="a document that is no XML")
            space = root.tag.partition("}")[0] + "}" if root.tag.startswith("{") else ""
            keys += [key.text or "" for key in root.iterfind(f"{space}Contents/{space}Key")]
            token = root.findtext(f"{space}NextContinuationToken")
            if not token:
                return keys, answer
            query = {**query, "continuation-token": token}

    def _url(self, bucket: str, key: str, query: Mapping[str, str] | None) -> str:
        path = quote(key, safe="/-_.~")
        if self._endpoint:
            address = f"{self._endpoint.rstrip('/')}/{bucket}/{path}"
        else:
            suffix = "amazonaws.com.cn" if self._region.startswith("cn-") else "amazonaws.com"
            host = f"s3.{self._region}.{suffix}"
            # The certificate has one level of names below the service's, so that no bucket with dots matches.
            address = (
                f"https://{host}/{bucket}/{path}" if "." in bucket else f"https://{bucket}.{host}/{path}"
            )
        return (
            f"{address}?{urlencode(sorted(query.items()), quote_via=quote, safe='-_.~')}"
            if query
            else address
        )

    def _send(
        self, credentials: Credentials, method: str, url: str, body: bytes, headers: Mapping[str, str]
    ) -> Answer:
        signed = signed_headers(credentials, "s3", self._region, url, body, headers, method=method)
        request = urllib.request.Request(url, body if method == "PUT" else None, signed, method=method)  # noqa: S310 - AWS's, or the user's own
        try:
            with urllib.request.urlopen(request, timeout=_TIMEOUT_S) as response:  # noqa: S310
                return Answer(response.status, response.read())
        except urllib.error.HTTPError as error:
            with error:
                return _failure(error)
        except (OSError, http.client.HTTPException) as error:
            return Answer(code=_UNREACHABLE, text=str(getattr(error, "reason", None) or error))


def _failure(error: urllib.error.HTTPError) -> Answer:
    body = error.read(1 << 16)
    code = None
    try:
        code = ElementTree.fromstring(body).findtext("Code")  # noqa: S314
    except ElementTree.ParseError:
        pass
    region = error.headers.get("x-amz-bucket-region")
    return Answer(error.code, body, code or f"status {error.code}", region)
