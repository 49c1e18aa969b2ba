"""Xid events and out-of-memory kills, from the kernel log in its three forms."""

from pathlib import Path

import pytest

from gpuproof.doctor.checks.gpu_state import xid_events
from gpuproof.doctor.checks.host import oom_kills
from gpuproof.doctor.machine import Machine
from gpuproof.doctor.readings.kernel_log import read_kernel_log
from gpuproof.explain.patterns import citations
from gpuproof.findings import Severity
from gpuproof.gpu.checks.xid_events import ACTIONS
from gpuproof.gpu.xids import known_xids
from gpuproof.util.csv_table import read_package_rows
from gpuproof.util.kernel_log import parse_kernel_log
from support.gpu_states import codes, text

WANTED = [13, 31, 43, 45, 48, 61, 62, 63, 64, 74, 79, 92, 94, 95, 119, 120, 121, 140]


def log(*lines: str) -> tuple[tuple[float, str], ...]:
    return tuple((float(10 * number), line) for number, line in enumerate(lines, 1))


def xid(number: int, rest: str = "pid=1, name=python", bus: str = "0000:00:1e") -> str:
    return f"NVRM: Xid (PCI:{bus}): {number}, {rest}"


def judge(*lines: str):
    return list(
        xid_events.evaluate(
            xid_events.Reading(xid_events.find_xid_events(log(*lines)), (("0000:00:1e", "GPU 0 (L4)"),))
        )
    )


@pytest.mark.parametrize(
    ("form", "line"),
    [
        ("/dev/kmsg", "3,2001,12500000,-;" + xid(79)),
        ("dmesg", "[   12.500000] " + xid(79)),
        ("journalctl", "[   12.500000] ip-10-0-0-1 kernel: " + xid(79)),
    ],
)
def test_every_form_of_the_log_is_read(form: str, line: str):
    assert parse_kernel_log(line) == ((12.5, xid(79)),)


def test_continuation_lines_and_rubbish_are_passed_over():
    assert parse_kernel_log("3,1,1,-;one\n SUBSYSTEM=pci\n\x00\nnot a log\n") == ((1e-06, "one"),)


def test_a_log_without_read_permission_has_no_reading(tmp_path: Path):
    machine = Machine(root=tmp_path, environment={})
    assert read_kernel_log(machine) is None
    assert xid_events.read(machine) is None
    assert oom_kills.read(machine) is None


def test_a_log_without_events_has_no_finding(tmp_path: Path):
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev/kmsg").write_text("6,1,5000000,-;nvidia: module license 'NVIDIA' taints kernel.\n")
    reading = xid_events.read(Machine(root=tmp_path, environment={}))
    assert reading is not None
    assert codes(xid_events.evaluate(reading)) == []


@pytest.mark.parametrize("number", WANTED)
def test_every_xid_that_matters_is_decoded(number: int):
    (finding,) = judge(xid(number))
    assert finding.code == "D610"
    assert f"Xid {number} since boot: " in finding.message
    assert finding.remedy
    assert "{" not in finding.remedy
    assert str(finding.location) == "GPU 0 (L4)"


def test_a_program_s_fault_is_a_warning_and_hardware_s_an_error():
    assert codes(judge(xid(31))) == ["D610 warning"]
    assert codes(judge(xid(48))) == ["D610 error"]
    assert codes(judge(xid(63))) == ["D610 note"]


def test_what_follows_an_event_is_evidence_and_not_a_finding():
    (finding,) = judge(
        xid(48), xid(45), xid(154, "GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)")
    )
    assert "Xid 48" in finding.message
    assert len(finding.evidence) == 3


def test_a_single_symptom_counts_as_a_finding():
    assert codes(judge(xid(45))) == ["D610 note"]


def test_the_all_clear_of_xid_154_has_no_finding():
    assert judge(xid(154, "GPU recovery action changed from 0x1 (GPU Reset Required) to 0x0 (None)")) == []


def test_events_are_counted_for_each_gpu_and_number():
    first, second = judge(xid(79), xid(79, bus="0000:00:1d"), xid(79))
    assert "Xid 79, 2 times" in first.message
    assert str(second.location) == "The GPU at 0000:00:1d"


def test_old_drivers_write_no_pci_before_the_address():
    assert codes(judge("NVRM: Xid (0000:00:1e): 79, GPU has fallen off the bus.")) == ["D610 error"]


def test_an_unknown_xid_points_to_nvidia_s_catalogue():
    (finding,) = judge(xid(999))
    assert finding.severity is Severity.NOTE
    assert "xid-catalog" in text(finding)


def test_a_fatal_sxid_of_an_nvswitch_is_an_error_and_another_a_note():
    fatal = "nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): 20034, Fatal, Link 28 LTSSM Fault Up"
    lesser = (
        "nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): 12028, Non-fatal, Link 30 egress non-posted PRIV error"
    )
    assert codes(judge(fatal)) == ["D611 error"]
    assert codes(judge(lesser)) == ["D611 note"]


def test_each_xid_has_its_row_once_with_a_source_and_a_known_action():
    rows = read_package_rows("gpuproof.gpu", "data/xids.csv")
    assert len({row["xid"] for row in rows}) == len(rows)
    assert {row["source"] for row in rows} <= citations().keys()
    assert {known.action for known in known_xids().values()} <= ACTIONS.keys()


def test_processes_killed_for_the_machine_s_memory_are_distinguished_from_those_of_a_limit():
    machine = oom_kills.find_oom_kills(log("Out of memory: Killed process 42 (python) total-vm:1kB"))
    limit = oom_kills.find_oom_kills(
        log("Memory cgroup out of memory: Killed process 42 (python) total-vm:1kB")
    )
    (of_machine,), (of_limit,) = oom_kills.evaluate(machine), oom_kills.evaluate(limit)
    assert "host memory ran out" in of_machine.message
    assert "reached its memory limit" in of_limit.message
    assert "container's limit" in (of_limit.remedy or "")


def test_no_kills_are_no_finding():
    assert codes(oom_kills.evaluate(oom_kills.find_oom_kills(log("usb 1-1: new device")))) == []
