"""Client of EC2's instance metadata service, version 2, with short timeouts.

Source: https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/instancedata-data-retrieval.html
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

SECONDS = 1.0
"""Timeout of each request. The service runs on the host and answers within milliseconds."""
_IPV4 = "http://169.254.169.254"
_IPV6 = "http://[fd00:ec2::254]"
_LIFETIME_S = "60"
_MAX_BYTES = 1 << 16


@dataclass(frozen=True)
class InstanceMetadata:
    """Instance metadata; `None` for what the service does not have.

    Args:
        role: whether the instance has a role, whose credentials AWS SDKs find by themselves.
        spot_action: `terminate`, `stop` or `hibernate` if the spot instance is about to be interrupted.
        spot_time: when, as ISO 8601.
        rebalance: time of the rebalance recommendation, as ISO 8601.
        events: scheduled maintenance, such as `system-reboot from 21 Jan 2027 …`.
        clock_skew_s: seconds that this machine's clock is ahead of the host's.
    """

    problem: str | None = None
    instance_type: str | None = None
    region: str | None = None
    role: bool = False
    spot_action: str | None = None
    spot_time: str | None = None
    rebalance: str | None = None
    events: tuple[str, ...] = ()
    clock_skew_s: float | None = None


def query_metadata(
    environment: Mapping[str, str], clock: Callable[[], float] = time.time
) -> InstanceMetadata | None:
    """Query the service; takes about a second at most if it does not answer.

    Args:
        environment: `AWS_EC2_METADATA_DISABLED`, `AWS_EC2_METADATA_SERVICE_ENDPOINT` and `…_MODE` are honoured.
        clock: seconds since the epoch.

    Returns:
        `None` if the user has disabled the service.
    """
    if environment.get("AWS_EC2_METADATA_DISABLED", "").lower() == "true":
        return None
    service = _Service(_endpoint(environment), clock)
    try:
        service.fetch_token()
        identity = json.loads(service.get("dynamic/instance-identity/document") or "{}")
    except _Unavailable as problem:
        return InstanceMetadata(problem=str(problem))
    except ValueError:
        return InstanceMetadata(problem="the response is not from EC2's metadata service")
    if not isinstance(identity, dict):
        return InstanceMetadata(problem="the response is not from EC2's metadata service")
    return _read_documents(service, identity)


def _read_documents(service: _Service, identity: dict[str, Any]) -> InstanceMetadata:
    spot = service.document("meta-data/spot/instance-action")
    rebalance = service.document("meta-data/events/recommendations/rebalance")
    events = service.document("meta-data/events/maintenance/scheduled")
    return InstanceMetadata(
        instance_type=identity.get("instanceType"),
        region=identity.get("region"),
        role=service.document("meta-data/iam/info") is not None,
        spot_action=spot.get("action") if isinstance(spot, dict) else None,
        spot_time=spot.get("time") if isinstance(spot, dict) else None,
        rebalance=rebalance.get("noticeTime") if isinstance(rebalance, dict) else None,
        events=tuple(
            f"{event.get('Code')} from {event.get('NotBefore')}"
            for event in (events if isinstance(events, list) else [])
            if isinstance(event, dict) and event.get("State", "active") == "active"
        ),
        clock_skew_s=service.clock_skew_s,
    )


class _Unavailable(Exception):
    """The service does not answer, or rejects the request."""


class _Service:
    def __init__(self, endpoint: str, clock: Callable[[], float]) -> None:
        self._endpoint = endpoint.rstrip("/")
        self._clock = clock
        self._token = ""
        import urllib.request  # 15 ms, only needed on EC2

        # These requests must not go through the user's proxy.
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        self.clock_skew_s: float | None = None

    def fetch_token(self) -> None:
        """Fetch a session token; raises _Unavailable."""
        headers = {"X-aws-ec2-metadata-token-ttl-seconds": _LIFETIME_S}
        token = self._request("PUT", "api/token", headers)
        if not token:
            raise _Unavailable("it returned no token")
        self._token = token

    def get(self, path: str) -> str | None:
        """Fetch a path; `None` if it does not exist; raises _Unavailable."""
        return self._request("GET", path, {"X-aws-ec2-metadata-token": self._token})

    def document(self, path: str) -> Any:
        """Fetch a path as JSON; `None` if it does not exist or cannot be read."""
        try:
            text = self.get(path)
            return None if text is None else json.loads(text)
        except (_Unavailable, ValueError):
            return None

    def _request(self, method: str, path: str, headers: dict[str, str]) -> str | None:
        import urllib.error  # as above
        import urllib.request

        request = urllib.request.Request(  # noqa: S310 - a fixed address, or the one that the user set
            f"{self._endpoint}/latest/{path}", method=method, headers=headers
        )
        try:
            with self._opener.open(request, timeout=SECONDS) as answer:
                self._compare_clocks(answer.headers.get("Date"))
                return answer.read(_MAX_BYTES).decode(errors="replace")
        except urllib.error.HTTPError as error:
            if error.code == 404 and method == "GET":
                return None
            raise _Unavailable(f"it answered HTTP {error.code}") from error
        except (OSError, ValueError) as error:
            reason = getattr(error, "reason", error)
            message = (
                "it does not answer"
                if isinstance(reason, TimeoutError)
                else f"it cannot be reached ({reason})"
            )
            raise _Unavailable(message) from error

    def _compare_clocks(self, date: str | None) -> None:
        from email.utils import parsedate_to_datetime  # as above

        try:
            host = parsedate_to_datetime(date or "").timestamp()
        except ValueError:
            return
        self.clock_skew_s = self._clock() - host


def _endpoint(environment: Mapping[str, str]) -> str:
    if endpoint := environment.get("AWS_EC2_METADATA_SERVICE_ENDPOINT"):
        return endpoint
    return _IPV6 if environment.get("AWS_EC2_METADATA_SERVICE_ENDPOINT_MODE", "").lower() == "ipv6" else _IPV4
