"""What can be asked of a running emulator itself, below `/_gpuproof/`. Every answer is JSON.

| request | what it does |
|---|---|
| `GET /_gpuproof/health` | tells that the emulator is ready |
| `GET /_gpuproof/faults` | the faults that are asked for, and how often each struck |
| `POST /_gpuproof/faults` | asks for one more; the body is a fault's members, such as `{"kind": "throttling", "count": 3}` |
| `DELETE /_gpuproof/faults` | asks for none any more |
| `POST /_gpuproof/quotas` | sets quotas: `{"L-B6D80D9C": 0}`, or by name |
| `GET /_gpuproof/requests` | the requests so far, the emulator's own left out |
| `DELETE /_gpuproof/requests` | forgets them |
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from gpuproof.emulator.emulator import Emulator
from gpuproof.emulator.faults.fault import BadFault, Fault
from gpuproof.emulator.protocol import Answer, AwsError, AwsRequest, json_answer, json_error

PREFIX = "/_gpuproof/"


def from_this_machine(environ: Mapping[str, Any]) -> bool:
    """Whether a request may be answered: a web page in the user's browser must not start containers here.

    No SDK sends `Origin`, and a page that has its own name point at loopback is known by the `Host` that it sends.
    """
    host = urlsplit(f"//{environ.get('HTTP_HOST', '')}").hostname or ""
    origin = urlsplit(environ.get("HTTP_ORIGIN", "")).hostname
    return _is_local(host) and (origin is None or _is_local(origin)) and environ.get("HTTP_ORIGIN") != "null"


def _is_local(host: str) -> bool:
    return host in ("127.0.0.1", "::1", "localhost") or host.endswith(".localhost")


def answer(emulator: Emulator, request: AwsRequest, requests: deque[dict[str, Any]]) -> Answer:
    """Carry one such request out."""
    asked = f"{request.method} {request.path.removeprefix(PREFIX)}"
    try:
        match asked:
            case "GET health":
                return json_answer(request, {"ready": True})
            case "GET faults":
                pass
            case "POST faults":
                emulator.faults.add(Fault.read(request.document()))
            case "DELETE faults":
                emulator.faults.clear()
            case "POST quotas":
                emulator.quotas.set({name: float(value) for name, value in request.document().items()})
                return json_answer(request, {})
            case "GET requests":
                return json_answer(request, {"requests": list(requests)})
            case "DELETE requests":
                requests.clear()
                return json_answer(request, {})
            case _:
                raise AwsError("NotFound", f"There is no {request.method} {request.path}.", 404)
        return json_answer(request, {"faults": emulator.faults.documents()})
    except BadFault as error:
        return json_error(request, AwsError("BadFault", str(error)))
    except (TypeError, ValueError) as error:
        return json_error(request, AwsError("BadRequest", str(error)))
    except AwsError as error:
        return json_error(request, error)
