"""The instance metadata service, version 2.

Source: https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/instancedata-data-retrieval.html
"""

from __future__ import annotations

import http.client
import json
from typing import Any

_ADDRESS = "169.254.169.254"
_TIMEOUT_S = 2.0
_TOKEN_S = 21600
_HEADER = "X-aws-ec2-metadata-token"


class Metadata:
    """A client of the metadata service; a service that cannot be reached knows nothing."""

    def __init__(self, address: str = _ADDRESS) -> None:
        self._address = address
        self._token = ""

    def get(self, path: str) -> str | None:
        """The text at a path below `latest/`; None if there is none."""
        for _ in range(2):
            if not self._token:
                status, token = self._request("PUT", "api/token", {f"{_HEADER}-ttl-seconds": str(_TOKEN_S)})
                self._token = token if status == http.client.OK else ""
            status, text = self._request("GET", path, {_HEADER: self._token})
            if status != http.client.UNAUTHORIZED:
                return text if status == http.client.OK else None
            self._token = ""
        return None

    def get_object(self, path: str) -> dict[str, Any] | None:
        """The JSON object at a path; None if there is none."""
        text = self.get(path)
        try:
            found = json.loads(text) if text else None
        except ValueError:
            return None
        return found if isinstance(found, dict) else None

    def _request(self, method: str, path: str, headers: dict[str, str]) -> tuple[int, str]:
        connection = http.client.HTTPConnection(self._address, timeout=_TIMEOUT_S)
        try:
            connection.request(method, f"/latest/{path}", headers=headers)
            answer = connection.getresponse()
            return answer.status, answer.read().decode(errors="replace")
        except (OSError, http.client.HTTPException):
            return 0, ""
        finally:
            connection.close()
