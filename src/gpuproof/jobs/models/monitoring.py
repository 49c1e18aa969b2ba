"""What a job reports to others while it runs: sinks of its series and summary."""

from __future__ import annotations

from typing import Annotated, Any
from urllib.parse import urlsplit

from pydantic import AfterValidator

from gpuproof.agent.sinks.main import NAMES
from gpuproof.jobs.suggestions import did_you_mean

_WITH_TARGET = {"opentelemetry": "an http address", "prometheus": "a folder, an http address or a port"}


def check_sink(text: str) -> str:
    """Checks a sink, a name with or without a target."""
    name, separator, target = text.partition("=")
    if name not in NAMES:
        near = did_you_mean(name, NAMES) or f"; known are {', '.join(NAMES)}"
        raise ValueError(f"there is no sink '{name}'{near}")
    if separator and name not in _WITH_TARGET:
        raise ValueError(f"{name} has no target; write {name}, and configure it by its environment variables")
    if separator and not target:
        raise ValueError(f"the target of {name} is empty: write {_WITH_TARGET[name]}")
    if name == "prometheus" and not separator:
        raise ValueError(
            "prometheus needs a target, as in prometheus=/var/lib/node_exporter, =http://pushgateway:9091 or =:9400"
        )
    if "://" in target:
        parts = urlsplit(target)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"'{target}' is not an http or https address")
        if parts.username or parts.password or parts.query:
            raise ValueError(
                f"the address of {name} contains a user or a query, which logs would show: use an address without one"
            )
    elif name == "opentelemetry" and separator:
        raise ValueError(f"'{target}' is not an http or https address")
    return text


def check_sinks(sinks: tuple[Any, ...]) -> tuple[Any, ...]:
    """Checks that no sink is named twice."""
    names = [str(sink).partition("=")[0] for sink in sinks]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise ValueError(f"{twice} is named twice")
    return sinks


Sinks = Annotated[
    tuple[Annotated[str, AfterValidator(check_sink)], ...],
    AfterValidator(check_sinks),
]
