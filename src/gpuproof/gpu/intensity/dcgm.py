"""Profiling fields of NVIDIA's Data Center GPU Manager (DCGM), where it runs already: nothing is installed or started but a reader.

They exist on data-centre GPUs since Volta; before Hopper, one client at a time has the GPU's profiling hardware, so values are missing
while Nsight or another profiler uses it. Source: https://docs.nvidia.com/datacenter/dcgm/latest/user-guide/feature-overview.html.
"""

from __future__ import annotations

import http.client
import math
import os
import re
import shutil
import socket
import subprocess
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Protocol

from gpuproof.gpu.intensity.measurements import DCGM, WHOLE_GPU, Counters, mean_counters

EXPORTER = ("127.0.0.1", 9400)
"""Where dcgm-exporter listens by default."""
DAEMON = ("127.0.0.1", 5555)
DAEMON_SOCKET = "/tmp/nv-hostengine"  # noqa: S108 - nv-hostengine's own default
"""Where nv-hostengine listens by default, and where with `--domain-socket`."""
_TIMEOUT_S = 0.5
_PAGE_S = 1.0
_MOST_BYTES = 8 * 1024 * 1024
_MOST_FAILURES = 3
_UUID_FIELD = 54
_PERIOD_MS = 1000

# Ids and names: dcgmlib/dcgm_fields.h in https://github.com/NVIDIA/DCGM.
_FIELDS = {
    1001: ("DCGM_FI_PROF_GR_ENGINE_ACTIVE", "busy"),
    1002: ("DCGM_FI_PROF_SM_ACTIVE", "sm_active"),
    1003: ("DCGM_FI_PROF_SM_OCCUPANCY", "sm_occupancy"),
    1004: ("DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", "tensor_active"),
    1005: ("DCGM_FI_PROF_DRAM_ACTIVE", "dram_active"),
    1006: ("DCGM_FI_PROF_PIPE_FP64_ACTIVE", "fp64_active"),
    1007: ("DCGM_FI_PROF_PIPE_FP32_ACTIVE", "fp32_active"),
    1008: ("DCGM_FI_PROF_PIPE_FP16_ACTIVE", "fp16_active"),
    1009: ("DCGM_FI_PROF_PCIE_TX_BYTES", "pcie_bytes_per_s"),
    1010: ("DCGM_FI_PROF_PCIE_RX_BYTES", "pcie_bytes_per_s"),
    1011: ("DCGM_FI_PROF_NVLINK_TX_BYTES", "nvlink_bytes_per_s"),
    1012: ("DCGM_FI_PROF_NVLINK_RX_BYTES", "nvlink_bytes_per_s"),
}
"""The fields that `dcgmi` is asked for: those of the first version that had any."""
_EXPORTED = {**_FIELDS, 1016: ("DCGM_FI_PROF_PIPE_INT_ACTIVE", "integer_active")}
_IDS = {name: number for number, (name, _) in _EXPORTED.items()}
_SM_ACTIVE = 1002
_BLANK = 2.0**47
"""DCGM's blank values are this and above (DCGM_FP64_BLANK in dcgmlib/dcgm_structs.h)."""

Entity = tuple[str, int]
"""The UUID of a GPU, and the id of a MIG instance or `WHOLE_GPU`."""
Fields = dict[int, float]


class Source(Protocol):
    """Where DCGM's fields are read."""

    def read(self) -> Mapping[Entity, Fields] | None:
        """Return the fields that were measured since the previous call; `None` if there will be no more."""
        ...

    def close(self) -> None: ...


class Dcgm:
    """Counters of each GPU from a DCGM source; `refresh()` once a sample, then `counters()` for each GPU. Never raises."""

    def __init__(self, source: Source) -> None:
        self._source: Source | None = source
        self._fresh: Mapping[Entity, Fields] = {}

    @property
    def active(self) -> bool:
        """Whether more can be read."""
        return self._source is not None

    def refresh(self) -> None:
        """Read what has been measured since the previous call."""
        if self._source is None:
            return
        fresh = self._source.read()
        if fresh is None:
            self.close()
        else:
            self._fresh = fresh

    def counters(self, uuid: str, targets: Sequence[int]) -> Counters | None:
        """Return the counters of a GPU, or the mean of its MIG instances; `None` where nothing new is known.

        Args:
            targets: ids of the MIG instances; `WHOLE_GPU` stands for the GPU.
        """
        found = [self._fresh.get((uuid, target)) for target in targets]
        return mean_counters([_counters(fields) for fields in found if fields])

    def close(self) -> None:
        """End the reader."""
        if self._source is not None:
            self._source.close()
        self._source, self._fresh = None, {}


def open_dcgm() -> Dcgm | None:
    """Find a DCGM on this machine: dcgm-exporter, which measures anyway, or `dcgmi` for a daemon that answers."""
    exporter = Exporter(EXPORTER)
    exported = exporter.page().values()
    if any(_SM_ACTIVE in fields for fields in exported):
        return Dcgm(exporter)
    if monitor := start_monitor():
        return Dcgm(monitor)
    return Dcgm(exporter) if exported else None


