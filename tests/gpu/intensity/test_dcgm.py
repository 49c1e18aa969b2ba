"""DCGM's profiling fields: from a page of dcgm-exporter over HTTP, and from a program in the place of `dcgmi`."""

import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from gpuproof.gpu.intensity import Counters, dcgm
from gpuproof.gpu.intensity.dcgm import WHOLE_GPU, Dcgm, Exporter, open_dcgm, parse_metrics, parse_rows
from gpuproof.gpu.nvml import Nvml
from support.nvml_stub import NOT_SUPPORTED, Scenario

GPU = "GPU-00000000-0000-0000-0000-000000000000"
OTHER = "GPU-00000001-0000-0000-0000-000000000000"
HEADER = "#Entity   UUID#   GRACT  SMACT  SMOCC  TENSO  DRAMA  FP64A  FP32A  FP16A  PCITX  PCIRX  NVLTX  NVLRX\nID\n"
ROW = f"GPU 0     {GPU}   0.980  0.500  0.250  0.125  0.375  0.000  0.100  N/A    1000   500    N/A    N/A    \n"


def page(sm_active: float, uuid: str = GPU, more: str = "") -> str:
    labels = (
        f'gpu="0",UUID="{uuid}",pci_bus_id="00000000:00:1E.0",device="nvidia0",modelName="Tesla T4"{more}'
    )
    return (
        "# HELP DCGM_FI_PROF_SM_ACTIVE The ratio of cycles an SM has at least 1 warp assigned.\n"
        "# TYPE DCGM_FI_PROF_SM_ACTIVE gauge\n"
        f"DCGM_FI_PROF_SM_ACTIVE{{{labels}}} {sm_active:.6f}\n"
        f"DCGM_FI_PROF_GR_ENGINE_ACTIVE{{{labels}}} 0.980000\n"
        f"DCGM_FI_PROF_PIPE_FP64_ACTIVE{{{labels}}} 140737488355328\n"
        f"DCGM_FI_PROF_PCIE_TX_BYTES{{{labels}}} 1000\n"
        f"DCGM_FI_PROF_PCIE_RX_BYTES{{{labels}}} 500\n"
        f"DCGM_FI_DEV_GPU_UTIL{{{labels}}} 98\n"
    )


class Server(HTTPServer):
    """Serves `text` at /metrics, or fails with `status`."""

    text = ""
    status = 200


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        assert isinstance(self.server, Server)
        found = self.path == "/metrics"
        self.send_response(self.server.status if found else 404)
        self.end_headers()
        self.wfile.write(self.server.text.encode())

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        pass


