"""The admin API of a running emulator, below `/_gpuproof/`. Every response is JSON.

Every request except `health` needs the header `Authorization: Bearer TOKEN` with the emulator's token.

| request | effect |
|---|---|
| `GET /_gpuproof/health` | reports that the emulator is ready |
| `GET /_gpuproof/faults` | returns the faults, and how often each was triggered |
| `POST /_gpuproof/faults` | adds a fault; the body has its members, such as `{"kind": "throttling", "count": 3}` |
| `DELETE /_gpuproof/faults` | removes all faults |
| `POST /_gpuproof/quotas` | sets quotas, by code (`{"L-B6D80D9C": 0}`) or name |
| `POST /_gpuproof/spot-interruption` | announces that a spot instance is reclaimed (`{"instance": "i-…", "seconds": 120}`), and \
terminates it then; with `--boot-instances` |
| `POST /_gpuproof/spot-rebalance` | announces that a spot instance is at elevated risk of interruption (`{"instance": "i-…"}`), which ends \
nothing; with `--boot-instances` |
| `POST /_gpuproof/states` | sets the state that an endpoint or an EC2 instance is shown in (`{"endpoint": "chat", "state": "SystemUpdating"}`, \
`{"instance": "i-…", "state": "pending"}`; `region`: default us-east-1), as one that hangs; what runs goes on |
| `POST /_gpuproof/scheduler/run-due` | runs the schedules of EventBridge Scheduler that are due at a time (`{"time": 1800000000}`, \
seconds since the epoch; default: now), as if that time had come; returns what ran |
| `GET /_gpuproof/requests` | returns the requests so far, without the emulator's own |
| `DELETE /_gpuproof/requests` | clears that list |
| `GET /_gpuproof/permissions` | returns each action and resource that IAM's policies were evaluated for, with the decision; with `--enforce-iam` |
| `POST /_gpuproof/reset` | ends all jobs and endpoints and clears all state, as a fresh start does |
"""

from __future__ import annotations

import hmac
import time
from collections import deque
from collections.abc import Mapping
from typing import Any

from gpuproof_emulator.emulator import Emulator
from gpuproof_emulator.faults.fault import Fault, InvalidFault
from gpuproof_emulator.forced_states import set_shown_state
from gpuproof_emulator.protocol import AwsError, AwsRequest, AwsResponse, json_error, json_response

PREFIX = "/_gpuproof/"

_RECORDED = "The emulator was started without --boot-instances."
_NOTICE_S = 120.0  # between EC2's notice and the end of a spot instance


def is_authorized(environ: Mapping[str, Any], token: str) -> bool:
    """Whether a request to the admin API has the emulator's token, or needs none."""
    if environ.get("PATH_INFO") == f"{PREFIX}health":
        return True
    given = environ.get("HTTP_AUTHORIZATION", "").removeprefix("Bearer ")
    return hmac.compare_digest(given.encode(), token.encode())


def handle(emulator: Emulator, request: AwsRequest, requests: deque[dict[str, Any]]) -> AwsResponse:
    """Handle one request to the admin API.

    Args:
        requests: the recorded requests.
    """
    faults, quotas = emulator.context.faults, emulator.context.quotas
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
            case "POST spot-interruption":
                _interrupt_spot(emulator, request.document())
                return json_response(request, {})
            case "POST spot-rebalance":
                _recommend_rebalance(emulator, request.document())
                return json_response(request, {})
            case "POST states":
                set_shown_state(emulator.context, request.document())
                return json_response(request, {})
            case "POST scheduler/run-due":
                moment = float(request.document().get("time", time.time()))
                return json_response(request, {"runs": emulator.schedules.run_due(moment)})
            case "GET requests":
                return json_response(request, {"requests": list(requests)})
            case "GET permissions":
                return json_response(request, {"decisions": list(emulator.context.authorizer.decisions)})
            case "DELETE requests":
                requests.clear()
                return json_response(request, {})
            case "POST reset":
                emulator.reset()
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


def _recommend_rebalance(emulator: Emulator, document: Mapping[str, Any]) -> None:
    if emulator.instances is None:
        raise AwsError("UnsupportedOperation", _RECORDED)
    if set(document) != {"instance"}:
        raise ValueError(f"expected instance; got {', '.join(document)}")
    emulator.instances.recommend_rebalance(str(document["instance"]))


def _interrupt_spot(emulator: Emulator, document: Mapping[str, Any]) -> None:
    if emulator.instances is None:
        raise AwsError("UnsupportedOperation", _RECORDED)
    unknown = sorted(set(document) - {"instance", "seconds"})
    if unknown or "instance" not in document:
        raise ValueError(f"unknown member '{unknown[0]}'" if unknown else "instance is missing")
    emulator.instances.interrupt_spot(str(document["instance"]), float(document.get("seconds", _NOTICE_S)))
