"""Observability: consistent metrics, an access log of JSON lines, an accurate OpenAPI description."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from support.cli_sandbox import until
from support.model_server import ECHO, Server, model_folder
from support.raw_connections import raw, served

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("serve-seen")]

HANDLER = ECHO.replace("    return data", "    data == 13 and data / 0\n    return data")
PHASES = ("queue", "decode", "batch", "predict", "encode")
_SAMPLE = re.compile(r"([a-z_:][a-z0-9_:]*)(?:\{([^{}]*)\})? (-?[0-9.e+-]+|NaN|[+-]Inf)$", re.IGNORECASE)
_LABEL = re.compile(r'([a-z_][a-z0-9_]*)="((?:[^"\\\n]|\\["\\n])*)"(?:,|$)')

Samples = dict[str, dict[tuple[tuple[str, str], ...], float]]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with served(tmp_path_factory.mktemp("seen"), HANDLER) as server:
        yield server


def metrics(server: Server) -> Samples:
    """The metrics, read as strictly as Prometheus reads them."""
    text = server.ask("GET", "/metrics").body.decode()
    assert text.endswith("\n")
    samples: Samples = {}
    types: dict[str, str] = {}
    for line in text.splitlines():
        if line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            assert name not in types, f"{name} is declared twice"
            assert kind in ("counter", "gauge", "histogram")
            types[name] = kind
            continue
        if line.startswith("# HELP "):
            continue
        match = _SAMPLE.match(line)
        assert match, line
        name, labels = match.group(1), match.group(2) or ""
        assert _LABEL.sub("", labels) == "", line
        family = re.sub(r"_(bucket|sum|count)$", "", name)
        assert name in types or types.get(family) == "histogram", f"{name} has no TYPE"
        key = tuple(_LABEL.findall(labels))
        assert key not in samples.setdefault(name, {}), f"{line} is there twice"
        samples[name][key] = float(match.group(3))
    return samples


def count(samples: Samples, **labels: str) -> float:
    """How many requests with these labels were counted."""
    wanted = set(labels.items())
    return sum(n for key, n in samples.get("gpuproof_requests_total", {}).items() if wanted <= set(key))


# Metrics


def test_metrics_are_prometheus_text(server: Server) -> None:
    answer = server.ask("GET", "/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    assert metrics(server)["gpuproof_healthy"] == {(): 1}


def test_requests_are_counted_by_their_status(server: Server) -> None:
    before = metrics(server)
    for body in (1, 2, 13):
        server.predict(body)
    server.ask("POST", "/invocations", b"{", {"Content-Type": "application/json"})
    after = metrics(server)
    for status, expected in (("200", 2), ("500", 1), ("400", 1)):
        wanted = {"path": "/invocations", "status": status}
        assert count(after, **wanted) - count(before, **wanted) == expected


def test_requests_that_are_refused_before_they_reach_a_model_are_counted_too(server: Server) -> None:
    before = metrics(server)
    raw(server, b"POST /invocations HTTP/1.1\r\nHost: x\r\nContent-Length: 10737418240\r\n\r\n")
    raw(server, b"nonsense\r\n\r\n")
    server.ask("GET", "/nothing")
    after = metrics(server)
    for status in ("413", "400", "404"):
        assert count(after, status=status) - count(before, status=status) == 1, status


def test_unknown_paths_make_no_new_series(server: Server) -> None:
    for number in range(20):
        server.ask("GET", f"/nothing/{number}")
    assert not [key for key in metrics(server)["gpuproof_requests_total"] if "/nothing" in str(key)]


def test_after_many_requests_at_once_every_histogram_has_counted_each_of_them(server: Server) -> None:
    before = metrics(server)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(server.predict, [1] * 200))
    after = metrics(server)
    assert (
        count(after, status="200", path="/invocations") - count(before, status="200", path="/invocations")
        == 200
    )
    for phase in PHASES:
        key = (("phase", phase),)
        counts = [samples["gpuproof_phase_seconds_count"].get(key, 0) for samples in (before, after)]
        assert counts[1] - counts[0] == 200, phase


def test_histograms_are_cumulative_and_end_with_their_count(server: Server) -> None:
    server.predict(1)
    samples = metrics(server)
    for name in ("gpuproof_invocation_seconds", "gpuproof_phase_seconds", "gpuproof_batch_size"):
        series: dict[tuple[tuple[str, str], ...], list[tuple[float, float]]] = {}
        for key, value in samples[f"{name}_bucket"].items():
            bound = float(dict(key)["le"].replace("+Inf", "inf"))
            series.setdefault(tuple(pair for pair in key if pair[0] != "le"), []).append((bound, value))
        for labels, buckets in series.items():
            values = [value for _, value in sorted(buckets)]
            assert values == sorted(values)
            assert values[-1] == samples[f"{name}_count"][labels]


def test_the_phases_of_a_request_do_not_exceed_the_whole(server: Server) -> None:
    before = metrics(server)
    for _ in range(20):
        server.predict(1)
    after = metrics(server)

    def grown(name: str, key: tuple[tuple[str, str], ...] = ()) -> float:
        return after[name][key] - before.get(name, {}).get(key, 0)

    phases = sum(grown("gpuproof_phase_seconds_sum", (("phase", phase),)) for phase in PHASES)
    assert 0 < phases <= grown("gpuproof_invocation_seconds_sum")


def test_queue_and_predictors_are_gauges(server: Server) -> None:
    samples, model = metrics(server), (("model", "model"),)
    assert samples["gpuproof_queue_depth"] == {model: 0}
    assert samples["gpuproof_in_flight"] == {model: 0}
    assert samples["gpuproof_predictors"] == samples["gpuproof_predictors_wanted"] == {model: 1}


# Access log


def lines(server: Server, inference_id: str) -> list[dict[str, Any]]:
    """The access log lines of the requests with this id."""
    found = [json.loads(line) for line in server.access_log.read_text().splitlines()]
    return [line for line in found if line.get("inference_id") == inference_id]


def logged(server: Server, inference_id: str) -> dict[str, Any]:
    return until(lambda: lines(server, inference_id), "the line in the access log")[0]


def test_every_line_of_the_access_log_is_json_with_a_time(server: Server) -> None:
    server.predict(1, X_Amzn_SageMaker_Inference_Id="each")
    logged(server, "each")
    for line in server.access_log.read_text().splitlines():
        assert datetime.fromisoformat(json.loads(line)["time"]).tzinfo is not None


def test_an_access_log_line_shows_where_the_time_went(server: Server) -> None:
    server.predict("four", X_Amzn_SageMaker_Inference_Id="timed")
    line = logged(server, "timed")
    document = (line["method"], line["path"], line["status"], line["bytes_in"], line["bytes_out"])
    assert document == ("POST", "/invocations", 200, 6, 6)
    assert 0 < sum(line[f"{phase}_ms"] for phase in PHASES) <= line["ms"]
    assert line["batch_size"] == 1


def test_a_failure_is_in_the_log_with_its_status(server: Server) -> None:
    server.predict(13, X_Amzn_SageMaker_Inference_Id="failed")
    assert logged(server, "failed")["status"] == 500


def test_a_client_cannot_write_lines_of_its_own_into_the_log(server: Server) -> None:
    odd = '"}\t{"status": 200, "x": "\u00fc\u2028'.encode().decode("latin-1")
    headers = b"Content-Type: application/json\r\nX-Amzn-SageMaker-Inference-Id: " + odd.encode("latin-1")
    raw(server, b"POST /invocations HTTP/1.1\r\nHost: x\r\n" + headers + b"\r\nContent-Length: 1\r\n\r\n1")
    assert logged(server, odd)["status"] == 200


def test_the_access_log_can_be_disabled(tmp_path: Path) -> None:
    with served(tmp_path, ECHO, "--no-access-log") as server:
        server.predict(1)
    assert server.access_log.read_text() == ""


def test_the_last_requests_before_the_end_are_in_the_log(tmp_path: Path) -> None:
    with served(tmp_path) as server:
        for _ in range(5):
            server.predict(1)
    assert len([line for line in server.access_log.read_text().splitlines() if "/invocations" in line]) == 5


# Description


def test_the_description_names_every_route(server: Server) -> None:
    document = server.ask("GET", "/openapi.json").json
    assert document["openapi"].startswith("3.")
    assert set(document["paths"]) == {
        "/ping",
        "/invocations",
        "/metrics",
        "/execution-parameters",
        "/openapi.json",
    }


@pytest.mark.parametrize("multi_model", [False, True])
def test_the_description_matches_every_response(tmp_path: Path, multi_model: bool) -> None:
    """Schemathesis: no answer that is not described, no 500 of the server's own, whatever the request."""
    import schemathesis
    from hypothesis import HealthCheck, Phase, assume, given, settings

    handler = ECHO.replace("return json.loads(body)", "return len(body)")
    folder = model_folder(tmp_path / "model", handler)
    roots = {"GPUPROOF_SERVE_MODELS_ROOTS": str(tmp_path)}
    environment = {"SAGEMAKER_MULTI_MODEL": "true", **roots} if multi_model else {}
    with served(tmp_path, None if multi_model else folder, **environment) as server:
        if multi_model:
            document = json.dumps({"model_name": "name", "url": str(folder)})
            assert server.ask("POST", "/models", document).status == 200
        url = f"http://127.0.0.1:{server.port}"
        schema = schemathesis.openapi.from_url(f"{url}/openapi.json")
        for operation in schema.get_all_operations():
            examples = settings(
                max_examples=40,
                deadline=None,
                database=None,
                derandomize=True,
                phases=[Phase.explicit, Phase.generate],
                suppress_health_check=list(HealthCheck),
            )

            @examples
            @given(case=operation.ok().as_strategy())
            def holds(case: Any) -> None:
                # A folder that is there and holds no model is 500 by contract.
                assume(not _names_a_folder(case.body))
                case.call_and_validate(base_url=url)

            holds()
        assert server.ping() == 200


def _names_a_folder(body: object) -> bool:
    url = body.get("url") if isinstance(body, dict) else None
    return isinstance(url, str) and "\0" not in url and Path(url).is_dir()
