"""Fakes of EC2's metadata service, STS and Service Quotas on loopback, so that tests never reach AWS.

with MetadataService({"dynamic/instance-identity/document": '{"instanceType": "g5.xlarge"}'}) as service:
    Machine(environment={"AWS_EC2_METADATA_SERVICE_ENDPOINT": service.url})

with Account(quotas={"L-DB2E81BA": 0.0}) as account:
    Machine(environment=account.environment())
"""

import http.server
import json
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from email.utils import formatdate
from types import TracebackType
from typing import Any, Self
from urllib.parse import parse_qs

TOKEN = "a-token-of-this-test"


class _Loopback:
    """An HTTP server on a free port of 127.0.0.1, in a thread."""

    def __init__(self) -> None:
        owner = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def log_message(self, *_: object) -> None:
                pass

            def date_time_string(self, timestamp: float | None = None) -> str:
                return formatdate(owner.now(), usegmt=True)

            def do_GET(self) -> None:
                self._respond()

            def do_PUT(self) -> None:
                self._respond()

            def do_POST(self) -> None:
                self._respond()

            def _respond(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
                status, content = owner.respond(self.command, self.path, dict(self.headers.items()), body)
                self.send_response(status)
                self.send_header("Content-Length", str(len(content.encode())))
                self.end_headers()
                self.wfile.write(content.encode())

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def now(self) -> float:
        """The server's clock, in seconds since the epoch."""
        return time.time()

    def respond(self, method: str, path: str, headers: Mapping[str, str], body: str) -> tuple[int, str]:
        """Return status and content of a response."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()


class MetadataService(_Loopback):
    """IMDSv2: returns 401 for requests without a token.

    Args:
        paths: contents by path below `/latest/`.
        rejects: an HTTP status for all responses, such as 403 for a disabled service.
        ahead_s: seconds by which its clock is ahead of this machine's.
    """

    def __init__(self, paths: Mapping[str, str], rejects: int | None = None, ahead_s: float = 0) -> None:
        super().__init__()
        self._paths = paths
        self._rejects = rejects
        self._ahead = ahead_s
        self.requests: list[str] = []

    def now(self) -> float:
        return time.time() + self._ahead

    def respond(self, method: str, path: str, headers: Mapping[str, str], body: str) -> tuple[int, str]:
        self.requests.append(f"{method} {path}")
        lower = {name.lower(): value for name, value in headers.items()}
        if self._rejects:
            return self._rejects, ""
        if path == "/latest/api/token":
            fine = method == "PUT" and "x-aws-ec2-metadata-token-ttl-seconds" in lower
            return (200, TOKEN) if fine else (400, "")
        if lower.get("x-aws-ec2-metadata-token") != TOKEN:
            return 401, ""
        content = self._paths.get(path.removeprefix("/latest/"))
        return (404, "") if content is None else (200, content)


@dataclass
class Account(_Loopback):
    """STS and Service Quotas.

    Args:
        quotas: applied values by code; without an entry, no increase was applied.
        defaults: AWS's defaults by code.
        listed: quotas by name for listings, two per page.
        failure: an error code that STS returns in every region.
        disabled_regions: regions that the account has not enabled.
        quota_failure: an error code that Service Quotas returns.
    """

    quotas: Mapping[str, float] = field(default_factory=dict[str, float])
    defaults: Mapping[str, float] = field(default_factory=dict[str, float])
    listed: Mapping[str, float] = field(default_factory=dict[str, float])
    failure: str | None = None
    disabled_regions: tuple[str, ...] = ()
    quota_failure: str | None = None

    def __post_init__(self) -> None:
        super().__init__()

    def environment(self, **more: str) -> dict[str, str]:
        """Environment for a process that uses this account only."""
        return {
            "AWS_ACCESS_KEY_ID": "testing",
            "AWS_SECRET_ACCESS_KEY": "testing",
            "AWS_ENDPOINT_URL": self.url,
            "AWS_EC2_METADATA_DISABLED": "true",
            "AWS_CONFIG_FILE": "/nonexistent",
            "AWS_SHARED_CREDENTIALS_FILE": "/nonexistent",
            "AWS_REGION": "us-east-1",
            **more,
        }

    def respond(self, method: str, path: str, headers: Mapping[str, str], body: str) -> tuple[int, str]:
        # The signature names the region: Credential=KEY/DATE/REGION/SERVICE/aws4_request.
        region = headers["Authorization"].split("/")[2]
        target = headers.get("X-Amz-Target", "").rpartition(".")[2]
        if target:
            return self._quota(target, json.loads(body))
        assert parse_qs(body)["Action"] == ["GetCallerIdentity"]
        failure = "InvalidClientTokenId" if region in self.disabled_regions else self.failure
        if failure:
            return 403, _ERROR.format(code=failure)
        return 200, _IDENTITY

    def _quota(self, operation: str, request: dict[str, Any]) -> tuple[int, str]:
        if self.quota_failure:
            return 400, json.dumps({"__type": self.quota_failure, "message": "not for you"})
        if operation == "ListServiceQuotas":
            start = int(request.get("NextToken", 0))
            names = list(self.listed)
            page = [{"QuotaName": name, "Value": self.listed[name]} for name in names[start : start + 2]]
            more = {"NextToken": str(start + 2)} if start + 2 < len(names) else {}
            return 200, json.dumps({"Quotas": page, **more})
        values = self.quotas if operation == "GetServiceQuota" else self.defaults
        if request["QuotaCode"] not in values:
            return 400, json.dumps({"__type": "NoSuchResourceException", "message": "no such quota"})
        return 200, json.dumps({"Quota": {"Value": values[request["QuotaCode"]]}})


_IDENTITY = """<GetCallerIdentityResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><GetCallerIdentityResult>
<Arn>arn:aws:sts::123456789012:assumed-role/trainer/ann</Arn><UserId>AROA:ann</UserId><Account>123456789012</Account>
</GetCallerIdentityResult></GetCallerIdentityResponse>"""
_ERROR = """<ErrorResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><Error><Type>Sender</Type>
<Code>{code}</Code><Message>The security token included in the request is expired or invalid</Message></Error>
</ErrorResponse>"""
