"""Prometheus: a file for node_exporter's textfile collector, a Pushgateway, or an endpoint of its own. Needs no package.

Sources: https://github.com/prometheus/node_exporter#textfile-collector, https://github.com/prometheus/pushgateway#api
"""

from __future__ import annotations

import http.server
import threading
import urllib.error
import urllib.request
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

from gpuproof.agent.sinks.main import SinkFailed
from gpuproof.agent.sinks.metrics import METRICS, Point, Run
from gpuproof.util.atomic import write_bytes
from gpuproof.util.prometheus_text import CONTENT_TYPE, Labels, Line, family

_SUFFIXES = {
    "1": "_ratio",
    "By": "_bytes",
    "W": "_watts",
    "Cel": "_celsius",
    "s": "",
    "{example}/s": "_examples_per_second",
}
_TIMEOUT_S = 10.0


class Writer:
    """Publishes the newest point, and at the end the summary with it."""

    def __init__(self, run: Run) -> None:
        if run.target is None:
            raise SinkFailed("it needs a target: prometheus=FOLDER, =http://PUSHGATEWAY or =:PORT")
        self._labels: Labels = (("job_name", run.job_name), ("host", run.host), ("run", run.id))
        self._newest: Point | None = None
        self._publisher = publisher(run.target, run)
        self.location: str | None = self._publisher.location

    def write(self, point: Point) -> None:
        self._newest = point
        self._publisher.publish(self._text({}))

    def finish(self, summary: Mapping[str, float | str] | None, verdict: Mapping[str, Any] | None) -> None:
        del verdict
        self._publisher.publish(self._text(summary or {}))
        self._publisher.close()

    def _text(self, summary: Mapping[str, float | str]) -> bytes:
        lines = [*self._series(), *self._summary(summary)]
        return "".join(f"{line}\n" for line in lines).encode()

    def _series(self) -> Iterator[str]:
        values: dict[str, list[Line]] = defaultdict(list)
        for value in self._newest.values if self._newest is not None else ():
            about = METRICS[value.metric]
            name = f"gpuproof_{value.metric}{_SUFFIXES[about.unit]}"
            own = ((about.label, str(value.label)),) if about.label else ()
            values[value.metric].append((name, (*self._labels, *own), value.value))
        for metric, lines in values.items():
            yield from family(lines[0][0], "gauge", METRICS[metric].help, lines)

    def _summary(self, summary: Mapping[str, float | str]) -> Iterator[str]:
        numbers: list[Line] = [
            ("gpuproof_summary", (*self._labels, ("name", name)), value)
            for name, value in summary.items()
            if not isinstance(value, str)
        ]
        yield from family("gpuproof_summary", "gauge", "Numbers of the run's verdict.", numbers)
        if "outcome" in summary:
            labels = (*self._labels, ("outcome", str(summary["outcome"])), ("status", str(summary["status"])))
            lines: list[Line] = [("gpuproof_verdict", labels, 1)]
            yield from family("gpuproof_verdict", "gauge", "The run's verdict, as a label.", lines)


def publisher(target: str, run: Run) -> TextFile | Pushgateway | Endpoint:
    """What a target stands for: an address, a port with or without a host, or a folder or file.

    Raises:
        OSError: the port cannot be used.
    """
    if target.startswith(("http://", "https://")):
        return Pushgateway(target, run)
    host, _, port = target.rpartition(":")
    if port.isdecimal():
        return Endpoint(host, int(port))
    return TextFile(Path(target), run)


class TextFile:
    """A file that node_exporter reads; the next run of the job replaces it."""

    def __init__(self, target: Path, run: Run) -> None:
        suffix = "" if run.hosts == 1 else f"-{run.host}"
        self._path = target if target.suffix == ".prom" else target / f"gpuproof-{run.job_name}{suffix}.prom"
        self.location = str(self._path)

    def publish(self, text: bytes) -> None:
        write_bytes(self._path, text)

    def close(self) -> None:
        """The last values stay."""


class Pushgateway:
    """A Pushgateway, which keeps the last values until the next run of the job."""

    def __init__(self, url: str, run: Run) -> None:
        self._url = f"{url.rstrip('/')}/metrics/job/{quote(run.job_name, safe='')}/instance/{quote(run.host, safe='')}"
        self.location = None
        self._problem: str | None = None

    def publish(self, text: bytes) -> None:
        request = urllib.request.Request(  # noqa: S310 - http or https
            self._url, text, {"Content-Type": CONTENT_TYPE}, method="PUT"
        )
        self._problem = None
        try:
            with urllib.request.urlopen(request, timeout=_TIMEOUT_S) as response:  # noqa: S310
                response.read()
        except urllib.error.HTTPError as error:
            self._problem = f"the Pushgateway responded with status {error.code}"
        except OSError as error:
            self._problem = f"the Pushgateway could not be reached: {getattr(error, 'reason', None) or error}"

    def close(self) -> None:
        """A gateway that failed in between and took the last values has missed nothing that it would keep.

        Raises:
            SinkFailed: it did not take the last values.
        """
        if self._problem is not None:
            raise SinkFailed(self._problem)


class Endpoint:
    """`/metrics` on a port, while the run lasts."""

    def __init__(self, host: str, port: int) -> None:
        self._text = b""
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.send_response(200)
                self.send_header("Content-Type", CONTENT_TYPE)
                self.send_header("Content-Length", str(len(outer._text)))
                self.end_headers()
                self.wfile.write(outer._text)

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class's name
                """Nothing: scrapes are not worth a line."""

        self._server = http.server.ThreadingHTTPServer((host, port), Handler)
        self._server.daemon_threads = True
        self.location = f"http://{host or '0.0.0.0'}:{self._server.server_address[1]}/metrics"  # noqa: S104
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def publish(self, text: bytes) -> None:
        self._text = text

    def close(self) -> None:
        self._server.shutdown()
