"""EC2's metadata service and two of AWS's services on loopback, for a doctor that must never reach the real ones.

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
                self._answer()

            def do_PUT(self) -> None:
                self._answer()

            def do_POST(self) -> None:
                self._answer()

            def _answer(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
                status, content = owner.answer(self.command, self.path, dict(self.headers.items()), body)
                self.send_response(status)
                self.send_header("Content-Length", str(len(content.encode())))
                self.end_headers()
                self.wfile.write(content.encode())

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def now(self) -> float:
        """The server's clock, in seconds since the epoch."""
        return time.time()

    def answer(self, method: str, path: str, headers: Mapping[str, str], body: str) -> tuple[int, str]:
        """Status and content of an answer."""
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
    """IMDSv2: without a token it answers 401, as an instance does that requires one.

    Args:
        paths: what lies below `/latest/`.
        refuses: an HTTP status that it answers to everything, such as 403 where it is turned off.
        ahead_s: seconds by which its clock is ahead of this machine's.
    """

    def __init__(self, paths: Mapping[str, str], refuses: int | None = None, ahead_s: float = 0) -> None:
        super().__init__()
        self._paths = paths
        self._refuses = refuses
        self._ahead = ahead_s
        self.asked: list[str] = []

    def now(self) -> float:
        return time.time() + self._ahead

    def answer(self, method: str, path: str, headers: Mapping[str, str], body: str) -> tuple[int, str]:
        self.asked.append(f"{method} {path}")
        lower = {name.lower(): value for name, value in headers.items()}
        if self._refuses:
            return self._refuses, ""
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
        quotas: applied values by code; one that is missing was never applied for.
        defaults: AWS's defaults by code.
        listed: quotas by name, which a listing gives, two a page.
        fault: an error code that STS answers in every region.
        closed_regions: regions that know nobody of this account.
        quota_fault: an error code that Service Quotas answers.
    """

    quotas: Mapping[str, float] = field(default_factory=dict[str, float])
    defaults: Mapping[str, float] = field(default_factory=dict[str, float])
    listed: Mapping[str, float] = field(default_factory=dict[str, float])
    fault: str | None = None
    closed_regions: tuple[str, ...] = ()
    quota_fault: str | None = None

    def __post_init__(self) -> None:
        super().__init__()

    def environment(self, **more: str) -> dict[str, str]:
        """What a process needs to ask this account, and no other."""
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

    def answer(self, method: str, path: str, headers: Mapping[str, str], body: str) -> tuple[int, str]:
        # The signature names the region: Credential=KEY/DATE/REGION/SERVICE/aws4_request.
        region = headers["Authorization"].split("/")[2]
        target = headers.get("X-Amz-Target", "").rpartition(".")[2]
        if target:
            return self._quota(target, json.loads(body))
        assert parse_qs(body)["Action"] == ["GetCallerIdentity"]
        fault = "InvalidClientTokenId" if region in self.closed_regions else self.fault
        if fault:
            return 403, _ERROR.format(code=fault)
        return 200, _IDENTITY

    def _quota(self, operation: str, asked: dict[str, Any]) -> tuple[int, str]:
        if self.quota_fault:
            return 400, json.dumps({"__type": self.quota_fault, "message": "not for you"})
        if operation == "ListServiceQuotas":
            start = int(asked.get("NextToken", 0))
            names = list(self.listed)
            page = [{"QuotaName": name, "Value": self.listed[name]} for name in names[start : start + 2]]
            more = {"NextToken": str(start + 2)} if start + 2 < len(names) else {}
            return 200, json.dumps({"Quotas": page, **more})
        values = self.quotas if operation == "GetServiceQuota" else self.defaults
        if asked["QuotaCode"] not in values:
            return 400, json.dumps({"__type": "NoSuchResourceException", "message": "no such quota"})
        return 200, json.dumps({"Quota": {"Value": values[asked["QuotaCode"]]}})


_IDENTITY = """<GetCallerIdentityResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><GetCallerIdentityResult>
<Arn>arn:aws:sts::123456789012:assumed-role/trainer/ann</Arn><UserId>AROA:ann</UserId><Account>123456789012</Account>
</GetCallerIdentityResult></GetCallerIdentityResponse>"""
_ERROR = """<ErrorResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><Error><Type>Sender</Type>
<Code>{code}</Code><Message>The security token included in the request is expired or invalid</Message></Error>
</ErrorResponse>"""
