"""Shows an endpoint or an instance in any state that AWS documents, as one that hangs in it: for tests of what ends it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpuproof_emulator.context import Context
from gpuproof_emulator.execution.instances.states import CODES, set_state
from gpuproof_emulator.protocol import AwsError
from gpuproof_emulator.service_model import service_model
from gpuproof_emulator.store import ENDPOINT

_REGION = "us-east-1"


def set_shown_state(context: Context, document: Mapping[str, Any]) -> None:
    """Set the state of an endpoint or an instance.

    Args:
        document: `endpoint` or `instance`, `state`, and `region`.

    Raises:
        ValueError: a member is missing or unknown, or AWS documents no such state.
        AwsError: there is no such endpoint or instance.
    """
    known = dict(document)
    state, region = str(known.pop("state", "")), str(known.pop("region", _REGION))
    match known:
        case {"endpoint": str(name), **others} if not others:
            shape: Any = service_model().shape_for("EndpointStatus")
            _check(state, shape.enum)
            endpoint = context.store.get(ENDPOINT, region, name)
            if endpoint is None:
                raise AwsError("NotFound", f"There is no endpoint {name} in {region}.", 404)
            with context.store.modify(endpoint):
                endpoint.document["EndpointStatus"] = state
        case {"instance": str(name), **others} if not others:
            _check(state, CODES)
            try:
                set_state(region, name, state)
            except KeyError:
                raise AwsError("NotFound", f"There is no instance {name} in {region}.", 404) from None
        case _:
            raise ValueError(f"expected endpoint or instance, and state; got {', '.join(document)}")


def _check(state: str, states: Any) -> None:
    if state not in states:
        raise ValueError(f"'{state}' is none of the states that AWS documents: {', '.join(states)}")
