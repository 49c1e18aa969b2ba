"""What the dashboard admits: over real sockets, as a browser, another site or another program would try it."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest

from support.dashboard_server import DashboardServer, dashboard, write_run
from support.report_runs import MINUTE, verdict

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("dashboard-access")]

_RUN = "/api/runs/local/train-1"
_PATHS = [
    "/",
    "/runs/local/train-1",
    "/compare",
    "/costs",
    "/plans",
    "/assets/report.js",
    "/api/runs",
    "/api/plans",
]
_PATHS += [f"{_RUN}/events", "/runs/local/train-1/report.html", "/nothing"]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("home")
    write_run(home, "train-1", verdict(1, MINUTE).to_json())
    (home / ".local" / "state" / "gpuproof" / "secret.html").write_text("SECRET")
    return home


@pytest.fixture(scope="module")
def server(home: Path) -> Generator[DashboardServer]:
    with dashboard(home=home) as server:
        yield server


@pytest.fixture(scope="module")
def stopping(home: Path) -> Generator[DashboardServer]:
    with dashboard("--allow-stop", home=home) as server:
        yield server


@pytest.mark.parametrize("path", _PATHS)
def test_nothing_is_shown_without_the_token(server: DashboardServer, path: str) -> None:
    answer = server.request(path, anonymous=True)
    assert answer.status == 403
    assert b"train-1" not in answer.body
    assert b"Open the address" in answer.body
    wrong = server.request(path, headers={"Cookie": f"gpuproof-dashboard-{server.port}=\u00e9{'0' * 63}"})
    assert wrong.status == 403


def test_the_token_becomes_a_cookie_and_leaves_the_address(server: DashboardServer) -> None:
    answer = server.request(f"/costs?by=day&token={server.token}&since=7d", anonymous=True)
    assert (answer.status, answer.headers["Location"]) == (303, "/costs?by=day&since=7d")
    cookie = answer.headers["Set-Cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert server.token not in cookie
    assert server.request("/", headers={"Cookie": cookie.partition(";")[0]}).status == 200


def test_the_redirect_stays_on_this_host(server: DashboardServer) -> None:
    answer = server.request(f"//evil.example/?token={server.token}", anonymous=True)
    assert answer.headers["Location"] == "/evil.example/"


@pytest.mark.parametrize(
    "query", ["token=", "token=wrong", "token={token}x", "token={token}&token={token}", "Token={token}"]
)
def test_other_tokens_are_refused(server: DashboardServer, query: str) -> None:
    answer = server.request(f"/?{query.format(token=server.token)}", anonymous=True)
    assert (answer.status, answer.headers["Set-Cookie"]) == (403, None)


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:{port}",
        "127.0.0.1.evil.example",
        "0.0.0.0:{port}",
        "localhost.evil:80",
        "localhost:x",
        "[::2]",
        "",
        "192.168.0.1:{port}",
        "127.0.0.1@evil.example",
    ],
)
def test_requests_to_another_host_are_refused_even_with_the_cookie(
    server: DashboardServer, host: str
) -> None:
    answer = server.request("/api/runs", headers={"Host": host.format(port=server.port)})
    assert answer.status in (400, 421)
    assert b"train-1" not in answer.body


@pytest.mark.parametrize(
    "host", ["localhost", "LOCALHOST:9", "127.0.0.1:9", "[::1]:9", "[::1]", "127.8.9.1:80"]
)
def test_loopback_names_with_the_port_of_a_tunnel_are_admitted(server: DashboardServer, host: str) -> None:
    assert server.request("/api/runs", headers={"Host": host}).status == 200


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/"),
        ("PUT", "/api/runs"),
        ("DELETE", _RUN + "/stop"),
        ("POST", _RUN + "/events"),
        ("GET", _RUN + "/stop"),
    ],
)
def test_other_methods_are_refused(server: DashboardServer, method: str, path: str) -> None:
    assert server.request(path, method).status == 405


@pytest.mark.parametrize(
    "run",
    [
        "..%2F..%2Fsecret",
        "%2e%2e",
        "..",
        ".",
        "%2Fetc%2Fpasswd",
        "train-1%00",
        ".train-1",
        "train",
        "rain-1",
        "x" * 300,
        "train-1%0d%0aSet-Cookie:x",
        "..\\..\\secret",
    ],
)
def test_only_the_exact_id_of_a_run_opens_it(server: DashboardServer, run: str) -> None:
    for path in (f"/runs/local/{run}/report.html", f"/api/runs/local/{run}/events"):
        answer = server.request(path)
        assert b"SECRET" not in answer.body
        assert b"root:" not in answer.body
        assert b"GPUs over time" not in answer.body
        assert answer.status == 404 or b"There is no" in answer.body or b"No run" in answer.body, run


@pytest.mark.parametrize(
    "path", ["/api/runs/nowhere/train-1/events", "/runs/../local/report.html", "/assets/..%2Froutes.py"]
)
def test_other_backends_and_files_are_unknown(server: DashboardServer, path: str) -> None:
    answer = server.request(path)
    assert answer.status == 404 or b"There is no such run" in answer.body


@pytest.mark.parametrize("path", ["/", "/api/runs", "/nothing", "/assets/report.js"])
@pytest.mark.parametrize("anonymous", [True, False])
def test_every_response_has_the_headers_of_protection(
    server: DashboardServer, path: str, anonymous: bool
) -> None:
    headers = server.request(path, anonymous=anonymous).headers
    policy = headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert (headers["Cache-Control"], headers["Referrer-Policy"]) == ("no-store", "no-referrer")
    assert (headers["X-Content-Type-Options"], headers["X-Frame-Options"]) == ("nosniff", "DENY")
    assert headers["Access-Control-Allow-Origin"] is None


def test_without_the_flag_no_run_can_be_stopped(server: DashboardServer, stopping: DashboardServer) -> None:
    headers = {"Origin": server.origin, "X-GPUproof-Form-Key": _form_key(stopping)}
    answer = server.request(f"{_RUN}/stop", "POST", headers)
    assert (answer.status, answer.json()["error"]) == (403, "The dashboard was started without --allow-stop.")
    assert b"data-form-key" not in server.request("/runs/local/train-1").body


@pytest.mark.parametrize(
    "origin", [None, "null", "http://evil.example", "https://127.0.0.1:{port}", "http://127.0.0.1:1"]
)
def test_another_site_cannot_stop_a_run(stopping: DashboardServer, origin: str | None) -> None:
    headers = {"X-GPUproof-Form-Key": _form_key(stopping)}
    if origin is not None:
        headers["Origin"] = origin.format(port=stopping.port)
    assert stopping.request(f"{_RUN}/stop", "POST", headers).status == 403


@pytest.mark.parametrize("key", ["", "0" * 64])
def test_stopping_requires_the_key_of_the_page(stopping: DashboardServer, key: str) -> None:
    headers = {"Origin": stopping.origin, "X-GPUproof-Form-Key": key}
    assert stopping.request(f"{_RUN}/stop", "POST", headers).status == 403
    assert stopping.request(f"{_RUN}/stop", "POST", {"Origin": stopping.origin}).status == 403


def test_a_page_of_the_dashboard_may_stop_runs(stopping: DashboardServer) -> None:
    headers = {"Origin": stopping.origin, "X-GPUproof-Form-Key": _form_key(stopping)}
    assert stopping.request(f"{_RUN}/stop", "POST", headers).status == 202
    unknown = stopping.request("/api/runs/local/train-2/stop", "POST", headers)
    assert unknown.status == 404
    assert stopping.request(f"{_RUN}/stop", "POST", headers, anonymous=True).status == 403


def _form_key(server: DashboardServer) -> str:
    return (
        server.request("/runs/local/train-1").body.decode().partition('data-form-key="')[2].partition('"')[0]
    )
