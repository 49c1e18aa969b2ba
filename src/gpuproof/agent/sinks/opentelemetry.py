"""OpenTelemetry: metrics as OTLP/HTTP with JSON, to the endpoint of the usual variables. Needs no package.

Sources: https://opentelemetry.io/docs/specs/otlp/#otlphttp, https://opentelemetry.io/docs/specs/otel/protocol/exporter/; names of
metrics: https://opentelemetry.io/docs/specs/semconv/hardware/gpu/ and https://opentelemetry.io/docs/specs/semconv/hardware/common/
"""

from __future__ import annotations

import json
import os
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Iterable, Iterator, Mapping
from typing import Any
from urllib.parse import unquote

from gpuproof.agent.sinks.main import SinkFailed
from gpuproof.agent.sinks.metrics import METRICS, Point, Run, Value
from gpuproof.version import __version__

_NAMES = {
    "gpu_utilization": "hw.gpu.utilization",
    "gpu_memory_used": "hw.gpu.memory.usage",
    "gpu_power": "hw.power",
    "gpu_temperature": "hw.temperature",
}
"""The names of the semantic conventions; other metrics are in the namespace `gpuproof`."""
_SUM = ("gpu_memory_used",)
"""An UpDownCounter there; the others are gauges."""

_TIMEOUT_S = 10.0
_PAUSE_S = 30.0
"""After a failure, before points are sent again."""
_MOST_UNSENT = 2000


class Writer:
    """Sends points to a collector."""

    def __init__(self, run: Run) -> None:
        environ = os.environ
        if environ.get("OTEL_SDK_DISABLED", "").lower() == "true":
            raise SinkFailed("OTEL_SDK_DISABLED is true")
        base = run.target or environ.get("OTEL_EXPORTER_OTLP_ENDPOINT")
        url = None if run.target else environ.get("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT")
        if url is None and base:
            url = f"{base.rstrip('/')}/v1/metrics"
        if url is None or not url.startswith(("http://", "https://")):
            raise SinkFailed("OTEL_EXPORTER_OTLP_ENDPOINT does not name an http or https address")
        self._url = url
        self._headers = {"Content-Type": "application/json", **dict(_pairs("OTEL_EXPORTER_OTLP_HEADERS"))}
        self._headers.update(_pairs("OTEL_EXPORTER_OTLP_METRICS_HEADERS"))
        self._timeout = float(environ.get("OTEL_EXPORTER_OTLP_TIMEOUT") or 1000 * _TIMEOUT_S) / 1000
        certificate = environ.get("OTEL_EXPORTER_OTLP_CERTIFICATE")
        self._tls = ssl.create_default_context(cafile=certificate) if certificate else None
        self._resource = _attributes(_resource(run))
        self._unsent: list[dict[str, Any]] = []
        self._not_before = 0.0
        self.location: str | None = None

    def write(self, point: Point) -> None:
        self._unsent += [_metric(value, point.at) for value in point.values]
        del self._unsent[:-_MOST_UNSENT]
        if self._unsent and time.monotonic() >= self._not_before and self._send() is not None:
            self._not_before = time.monotonic() + _PAUSE_S

    def finish(self, summary: Mapping[str, float | str] | None, verdict: Mapping[str, Any] | None) -> None:
        del verdict
        now = time.time()
        for name, value in (summary or {}).items():
            if not isinstance(value, str):
                self._unsent.append(_gauge(f"gpuproof.summary.{name.replace('/', '.')}", "1", now, value, {}))
        outcome = (summary or {}).get("outcome")
        if outcome is not None:
            self._unsent.append(_gauge("gpuproof.verdict", "1", now, 1, {"gpuproof.outcome": outcome}))
        if self._unsent and (problem := self._send()) is not None:
            raise SinkFailed(problem)

    def _send(self) -> str | None:
        """Send what is unsent; returns why that failed, without the address, which may contain a password."""
        scope = {"scope": {"name": "gpuproof", "version": __version__}, "metrics": self._unsent}
        document = {
            "resourceMetrics": [{"resource": {"attributes": self._resource}, "scopeMetrics": [scope]}]
        }
        request = urllib.request.Request(  # noqa: S310 - http or https
            self._url, json.dumps(document).encode(), self._headers, method="POST"
        )
        try:
            with urllib.request.urlopen(request, timeout=self._timeout, context=self._tls) as response:  # noqa: S310
                response.read()
        except urllib.error.HTTPError as error:
            return f"the collector responded with status {error.code}"
        except OSError as error:
            return f"the collector could not be reached: {getattr(error, 'reason', None) or error}"
        self._unsent = []
        return None


def _pairs(variable: str) -> Iterator[tuple[str, str]]:
    """The pairs of a variable such as `api-key=secret,other=value`."""
    for entry in os.environ.get(variable, "").split(","):
        name, separator, value = entry.partition("=")
        if separator:
            yield name.strip(), unquote(value.strip())


def _resource(run: Run) -> dict[str, str]:
    own = {"service.name": run.job_name, "host.name": run.host, "gpuproof.run.id": run.id}
    if run.instance_type is not None:
        own["host.type"] = run.instance_type
    given = dict(_pairs("OTEL_RESOURCE_ATTRIBUTES"))
    if os.environ.get("OTEL_SERVICE_NAME"):
        given["service.name"] = os.environ["OTEL_SERVICE_NAME"]
    return {**own, **given}


def _metric(value: Value, at: float) -> dict[str, Any]:
    about = METRICS[value.metric]
    name = _NAMES.get(value.metric) or f"gpuproof.{value.metric.replace('_', '.', 1)}"
    attributes: dict[str, Any] = {}
    if about.label == "gpu":
        attributes = {"hw.id": str(value.label), "hw.type": "gpu"}
    elif about.label:
        attributes = {f"gpuproof.{about.label}": value.label}
    return _gauge(name, about.unit, at, value.value, attributes, about.help, is_sum=value.metric in _SUM)


def _gauge(
    name: str,
    unit: str,
    at: float,
    value: float,
    attributes: Mapping[str, Any],
    description: str = "",
    *,
    is_sum: bool = False,
) -> dict[str, Any]:
    points = [
        {
            "attributes": _attributes(attributes),
            "timeUnixNano": str(int(at * 1e9)),
            "asDouble": float(value),
        }
    ]
    data: dict[str, Any] = (
        {"sum": {"dataPoints": points, "aggregationTemporality": 2, "isMonotonic": False}}
        if is_sum
        else {"gauge": {"dataPoints": points}}
    )
    return {"name": name, "unit": unit, "description": description, **data}


def _attributes(values: Mapping[str, Any]) -> list[dict[str, Any]]:
    items: Iterable[tuple[str, Any]] = values.items()
    return [{"key": name, "value": {"stringValue": str(value)}} for name, value in items]
