"""EC2's instance metadata service, version 2: a token first, then questions, and never a long wait.

Source: https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/instancedata-data-retrieval.html
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

SECONDS = 1.0
"""For each request. The service is on the host: what does not answer in this time will not."""
_IPV4 = "http://169.254.169.254"
_IPV6 = "http://[fd00:ec2::254]"
_LASTS_S = "60"
_MOST = 1 << 16


@dataclass(frozen=True)
class Metadata:
    """What the service said; `None` for what it did not.

    Args:
        problem: why it said nothing, in words.
        role: whether the instance has a role, whose credentials AWS's SDKs find by themselves.
        spot_action: `terminate`, `stop` or `hibernate`, where a spot instance is about to go.
        spot_time: when, as ISO 8601.
        rebalance: when EC2 said that the spot instance is at risk, as ISO 8601.
        events: planned maintenance, such as `system-reboot from 21 Jan 2027 …`.
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


def ask(environment: Mapping[str, str], clock: Callable[[], float] = time.time) -> Metadata | None:
    """Asks the service, for a second or so at most where it is silent.

    Args:
        environment: `AWS_EC2_METADATA_DISABLED`, `AWS_EC2_METADATA_SERVICE_ENDPOINT` and `…_MODE` are honoured.
        clock: seconds since the epoch.

    Returns:
        `None` where the user has turned the service off.
    """
    if environment.get("AWS_EC2_METADATA_DISABLED", "").lower() == "true":
        return None
    service = _Service(_endpoint(environment), clock)
    try:
        service.begin()
        identity = json.loads(service.get("dynamic/instance-identity/document") or "{}")
    except _Silent as problem:
        return Metadata(problem=str(problem))
    except ValueError:
        return Metadata(problem="what answers is not EC2's metadata service")
    if not isinstance(identity, dict):
        return Metadata(problem="what answers is not EC2's metadata service")
    return _more(service, identity)


def _more(service: _Service, identity: dict[str, Any]) -> Metadata:
    spot = service.document("meta-data/spot/instance-action")
    rebalance = service.document("meta-data/events/recommendations/rebalance")
    events = service.document("meta-data/events/maintenance/scheduled")
    return Metadata(
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


class _Silent(Exception):
    """The service does not answer, or refuses."""


class _Service:
    def __init__(self, endpoint: str, clock: Callable[[], float]) -> None:
        self._endpoint = endpoint.rstrip("/")
        self._clock = clock
        self._token = ""
        import urllib.request  # 15 ms: on EC2 alone

        # A proxy that the user has set must never see these requests.
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        self.clock_skew_s: float | None = None

    def begin(self) -> None:
        """Gets a token; raises _Silent."""
        headers = {"X-aws-ec2-metadata-token-ttl-seconds": _LASTS_S}
        token = self._ask("PUT", "api/token", headers)
        if not token:
            raise _Silent("it gives no token")
        self._token = token

    def get(self, path: str) -> str | None:
        """What is under a path; `None` where there is nothing; raises _Silent."""
        return self._ask("GET", path, {"X-aws-ec2-metadata-token": self._token})

    def document(self, path: str) -> Any:
        """What is under a path, as JSON; `None` where there is nothing."""
        try:
            text = self.get(path)
            return None if text is None else json.loads(text)
        except (_Silent, ValueError):
            return None

    def _ask(self, method: str, path: str, headers: dict[str, str]) -> str | None:
        import urllib.error  # as above
        import urllib.request

        request = urllib.request.Request(  # noqa: S310 - a fixed address, or the one that the user set
            f"{self._endpoint}/latest/{path}", method=method, headers=headers
        )
        try:
            with self._opener.open(request, timeout=SECONDS) as answer:
                self._compare_clocks(answer.headers.get("Date"))
                return answer.read(_MOST).decode(errors="replace")
        except urllib.error.HTTPError as error:
            if error.code == 404 and method == "GET":
                return None
            raise _Silent(f"it answers HTTP {error.code}") from error
        except (OSError, ValueError) as error:
            reason = getattr(error, "reason", error)
            words = (
                "it does not answer"
                if isinstance(reason, TimeoutError)
                else f"it cannot be reached ({reason})"
            )
            raise _Silent(words) from error

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
