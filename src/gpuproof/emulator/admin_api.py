"""The admin API of a running emulator, below `/_gpuproof/`. Every response is JSON.

| request | effect |
|---|---|
| `GET /_gpuproof/health` | reports that the emulator is ready |
| `GET /_gpuproof/faults` | returns the faults, and how often each was triggered |
| `POST /_gpuproof/faults` | adds a fault; the body has its members, such as `{"kind": "throttling", "count": 3}` |
| `DELETE /_gpuproof/faults` | removes all faults |
| `POST /_gpuproof/quotas` | sets quotas, by code (`{"L-B6D80D9C": 0}`) or name |
| `GET /_gpuproof/requests` | returns the requests so far, without the emulator's own |
| `DELETE /_gpuproof/requests` | clears that list |
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from gpuproof.emulator.faults.fault import Fault, Faults, InvalidFault
from gpuproof.emulator.protocol import AwsError, AwsRequest, AwsResponse, json_error, json_response
from gpuproof.emulator.quotas import Quotas

PREFIX = "/_gpuproof/"


def is_local_request(environ: Mapping[str, Any]) -> bool:
    """Whether a request may be served: a web page in the user's browser must not start containers.

    SDKs send no `Origin`. A page whose own host name resolves to loopback is recognized by its `Host` header.
    """
    host = urlsplit(f"//{environ.get('HTTP_HOST', '')}").hostname or ""
    origin = urlsplit(environ.get("HTTP_ORIGIN", "")).hostname
    return _is_local(host) and (origin is None or _is_local(origin)) and environ.get("HTTP_ORIGIN") != "null"


def _is_local(host: str) -> bool:
    return host in ("127.0.0.1", "::1", "localhost") or host.endswith(".localhost")


def handle(
    faults: Faults, quotas: Quotas, request: AwsRequest, requests: deque[dict[str, Any]]
) -> AwsResponse:
    """Handle one request to the admin API.

    Args:
        requests: the recorded requests.
    """
    action = f"{request.method} {request.path.removeprefix(PREFIX)}"
    try:
        match action:
            case "GET health":
                return json_response(request, {"ready": True})
            case "GET faults":
                pass
            case "POST faults":
                faults.add(Fault.from_members(request.document()))
            case "DELETE faults":
                faults.clear()
            case "POST quotas":
                quotas.set({name: float(value) for name, value in request.document().items()})
                return json_response(request, {})
            case "GET requests":
                return json_response(request, {"requests": list(requests)})
            case "DELETE requests":
                requests.clear()
                return json_response(request, {})
            case _:
                raise AwsError("NotFound", f"There is no {request.method} {request.path}.", 404)
        return json_response(request, {"faults": faults.documents()})
    except InvalidFault as error:
        return json_error(request, AwsError("BadFault", str(error)))
    except (TypeError, ValueError) as error:
        return json_error(request, AwsError("BadRequest", str(error)))
    except AwsError as error:
        return json_error(request, error)