@pytest.fixture(autouse=True)
def nothing_listens(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No DCGM of this machine is found; a port that was free is the exporter's and the daemon's."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = ("127.0.0.1", free.getsockname()[1])
    monkeypatch.setattr(dcgm, "EXPORTER", address)
    monkeypatch.setattr(dcgm, "DAEMON", address)
    monkeypatch.setattr(dcgm, "DAEMON_SOCKET", str(tmp_path / "no"))
    monkeypatch.setenv("PATH", str(tmp_path))


@pytest.fixture
def exporter(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    with Server(("127.0.0.1", 0), _Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setattr(dcgm, "EXPORTER", server.server_address)
        yield server
        server.shutdown()


@pytest.fixture
def daemon(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A port that accepts connections, as nv-hostengine's does."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        monkeypatch.setattr(dcgm, "DAEMON", listening.getsockname())
        yield


def install(folder: Path, body: str) -> Callable[[], str]:
    """A `dcgmi` in `folder` that notes its arguments; returns what reads them."""
    program, noted = folder / "dcgmi", folder / "arguments"
    program.write_text(f'#!/bin/sh\necho "$*" > {noted}\n{body}\n')
    program.chmod(0o755)
    return noted.read_text


def until(opened: Dcgm, wanted: Callable[[Counters | None], bool]) -> Counters | None:
    """The counters once they are as wanted: a reader delivers when it can."""
    deadline = time.monotonic() + 300
    while time.monotonic() < deadline:
        opened.refresh()
        counters = opened.counters(GPU, (WHOLE_GPU,))
        if wanted(counters):
            return counters
    raise AssertionError("the reader delivered nothing")


def ended(opened: Dcgm) -> bool:
    """Whether the reader has ended, which takes it a moment."""
    deadline = time.monotonic() + 300
    while opened.active and time.monotonic() < deadline:
        opened.refresh()
    return not opened.active


def test_without_dcgm_there_are_no_counters() -> None:
    assert open_dcgm() is None


def test_an_exporter_that_measures_multiprocessors_is_read(exporter: Server) -> None:
    exporter.text = page(0.1)
    opened = open_dcgm()
    assert opened is not None
    exporter.text = page(0.5)
    opened.refresh()
    assert opened.counters(GPU, (WHOLE_GPU,)) == Counters(
        "dcgm", busy=0.98, sm_active=0.5, pcie_bytes_per_s=1500
    )
    assert opened.counters(OTHER, (WHOLE_GPU,)) is None


def test_an_exporter_may_have_integer_instructions_too(exporter: Server) -> None:
    exporter.text = page(0.1)
    opened = open_dcgm()
    assert opened is not None
    exporter.text = page(0.5) + page(0.2).replace("SM_ACTIVE", "PIPE_INT_ACTIVE")
    opened.refresh()
    counters = opened.counters(GPU, (WHOLE_GPU,))
    assert counters is not None
    assert (counters.integer_active, counters.sm_active) == (0.2, 0.5)


def test_values_that_an_exporter_repeats_count_once(exporter: Server) -> None:
    """It measures every 30 s; its first page says what was before the job."""
    exporter.text = page(0.1)
    opened = Dcgm(Exporter(dcgm.EXPORTER))
    seen: list[bool] = []
    for sm_active in (0.1, 0.1, 0.5, 0.5, 0.6):
        exporter.text = page(sm_active)
        opened.refresh()
        seen.append(opened.counters(GPU, (WHOLE_GPU,)) is not None)
    assert seen == [False, False, True, False, True]


def test_an_exporter_that_goes_away_is_given_up(exporter: Server) -> None:
    exporter.text = page(0.1)
    opened = open_dcgm()
    assert opened is not None
    exporter.status = 503
    for _ in range(3):
        opened.refresh()
    exporter.status, exporter.text = 200, page(0.7)
    opened.refresh()
    assert opened.counters(GPU, (WHOLE_GPU,)) is None


def test_a_moment_without_an_answer_is_no_end(exporter: Server) -> None:
    exporter.text = page(0.1)
    opened = open_dcgm()
    assert opened is not None
    exporter.status = 503
    opened.refresh()
    exporter.status, exporter.text = 200, page(0.7)
    opened.refresh()
    assert opened.counters(GPU, (WHOLE_GPU,)) is not None


@pytest.mark.parametrize("limit", ["_MOST_BYTES", "_PAGE_S"])
def test_a_page_that_does_not_end_is_given_up(
    exporter: Server, monkeypatch: pytest.MonkeyPatch, limit: str
) -> None:
    exporter.text = page(0.1)
    assert open_dcgm() is not None
    monkeypatch.setattr(dcgm, limit, -1)
    assert open_dcgm() is None


def test_a_server_of_another_kind_is_no_exporter(exporter: Server) -> None:
    exporter.text = "<html>DCGM_FI_PROF_SM_ACTIVE</html>"
    assert open_dcgm() is None


def test_a_mig_instance_has_its_own_values() -> None:
    text = page(0.1) + page(0.5, more=',GPU_I_PROFILE="3g.20gb",GPU_I_ID="2",Hostname="a"')
    found = parse_metrics(text)
    assert (found[GPU, WHOLE_GPU][1002], found[GPU, 2][1002]) == (0.1, 0.5)


def test_labels_with_quotes_and_braces_are_read() -> None:
    assert (GPU, WHOLE_GPU) in parse_metrics(page(0.1, more=',pod="a\\"}b",container="{c}"'))


def test_the_daemon_is_read_through_dcgmi(tmp_path: Path, daemon: None) -> None:
    (tmp_path / "out").write_text(HEADER + ROW)
    arguments = install(
        tmp_path, f'while read line; do echo "$line"; done < {tmp_path}/out\nread forever < {tmp_path}/fifo'
    )
    os.mkfifo(tmp_path / "fifo")
    opened = open_dcgm()
    assert opened is not None
    assert until(opened, lambda counters: counters is not None) == Counters(
        "dcgm",
        busy=0.98,
        sm_active=0.5,
        sm_occupancy=0.25,
        tensor_active=0.125,
        dram_active=0.375,
        fp64_active=0,
        fp32_active=0.1,
        pcie_bytes_per_s=1500,
    )
    assert arguments() == f"dmon -d 1000 -e 54,{','.join(str(1000 + n) for n in range(1, 13))}\n"
    opened.refresh()
    assert opened.counters(GPU, (WHOLE_GPU,)) is None
    opened.close()


def test_a_daemon_on_a_unix_socket_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    arguments = install(tmp_path, "")
    path = str(tmp_path / "engine")
    monkeypatch.setattr(dcgm, "DAEMON_SOCKET", path)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(path)
        listening.listen()
        opened = open_dcgm()
    assert opened is not None
    assert ended(opened)
    assert arguments().startswith(f"dmon --host unix://{path} -d 1000 ")


def test_dcgmi_without_a_daemon_is_not_started(tmp_path: Path) -> None:
    install(tmp_path, "")
    assert open_dcgm() is None
    assert not (tmp_path / "arguments").exists()


def test_a_dcgmi_that_ends_leaves_no_counters(tmp_path: Path, daemon: None) -> None:
    """As where the GPU has no profiling fields."""
    install(tmp_path, "echo 'Error setting watches. Result: -33: not supported'; exit 223")
    opened = open_dcgm()
    assert opened is not None
    assert ended(opened)
    assert opened.counters(GPU, (WHOLE_GPU,)) is None


def test_an_exporter_without_multiprocessors_is_used_where_no_daemon_has_them(exporter: Server) -> None:
    exporter.text = page(0.1).replace("SM_ACTIVE", "PIPE_TENSOR_ACTIVE")
    opened = open_dcgm()
    assert opened is not None
    exporter.text = page(0.3).replace("SM_ACTIVE", "PIPE_TENSOR_ACTIVE")
    opened.refresh()
    counters = opened.counters(GPU, (WHOLE_GPU,))
    assert counters is not None
    assert (counters.tensor_active, counters.sm_active) == (0.3, None)


def test_a_daemon_is_preferred_to_an_exporter_without_multiprocessors(
    exporter: Server, daemon: None, tmp_path: Path
) -> None:
    exporter.text = page(0.1).replace("SM_ACTIVE", "PIPE_TENSOR_ACTIVE")
    install(tmp_path, f"echo '{ROW}'; read forever < {tmp_path}/fifo")
    os.mkfifo(tmp_path / "fifo")
    opened = open_dcgm()
    assert opened is not None
    counters = until(opened, lambda counters: counters is not None)
    assert counters is not None
    assert counters.sm_active == 0.5
    opened.close()


@pytest.mark.parametrize(
    "line",
    [
        "",
        "#Entity UUID#",
        "ID",
        "GPU 0 too few",
        ROW.replace("GPU 0", "GPU-I 0"),
        ROW + " 1",
        "dmon was stopped",
    ],
)
def test_what_is_no_row_of_a_gpu_is_skipped(line: str) -> None:
    assert parse_rows([line.replace("\n", " ")]) == {}


def test_a_value_that_is_cut_off_is_unknown() -> None:
    ((_, fields),) = parse_rows([ROW.replace("1000", "12345...")]).items()
    assert 1009 not in fields
    assert fields[1010] == 500


def test_a_t4_has_dcgms_counters_and_an_h100_nvmls(exporter: Server, scenario: Scenario) -> None:
    exporter.text = page(0.1) + page(0.1, OTHER)
    scenario.gpu(0, "Tesla T4").gpu(1, "NVIDIA H100 80GB HBM3").health(1, gpm=1)
    scenario.at(0, 1, util=98, counters={"gr": 98, "sm": 70}).now(0)
    opened = open_dcgm()
    assert opened is not None
    with Nvml.open() as nvml:
        for second in (0, 1):
            scenario.now(second)
            exporter.text = page(0.5 + second / 10) + page(0.5 + second / 10, OTHER)
            opened.refresh()
            t4, h100 = (nvml.with_counters(nvml.read(index), frozenset(), opened) for index in (0, 1))
    assert t4.counters is not None
    assert (t4.counters.source, t4.counters.sm_active) == ("dcgm", 0.6)
    assert h100.counters is not None
    assert (h100.counters.source, h100.counters.sm_active) == ("gpm", pytest.approx(0.7))


def test_a_mig_instance_of_an_a100_has_dcgms_counters_and_utilization(
    exporter: Server, scenario: Scenario
) -> None:
    exporter.text = page(0.1, more=',GPU_I_ID="2"')
    scenario.gpu(0, "NVIDIA A100-SXM4-40GB", mig=True).health(0, mig_instances=1, instance0=2)
    scenario.fail("nvmlDeviceGetUtilizationRates", NOT_SUPPORTED).now(0)
    opened = open_dcgm()
    assert opened is not None
    exporter.text = page(0.5) + page(0.3, more=',GPU_I_ID="2"')
    opened.refresh()
    with Nvml.open() as nvml:
        reading = nvml.with_counters(nvml.read(0), frozenset(), opened)
    assert reading.counters is not None
    assert (reading.counters.sm_active, reading.utilization) == (0.3, 98)