class Exporter:
    """Reads the metrics page of dcgm-exporter.

    It measures every 30 s by default and repeats its values in between: only those that have changed are new, and none on the first
    page, which says what was before.
    """

    def __init__(self, address: tuple[str, int]) -> None:
        self._address = address
        self._failures = 0
        self._last: dict[Entity, Fields] | None = None

    def read(self) -> Mapping[Entity, Fields] | None:
        last, page = self._last, self.page()
        if self._failures:
            return None if self._failures >= _MOST_FAILURES else {}
        if last is None:
            return {}
        return {entity: fields for entity, fields in page.items() if fields != last.get(entity)}

    def page(self) -> Mapping[Entity, Fields]:
        """All that the exporter shows; empty if it does not answer."""
        try:
            page = parse_metrics(self._fetch())
        except (OSError, http.client.HTTPException):
            self._failures += 1
            return {}
        self._failures, self._last = 0, page
        return page

    def close(self) -> None:
        """Do nothing: each request has its own connection."""

    def _fetch(self) -> str:
        # http.client does not go through the proxies of the environment.
        connection = http.client.HTTPConnection(*self._address, timeout=_TIMEOUT_S)
        try:
            connection.request("GET", "/metrics")
            response = connection.getresponse()
            if response.status != http.client.OK:
                raise http.client.HTTPException(f"status {response.status}")
            return _read(response, time.monotonic() + _PAGE_S).decode(errors="replace")
        finally:
            connection.close()


def _read(response: http.client.HTTPResponse, deadline: float) -> bytes:
    """Read a page; the timeout of the connection is for each of its parts."""
    parts: list[bytes] = []
    size = 0
    while part := response.read1(65536):
        size += len(part)
        if size > _MOST_BYTES or time.monotonic() > deadline:
            raise http.client.HTTPException("the page does not end")
        parts.append(part)
    return b"".join(parts)


_METRIC = re.compile(r"^(DCGM_FI_PROF_\w+)\{(.*)\}\s+(\S+)", re.MULTILINE)
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


def parse_metrics(text: str) -> dict[Entity, Fields]:
    """The profiling fields on a page of dcgm-exporter, in Prometheus's text format."""
    found: dict[Entity, Fields] = {}
    for name, labels, value in _METRIC.findall(text):
        if (field := _IDS.get(name)) is None or (number := _number(value)) is None:
            continue
        label = dict(_LABEL.findall(labels))
        instance = label.get("GPU_I_ID", "")
        entity = (
            label.get("UUID") or label.get("uuid") or "",
            int(instance) if instance.isdigit() else WHOLE_GPU,
        )
        found.setdefault(entity, {})[field] = number
    return found


class Monitor:
    """Reads a running `dcgmi dmon`, which prints a row for each GPU once a second.

    Args:
        process: with its output in a pipe.
    """

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self._rest = b""
        assert process.stdout is not None
        self._output = process.stdout.fileno()
        os.set_blocking(self._output, False)

    def read(self) -> Mapping[Entity, Fields] | None:
        ended = self._process.poll() is not None
        with suppress(BlockingIOError):
            while chunk := os.read(self._output, 65536):
                self._rest += chunk
        *lines, self._rest = self._rest.split(b"\n")
        return None if ended else parse_rows(line.decode(errors="replace") for line in lines)

    def close(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(2)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()


def start_monitor() -> Monitor | None:
    """Start `dcgmi dmon`, if it is installed and its daemon answers; it ends by itself when its reader is gone."""
    program = shutil.which("dcgmi")
    if program is None:
        return None
    if _answers(socket.AF_INET, DAEMON):
        host: list[str] = []
    elif _answers(socket.AF_UNIX, DAEMON_SOCKET):
        host = ["--host", f"unix://{DAEMON_SOCKET}"]
    else:
        return None
    fields = ",".join(map(str, (_UUID_FIELD, *_FIELDS)))
    command = [program, "dmon", *host, "-d", str(_PERIOD_MS), "-e", fields]
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    except OSError:
        return None
    return Monitor(process)


def parse_rows(lines: Iterable[str]) -> dict[Entity, Fields]:
    """The newest row of each GPU in the output of `dcgmi dmon`, whose columns are in the order of the fields that it was given.

    Headers and rows of other entities are skipped, values that are missing (`N/A`) or cut off are left out.
    Source: dcgmi/DeviceMonitor.cpp in https://github.com/NVIDIA/DCGM, commit 0fb66990.
    """
    found: dict[Entity, Fields] = {}
    for line in lines:
        words = line.split()
        if len(words) != 3 + len(_FIELDS) or words[0] != "GPU":
            continue
        values = {field: _number(word) for field, word in zip(_FIELDS, words[3:])}
        found[words[2], WHOLE_GPU] = {field: value for field, value in values.items() if value is not None}
    return found


def _counters(fields: Fields) -> Counters:
    sums: dict[str, float] = {}
    for field, value in fields.items():
        name = _EXPORTED[field][1]
        traffic = name.endswith("per_s")
        sums[name] = sums.get(name, 0.0) + value if traffic else min(value, 1.0)
    return Counters(DCGM, **sums)


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) and 0 <= value < _BLANK else None


def _answers(family: int, address: tuple[str, int] | str) -> bool:
    with socket.socket(family) as connection:
        connection.settimeout(_TIMEOUT_S)
        try:
            connection.connect(address)
        except OSError:
            return False
        return True
